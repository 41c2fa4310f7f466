"""``hawkeye show``: what is in a trace."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from .._sets import RecordedSet


def show(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="The folder, such as run.hawk.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Levels of the tree of modules to show.")] = 6,
) -> int:
    """Says what a trace holds: where it was recorded, operations and formats, steps, and a tree of modules.

    Nothing is replayed. The chain of its lines and the root are checked; tensor files are not read. The exit status is
    1 where the trace is broken, else 0.

    Examples:

      hawkeye show run.hawk

      hawkeye show run.hawk --json | jq .root
    """
    from .._errors import ArgumentError
    from ._cases import opened
    from ._replay import problems, remarks
    from ._words import say

    recorded = opened(path)
    trace = recorded.trace
    if trace is None:
        raise ArgumentError(f"{path.name} is no trace, which is a folder; for a set: hawkeye golden {path.name}.")
    summary = _summary(recorded, trace)
    broken = problems(recorded)
    if as_json:
        print(json.dumps(summary, ensure_ascii=False))
    else:
        for line in _heading(recorded, summary):
            say(line)
        _tables(summary, depth)
        for line in [*broken, *remarks(recorded)]:
            say(line)
    return 1 if broken else 0


@dataclass
class _Module:
    """A module with those inside it; count and products are of all of them."""

    count: int = 0
    products: int = 0
    inside: dict[str, "_Module"] = field(default_factory=dict)

    def add(self, path: Iterable[str], products: int) -> None:
        at = self
        at.count, at.products = at.count + 1, at.products + products
        for name in path:
            at = at.inside.setdefault(name, _Module())
            at.count, at.products = at.count + 1, at.products + products

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "calls": self.count,
            "multiply_adds": self.products,
            "inside": {name: m.as_dict() for name, m in self.inside.items()},
        }


def _summary(recorded: "RecordedSet", trace: dict[str, Any]) -> dict[str, Any]:
    kinds: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    modules = _Module()
    steps: set[tuple[int, int]] = set()
    unread = 0
    for line in recorded.cases():
        try:
            products = line["batch"] * line["m"] * line["n"] * line["k"]
            kind = tuple(
                str(x)
                for x in (line["op"], line["pass"], line["a"]["format"], line["b"]["format"], line["out"]["format"])
            )
            path = [part for part in str(line["module"]).split(".") if part]
            steps.add((int(line["id"].partition("-")[0][1:]), int(line["step"])))
        except (KeyError, TypeError, ValueError):
            unread += 1
            continue
        kinds[kind][0] += 1
        kinds[kind][1] += products
        modules.add(path or ["(no module)"], products)
    numbers = {step for _, step in steps}
    files = [f.stat().st_size for f in (recorded.path / "tensors").glob("??/*.safetensors") if f.is_file()]
    return {
        "path": str(recorded.path),
        **{
            name: trace.get(name)
            for name in ("created", "torch", "device", "settings", "coverage", "sealed", "root", "ranks")
        },
        **{name: trace.get(name) for name in ("problems", "problem_count", "torn")},
        "calls": len(recorded),
        "unread": unread,
        "multiply_adds": recorded.about["multiply_adds"],
        "steps": {"count": len(numbers), "first": min(numbers, default=None), "last": max(numbers, default=None)},
        "files": {"count": len(files), "bytes": sum(files)},
        "kinds": [
            {"op": op, "pass": way, "a": a, "b": b, "out": out, "calls": count, "multiply_adds": products}
            for (op, way, a, b, out), (count, products) in sorted(kinds.items(), key=lambda item: -item[1][1])
        ],
        "modules": modules.as_dict(),
    }


def _heading(recorded: "RecordedSet", summary: dict[str, Any]) -> list[str]:
    from .._sentences import plain
    from ._replay import about_line

    steps, files, ranks = summary["steps"], summary["files"], summary["ranks"] or []
    several = f" in {len(ranks)} processes" if len(ranks) != 1 else ""
    span = f", {steps['first']} to {steps['last']}" if steps["count"] > 1 else ""
    state = "sealed" if summary["sealed"] else "not sealed"
    counted = f"{steps['count']} step{'' if steps['count'] == 1 else 's'}"
    return [
        about_line(recorded) + ".",
        plain(f"Recorded {summary['created']}, {state}; {counted}{span}{several}."),
        f"{_amount(summary['multiply_adds'])} multiply-adds; {files['count']} tensors of {_amount(files['bytes'])}B.",
        f"Root {summary['root']}",
    ]


def _amount(n: float) -> str:
    """A count with a prefix: 12.3 M."""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if n < 1000 or prefix == "P":
            break
        n /= 1000
    return f"{n:.3g} {prefix}" if prefix else f"{n:g} "


def _table(title: str, *heads: str) -> "Table":
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True, justify="right" if head in ("calls", "multiply-adds", "share") else "left")
    return table


def _tables(summary: dict[str, Any], depth: int) -> None:
    from rich.console import Console
    from rich.text import Text

    from .._sentences import plain

    console, total = Console(highlight=False), max(int(summary["multiply_adds"]), 1)

    def figures(x: dict[str, Any]) -> tuple[str, str, str]:
        return str(x["calls"]), _amount(x["multiply_adds"]).strip(), f"{x['multiply_adds'] / total:.1%}"

    kinds = _table("By operation", "op", "pass", "operands", "out", "calls", "multiply-adds", "share")
    for kind in summary["kinds"]:
        operands = kind["a"] if kind["a"] == kind["b"] else f"{kind['a']}, {kind['b']}"
        kinds.add_row(*(Text(plain(x)) for x in (kind["op"], kind["pass"], operands, kind["out"], *figures(kind))))
    modules = _table("By module", "module", "calls", "multiply-adds", "share")

    def add(inside: dict[str, Any], level: int) -> None:
        for name, module in inside.items():
            modules.add_row(Text("  " * level + plain(name)), *figures(module))
            if level + 1 < depth:
                add(module["inside"], level + 1)

    add(summary["modules"]["inside"], 0)
    for table in (kinds, modules):
        console.print()
        console.print(table)
    console.print()

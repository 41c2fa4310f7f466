"""Replaying a set with a progress bar, and showing what came of it; shared by ``demo`` and ``golden``."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import ArgumentError, FileError
from .._sets import RecordedSet, Verdict, open_set

if TYPE_CHECKING:
    from rich.table import Table

OK = 0
WRONG = 1
_VERDICTS = ("exact", "undecided", "wrong")


def run(
    path: Path, *, as_json: bool, only: list[str], threads: int, stories: int = 0, write_expected: bool = False
) -> int:
    """Replays the set and returns the exit status."""
    if not path.is_file():
        raise FileError(
            f"{path} is a folder: name a set, FILE.jsonl." if path.is_dir() else f"There is no file {path}."
        )
    recorded = open_set(path)
    expected = recorded.expected()
    if write_expected and only:
        raise ArgumentError("--write-expected lists a whole set: leave out --only.")
    verdicts = _json_lines(recorded, only, threads) if as_json else _with_progress(recorded, only, threads)
    if not as_json:
        _show(recorded, verdicts, verdicts if only else telling(verdicts, stories))
    if write_expected:
        _write_expected(recorded, verdicts)
        expected = None
    return _conclude(verdicts, expected, quiet=as_json)


def _indices(recorded: RecordedSet, only: list[str]) -> list[int]:
    """The cases to replay. Ids are read from the set's own lines, so that --only replays nothing else."""
    if not only:
        return list(range(len(recorded)))
    ids = {identity(line): index for index, line in enumerate(case_lines(recorded))}
    unknown = [name for name in only if name not in ids]
    if unknown:
        raise ArgumentError(
            f"{recorded.path.name} has no case {', '.join(unknown)}; its ids look like {next(iter(ids), '(none)')}."
        )
    return sorted({ids[name] for name in only})


def case_lines(recorded: RecordedSet) -> list[dict[str, Any]]:
    """The set's lines, one a case, in the order of the cases' indices."""
    with recorded.path.open(encoding="utf-8") as lines:
        objects = [json.loads(line) | {"line": number} for number, line in enumerate(lines, 1) if line.strip()]
    return [case for case in objects if not case.get("about")]


def identity(case: dict[str, Any]) -> str:
    """A case's id as verdicts have it: its own, or one made of what it is."""
    if "instruction" in case:
        return "{gpu}-{format}-{out}-k{k}-{instruction}".format(**case)
    return str(case.get("id") or f"line-{case['line']}")


def _json_lines(recorded: RecordedSet, only: list[str], threads: int) -> list[Verdict]:
    verdicts = []
    for index in _indices(recorded, only):
        verdict = recorded.replay(index, threads=threads)
        verdicts.append(verdict)
        print(json.dumps(verdict.details, ensure_ascii=False), flush=True)
    return verdicts


def _with_progress(recorded: RecordedSet, only: list[str], threads: int) -> list[Verdict]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    indices = _indices(recorded, only)
    verdicts: list[Verdict] = []
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # On standard error: standard output then holds the tables alone, also when it goes to a file.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"Replaying {recorded.path.name}", total=len(indices))
        for index in indices:
            verdicts.append(recorded.replay(index, threads=threads))
            bar.advance(task)
    return verdicts


# ---- tables -------------------------------------------------------------------------------------------------------


def _show(recorded: RecordedSet, verdicts: list[Verdict], told: list[Verdict]) -> None:
    """The tables, and what there is to say of the cases told one by one."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(about_line(recorded)))
    console.print()
    console.print(_table("By operation and number formats", ("op", "dtype"), verdicts, lambda v: (v.op, dtypes(v))))
    if any(v.family != "other" for v in verdicts):
        console.print()
        console.print(_table("By kernel family", ("family",), verdicts, lambda v: (v.family,)))
    lines = {identity(line): line for line in case_lines(recorded)} if told else {}
    for v in told:
        console.print()
        console.print(Text(story(v, lines.get(v.id, {}))))
    wrong = [v for v in verdicts if v.verdict == "wrong" and v not in told]
    if wrong:
        console.print()
    for v in wrong:
        console.print(Text(f"{v.id} {v.verdict}: {v.reason}"))


def about_line(recorded: RecordedSet) -> str:
    """Where the set comes from, in one line."""
    about = recorded.about.get("about")
    cases = f"{len(recorded)} recorded case{'' if len(recorded) == 1 else 's'}"
    if not isinstance(about, dict) or not about:
        return f"{recorded.path.name}: {cases}"
    machine = about.get("gpu", "?")
    versions = ", ".join(f"{k} {v}" for k, v in about.items() if k in ("torch", "cuda", "nvidia-cublas"))
    return f"{recorded.path.name}: {cases} of an {machine}" + (f" ({versions})" if versions else "")


def dtypes(v: Verdict) -> str:
    """The operands' formats and, where it differs, the output's."""
    return v.dtype if v.out in ("", v.dtype) else f"{v.dtype} -> {v.out}"


def _table(
    title: str, heads: tuple[str, ...], verdicts: list[Verdict], key: Callable[[Verdict], tuple[str, ...]]
) -> Table:
    from rich.table import Table

    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        groups[key(v)].append(v)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for head in ("cases", *_VERDICTS, "GMAC/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for name in sorted(groups):
        table.add_row(*name, *_counts(groups[name]))
    table.add_section()
    table.add_row("all", *("" for _ in heads[1:]), *_counts(verdicts), style="bold")
    return table


def _counts(verdicts: list[Verdict]) -> list[str]:
    tally = [sum(v.verdict == name for v in verdicts) for name in _VERDICTS]
    return [str(len(verdicts)), *(str(n) if n else "-" for n in tally), rate(verdicts)]


def rate(verdicts: Iterable[Verdict]) -> str:
    """Multiply-adds a second over several cases, in their last whole replays: searches for a plan do not count."""
    chosen = [v for v in verdicts if v.seconds > 0]  # an undecided case may not have been run whole
    seconds = sum(v.seconds for v in chosen)
    return f"{sum(v.multiply_adds for v in chosen) / seconds / 1e9:.2f}" if seconds > 0 else "-"


def telling(verdicts: list[Verdict], count: int) -> list[Verdict]:
    """The cases most worth a sentence.

    One that is wrong or lacks products, one reproduced by the plan that its kernel's name says, one whose plan was
    searched for, one that stays open.
    """

    def tried(v: Verdict) -> int:
        return int(v.details.get("plans_tried") or 0)

    exact = sorted((v for v in verdicts if v.verdict == "exact"), key=lambda v: v.multiply_adds)
    pools = (
        [v for v in verdicts if v.verdict == "wrong"],
        [v for v in verdicts if "missing" in v.reason],
        [v for v in exact if tried(v) <= 1][::-1],
        sorted((v for v in exact if tried(v) > 1), key=tried, reverse=True),
        sorted((v for v in verdicts if v.verdict == "undecided"), key=lambda v: -v.multiply_adds),
        exact[::-1],
    )
    picked: list[Verdict] = []
    for pool in pools:
        fresh = [v for v in pool if v not in picked]
        if fresh and len(picked) < count:
            picked.append(fresh[0])
    return picked


def story(v: Verdict, case: dict[str, Any]) -> str:
    """One case in one sentence; ``case`` is its line in the set."""
    sizes = [case[name] for name in ("m", "k", "n") if name in case]
    size = f", {sizes[0]}x{sizes[1]} by {sizes[1]}x{sizes[2]}" if len(sizes) == 3 else ""
    if int(case.get("batch") or 1) > 1:
        size += f" in a batch of {case['batch']}"
    what = f"{v.id} ({v.op} of {dtypes(v)}{size})"
    if v.verdict != "exact":
        return f"{what} is {v.verdict}: {(v.reason or 'no reason was given').rstrip('.')}."
    tried = int(v.details.get("plans_tried") or 0)
    plan = (v.plan or "its plan").rstrip(".")
    how = f"with the one of {tried} plans tried that fits" if tried > 1 else "with the plan its kernel's name says"
    compared = v.details.get("compared")
    proof = f" ({compared})" if compared else ""
    return f"{what} is reproduced to the last bit{proof} {how}: {plan}."


# ---- the end ------------------------------------------------------------------------------------------------------


def _conclude(verdicts: list[Verdict], expected: frozenset[str] | None, *, quiet: bool) -> int:
    wrong = [v.id for v in verdicts if v.verdict == "wrong"]
    missed = [v.id for v in verdicts if expected is not None and v.id in expected and v.verdict != "exact"]
    out = sys.stderr if quiet else sys.stdout
    if wrong:
        print(f"\n{len(wrong)} wrong: {_some(wrong)}", file=out)
    if missed:
        print(f"\n{len(missed)} expected to be exact, and not: {_some(missed)}", file=out)
    if not wrong and not missed and not quiet:
        held = (
            "" if expected is None else f", and all {sum(v.id in expected for v in verdicts)} expected to be exact are"
        )
        print(f"\nNothing is wrong{held}.", file=out)
    return WRONG if wrong or missed else OK


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _write_expected(recorded: RecordedSet, verdicts: list[Verdict]) -> None:
    exact = sorted(v.id for v in verdicts if v.verdict == "exact")
    where = recorded.path.with_suffix(".expected")
    head = f"# Cases of {recorded.path.name} whose replay must be exact; written by hawkeye golden --write-expected.\n"
    where.write_text(head + "".join(f"{name}\n" for name in exact), encoding="utf-8")
    print(f"\n{len(exact)} cases listed in {where}.")

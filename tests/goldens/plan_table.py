"""Write docs/golden-plans.md: the plan of every golden case, grouped by kernel pattern, formats, layout and plan.

    python tests/goldens/plan_table.py VERDICTS > docs/golden-plans.md

VERDICTS is what `hawkeye golden tests/goldens/h200-torch2.11.jsonl --json` prints (make golden-plans does both).
"""

from __future__ import annotations

import collections
import json
import pathlib
import re
import sys
from typing import Any

SET = pathlib.Path(__file__).with_name("h200-torch2.11.jsonl")
HEAD = """# The plan of every golden case

{total} products recorded on an {gpu} (torch {torch}, cuBLAS {cublas}), replayed from the names and launches of their
kernels: {counts}. Cases with the same kernel pattern, operands, layout and plan share a line; `*` stands for tile sizes
and the like. *Evidence* is the least of the line's cases, in bits ([verdicts.md](verdicts.md)); the families are
explained in [arithmetic.md](arithmetic.md). Written by `make golden-plans`.
"""


def pattern(kernels: list[str]) -> str:
    """The names of the kernels that compute, without what changes from tile to tile."""
    names = []
    for kernel in kernels:
        name = kernel.removeprefix("void ").removeprefix("cutlass::Kernel2<")
        if "elementwise_kernel" in name:
            continue
        name = "gemvx::kernel" if "gemvx::kernel" in name else re.split(r"[<(>]", name)[0]
        name = name.removeprefix("cublasLt::").replace("epilogue::impl::", "")
        name = re.sub(r"(nvjet_sm90_[a-z]+)_.*?(_bias|_badd|_bx)?(_splitK)?(_bias|_algo2)?(_[TN]{3})?$", nvjet, name)
        name = re.sub(r"_\d+x\d+(_\d+x\d+)?", "_*", name)
        name = re.sub(r"tilesize(\d+)x(\d+)x(\d+)", "tilesize*", name)
        name = re.sub(r"_(stage|warpsize|warpgroupsize|aligna|alignc|align)[0-9x]+", "", name)
        names.append(re.sub(r"_(nn|nt|tn|tt)(?=_|$)(_n)?", "", name).replace("__5x_cublas", ""))
    return " + ".join(names)


def nvjet(match: re.Match[str]) -> str:
    whole = match.group(0)
    marks = [mark for mark in ("_bias", "_badd", "_bx", "_splitK", "_algo2") if mark in whole]
    return match.group(1) + "_*" + "".join(marks)


def slices(plan: str) -> tuple[str, str]:
    """The plan with S for its number of slices (lanes that slices deal their tiles to included), and that number."""
    counted = re.match(r"(\d+) (slices|serial slices)\b", plan)
    return (f"S {plan[counted.start(2) :]}", counted.group(1)) if counted else (plan, "")


def listed(verdicts: list[dict[str, Any]]) -> str:
    """The cases, those of one number of slices together: S = 2: 0012 0345; S = 4: 0078."""
    groups: dict[str, list[str]] = collections.defaultdict(list)
    for verdict in verdicts:
        groups[verdict["slices"]].append(verdict["id"].removeprefix("dev-"))
    ordered = sorted(groups.items(), key=lambda item: int(item[0] or 0))
    return "; ".join((f"S = {number}: " if number else "") + " ".join(ids) for number, ids in ordered)


def main() -> int:
    lines = [json.loads(line) for line in SET.read_text().splitlines() if line]
    about = lines[0]["about"]
    cases = {line["id"]: line for line in lines if "id" in line}
    found: dict[tuple[str, ...], list[dict[str, Any]]] = collections.defaultdict(list)
    counts: collections.Counter[str] = collections.Counter()
    for text in pathlib.Path(sys.argv[1]).read_text().splitlines():
        verdict = json.loads(text)
        case = cases.get(verdict.get("id"))
        if case is None or "verdict" not in verdict:
            continue
        counts[verdict["verdict"]] += 1
        formats = f"{verdict['dtype']} → {verdict['out']}"
        plan = verdict.get("plan") or verdict["verdict"]
        if verdict["verdict"] != "exact":
            plan = f"**{verdict['verdict']}**: {verdict['reason']}"
        plan, verdict["slices"] = slices(plan)
        found[pattern(case["kernels"]), formats, case["layout"], plan].append(verdict)
    summary = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("exact", "undecided", "wrong"))
    head = HEAD.format(
        total=sum(counts.values()),
        gpu=about["gpu"],
        torch=about["torch"],
        cublas=about["nvidia-cublas"],
        counts=summary,
    )
    print(head)
    print("| kernels | operands → output | layout | plan | evidence | cases |")
    print("|---|---|---|---|---|---|")
    for key in sorted(found):
        verdicts = found[key]
        evidence = min(verdict["evidence_bits"] for verdict in verdicts)
        print(f"| `{key[0]}` | {key[1]} | {key[2]} | {key[3]} | {evidence:,.0f} | {listed(verdicts)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())

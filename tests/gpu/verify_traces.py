"""Verifies the traces that record_workloads.py wrote, without a GPU: how many lines are exact, and what the others are.

    python tests/gpu/verify_traces.py FOLDER --out verdicts.json

FOLDER holds traces, NAME.hawk each. With --part OUT the lines of each trace that a key chooses first are also written
there as far as --part-bytes allow, so that they can be verified on another machine: the index is whole, and ``hawkeye
verify OUT/NAME.hawk --sample COUNT --key KEY`` verifies the same lines (the program prints COUNT).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

os.environ["CUDA_VISIBLE_DEVICES"] = ""

import hawkeye
from hawkeye._challenge import Challenge


def lines(trace: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for path in sorted(trace.glob("rank-*.jsonl")) for line in path.read_text().splitlines()]


def files(line: dict[str, Any]) -> set[str]:
    return {entry["file"] for entry in line.values() if isinstance(entry, dict) and "file" in entry}


def part(trace: Path, out: Path, key: str, most: int) -> int:
    """Copies what a key chooses first; how many lines that is."""
    tensors, challenge = trace / "tensors", Challenge(key, 1.0)
    calls: dict[tuple[int, int], set[str]] = {}
    for line in lines(trace):
        rank, _, number = line["id"][1:].partition("-")
        calls[int(rank), int(number)] = files(line)
    out.mkdir(mode=0o700, parents=True)
    for path in trace.glob("*.json*"):
        shutil.copy(path, out)
    total, count, there = 0, 0, set()
    for call in sorted(calls, key=lambda c: challenge.number(*c)):
        new = [tensors / name[:2] / f"{name}.safetensors" for name in calls[call] - there]
        total += sum(path.stat().st_size for path in new)
        if total > most:
            break
        for path in new:
            (out / path.relative_to(trace)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, out / path.relative_to(trace))
        there |= calls[call]
        count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="of traces in it (default: all)")
    parser.add_argument("--out", type=Path, help="verdicts that are not exact, and counts, as JSON")
    parser.add_argument("--blind", action="store_true", help="leave kernel names unread")
    parser.add_argument("--threads", type=int, help="(default: all processors)")
    parser.add_argument("--part", type=Path, metavar="OUT", help="where a part of each trace goes")
    parser.add_argument("--part-bytes", type=int, default=9_000_000, help="of a trace's part (default 9000000)")
    parser.add_argument("--key", default="part", help="that chooses it (default part)")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    status = 0
    print(f"{'trace':12}  lines  exact  undecided  wrong  broken  G multiply-adds  seconds", flush=True)
    for trace in sorted(options.folder.glob("*.hawk")):
        if options.names and trace.stem not in options.names:
            continue
        start = time.perf_counter()
        report = hawkeye.verify(trace, blind=options.blind, threads=options.threads)
        seconds = time.perf_counter() - start
        counts, work = report.counts, sum(v.multiply_adds for v in report.verdicts)
        rest = {v.id: v.details for v in [*report.wrong, *report.undecided]}
        recorded = {line["id"]: line for line in lines(trace) if line["id"] in rest}
        results[trace.stem] = {
            "counts": counts,
            "problems": report.problems,
            "root": report.root,
            "multiply_adds": work,
            "seconds": seconds,
            "rest": [{"verdict": rest[name], "line": recorded.get(name)} for name in rest],
        }
        print(
            f"{trace.stem:12}  {report.total:5}  {counts['exact']:5}  {counts['undecided']:9}  {counts['wrong']:5}"
            f"  {len(report.problems):6}  {work / 1e9:15.2f}  {seconds:7.1f}",
            flush=True,
        )
        for verdict in rest.values():
            print(f"  {verdict['id']} {verdict['op']} {verdict['verdict']}: {verdict.get('reason')}")
        status = max(status, int(bool(counts["wrong"] or report.problems)))
        if options.part:
            count = part(trace, options.part / trace.name, options.key, options.part_bytes)
            print(f"  part: --sample {count} --key {options.key}", flush=True)
        if options.out:
            options.out.write_text(json.dumps(results), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())

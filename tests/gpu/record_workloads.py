"""Record the workloads of workloads.py, and check that recording changed nothing.

    python tests/gpu/record_workloads.py --out FOLDER                      all of them on the GPU
    python tests/gpu/record_workloads.py gpt-bf16 decode --out FOLDER --steps 4 --fraction 0.25 --outputs samples
    python tests/gpu/record_workloads.py --out FOLDER --device cpu --small a trial on the CPU

Each workload runs twice, plain and recorded into FOLDER/NAME.hawk, after a short run that warms up. Checked are

* that the hash of the final weights and outputs is the same (all bits of them);
* with --kernels-equal, in a short run of each kind under torch's profiler, that the same kernels multiplied, in the
  same order on each stream: recording may add copies and nothing else;
* that operands overwritten in place right after a product are in the trace as they were (in_place.py).

Prints a table, writes FOLDER/results.json, and ends with status 1 where a check failed. Verify the traces anywhere:
hawkeye verify FOLDER/NAME.hawk
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import common
import hawkeye
import in_place
import kernel_names
import torch
import workloads

HEAD = ["workload", "steps", "recorded", "skipped", "dropped", "missed", "MB", "bytes/madd"]
HEAD += ["s:plain", "s:recorded", "s:+writing", "digests", "kernels"]


def run(name: str, device: str, small: bool, steps: int | None, recorder: Any = None) -> tuple[str, int]:
    """The hash of a workload's results, and how many steps it took."""
    count = 0

    def on_step(_: int) -> None:
        nonlocal count
        count += 1
        if recorder is not None and name == "decode":  # which has no optimizer that would count steps
            recorder.step()

    chosen: dict[str, Any] = {} if steps is None else {"steps": steps}
    digest = workloads.digest(workloads.WORKLOADS[name](device, small=small, on_step=on_step, **chosen))
    common.synchronize(device)
    return digest, count


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def recorded(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One workload plain and recorded."""
    device, small, steps = options.device, options.small, options.steps
    run(name, device, small, 2)  # loads and allocates what the first run would pay for
    (plain, count), plain_seconds = timed(lambda: run(name, device, small, steps))
    start = time.perf_counter()
    with hawkeye.record(
        folder,
        every=options.every,
        fraction=options.fraction,
        seed=options.seed,
        outputs=options.outputs,
        kernels=options.kernels,
        max_bytes=options.max_bytes,
        display=False,
    ) as rec:
        digest, _ = run(name, device, small, steps, rec)
        run_seconds = time.perf_counter() - start
    total_seconds = time.perf_counter() - start
    calls = common.lines(folder)
    work, coverage, size = sum(map(common.multiply_adds, calls)), rec.coverage(), common.size(folder)
    return {
        "steps": count,
        "coverage": coverage,
        "lines": len(calls),
        "multiply_adds": work,
        "bytes": size,
        "bytes_per_multiply_add": size / work if work else None,
        "seconds_plain": plain_seconds,
        "seconds_recorded": run_seconds,
        "seconds_recorded_and_written": total_seconds,
        "digest": plain,
        "digest_recorded": digest,
        "digests_equal": plain == digest,
        "root": rec.root,
        "failure": repr(rec.failure) if rec.failure else "",
        "lines_with_kernels": sum("kernels" in line for line in calls),
    }


def kernels(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Whether the same kernels multiply with recording and without."""
    steps = options.kernel_steps

    def under_record() -> None:
        with tempfile.TemporaryDirectory() as folder, hawkeye.record(Path(folder) / "run.hawk", display=False) as rec:
            run(name, options.device, options.small, steps, rec)

    plain = kernel_names.of(lambda: run(name, options.device, options.small, steps))
    seen = kernel_names.of(under_record)
    difference = kernel_names.difference(plain, seen)
    counts = {stream: len(names) for stream, names in plain.items()}
    distinct = sorted({n for names in plain.values() for n in names})
    return {"kernels_equal": not difference, "difference": difference, "kernels": counts, "names": distinct}


def row(name: str, r: dict[str, Any]) -> list[Any]:
    if "error" in r:
        return [name, *["-"] * (len(HEAD) - 3), "error", "-"]
    c, words = r["coverage"], {True: "equal", False: "DIFFER", None: "-"}
    ratio = r["bytes_per_multiply_add"]
    return [
        name,
        r["steps"],
        c["recorded"],
        sum(c["skipped"].values()),
        c["dropped"],
        "-" if c["missed"] == "not measured" else c["missed"],
        f"{r['bytes'] / 1e6:.1f}",
        "-" if ratio is None else f"{ratio:.5f}",
        f"{r['seconds_plain']:.2f}",
        f"{r['seconds_recorded']:.2f}",
        f"{r['seconds_recorded_and_written']:.2f}",
        words[r["digests_equal"]],
        words[r.get("kernels_equal")],
    ]


def sound(r: dict[str, Any]) -> bool:
    """Whether nothing is wrong with a workload's recording; with few steps of many, that none was sampled is not."""
    good = "error" not in r and not r["failure"] and r["root"] and r["digests_equal"]
    return bool(good and r["coverage"]["recorded"] == r["lines"] and r.get("kernels_equal", True))


def attempt(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Its result, or the error in words: one workload that fails must not cost the others."""
    try:
        return work()
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def in_place_check(options: argparse.Namespace) -> dict[str, Any]:
    rows, rounds = options.in_place_rows or (96 if options.small else 1536), options.in_place
    with tempfile.TemporaryDirectory() as folder:
        wrong = in_place.check(Path(folder) / "run.hawk", options.device, rounds, rows)
    return {"rounds": rounds, "rows": rows, "ways": in_place.WAYS, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(workloads.WORKLOADS)} (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="folder of the traces and of results.json")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="a tiny size")
    parser.add_argument("--steps", type=int, help="how many steps (default: each its own)")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--fraction", type=float, default=1.0)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--outputs", default="hash", choices=("hash", "samples", "full"))
    parser.add_argument("--kernels", action="store_true", help="record the names of kernels")
    parser.add_argument("--max-bytes", type=int, help="of each trace")
    parser.add_argument("--kernels-equal", action="store_true", help="compare the kernels that ran")
    parser.add_argument("--kernel-steps", type=int, default=2, help="steps of that run (default 2)")
    parser.add_argument("--in-place", type=int, default=24, metavar="N", help="products overwritten at once; 0: none")
    parser.add_argument("--in-place-rows", type=int, help="their size (default 1536, small 96)")
    parser.add_argument("--overwrite", action="store_true", help="remove traces of these names first")
    options = parser.parse_args()
    unknown = set(options.names) - set(workloads.WORKLOADS)
    if unknown:
        parser.error(f"no workload is called {', '.join(sorted(unknown))}")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here: --device cpu --small is a trial")
    if options.kernels_equal and options.device != "cuda":
        parser.error("--kernels-equal compares kernels of a GPU: it needs --device cuda")
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
    results: dict[str, Any] = {"machine": common.machine(options.device), "settings": settings, "workloads": {}}
    good = True
    for name in options.names or workloads.WORKLOADS:
        folder = options.out / f"{name}.hawk"
        if options.overwrite:
            shutil.rmtree(folder, ignore_errors=True)
        result = attempt(lambda n=name, f=folder: recorded(n, options, f))
        if options.kernels_equal and "error" not in result:
            result |= attempt(lambda n=name: kernels(n, options))
        good = sound(result) and good
        results["workloads"][name] = result
        common.write_json(options.out / "results.json", results)
        print(common.table(HEAD, [row(name, result)]), flush=True)
    if options.in_place:
        checked = attempt(lambda: in_place_check(options))
        results["in_place"] = checked
        good = good and not checked.get("wrong", ["error"])
    results["good"] = good
    common.write_json(options.out / "results.json", results)
    print("\n" + common.table(HEAD, [row(n, r) for n, r in results["workloads"].items()]))
    for name, r in results["workloads"].items():
        for text in (r.get("error"), r.get("failure"), r.get("difference")):
            if text:
                print(f"{name}: {text}")
        if "error" not in r and r["coverage"]["skipped"]:
            print(f"{name}: skipped {r['coverage']['skipped']}")
    if options.in_place:
        for text in checked.get("wrong", [])[:20]:
            print(f"in place: {text}")
        words = checked.get("error") or ("DIFFER" if checked["wrong"] else "as they were at the call")
        print(f"operands overwritten right after {options.in_place} products: {words}")
    print("all is well" if good else "FAILED")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

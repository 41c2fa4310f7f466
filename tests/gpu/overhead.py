"""What recording costs: workload (a), a small GPT trained in bf16, with recording and without, in turns.

    python tests/gpu/overhead.py --out RESULTS.json                         on the GPU
    python tests/gpu/overhead.py --out RESULTS.json --device cpu --small --steps 100 --rounds 2 --samples 5   a trial

average   N steps plain and N recorded, one step in 100 sampled, in alternating order, R times: until the last step is
          done, and until all is written and the trace is sealed
step      single steps in turns: plain, under an empty TorchDispatchMode, sampled (outputs as hashes, or with samples).
          Only the step is timed, the device idle before and after; a recorder a step, so that nothing is being written
          when the next one begins
size      bytes written a sampled step and a multiply-add
memory    the most memory of a fresh process: plain, one step in 100 sampled, every step sampled

Figures are medians, with the quartiles. Tables are printed, everything goes into RESULTS.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import common
import hawkeye
import torch
import workloads
from hawkeye.record._sampling import Sampling
from torch.utils._python_dispatch import TorchDispatchMode

EVERY = 100


class Empty(TorchDispatchMode):
    """The least that seeing every operator costs."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def training(options: argparse.Namespace) -> workloads.GPTTraining:
    return workloads.GPTTraining(options.device, 20, options.small, torch.bfloat16)


def seeds(steps: int) -> Iterator[int]:
    """Seeds that sample exactly one step in 100 of so many, and not the one that begins after the last."""
    for seed in itertools.count():
        sampling = Sampling(EVERY, 1.0, seed, 0)
        sampled = [step for step in range(steps + 1) if sampling.step(step)]
        if len(sampled) == steps // EVERY and sampled[-1] < steps:
            yield seed


def quartiles(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"median": values[0], "low": values[0], "high": values[0]}
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def text(q: dict[str, float], scale: float = 1.0, digits: int = 2) -> str:
    return f"{q['median'] * scale:.{digits}f} ({q['low'] * scale:.{digits}f} to {q['high'] * scale:.{digits}f})"


class Clock:
    """Wall time with the device idle at both ends."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __call__(self, work: Callable[[], Any]) -> float:
        common.synchronize(self.device)
        start = time.perf_counter()
        work()
        common.synchronize(self.device)
        return time.perf_counter() - start


def repeat(work: Callable[[], Any], times: int) -> None:
    for _ in range(times):
        work()


# ---- the average step -----------------------------------------------------------------------------------------------


def average(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    train, clock, steps = training(options), Clock(options.device), options.steps
    choose = seeds(steps)
    repeat(train.step, 10)
    rounds = []

    def plain() -> float:
        return clock(lambda: repeat(train.step, steps))

    def recorded() -> tuple[float, float, int]:
        folder = work / "average.hawk"
        common.synchronize(options.device)
        start = time.perf_counter()
        with hawkeye.record(folder, every=EVERY, seed=next(choose), outputs="hash", display=False) as rec:
            clock(lambda: repeat(train.step, steps))
            done = time.perf_counter() - start
        written = time.perf_counter() - start
        c = rec.coverage()
        if c["steps"]["sampled"] != steps // EVERY or c["dropped"] or rec.failure or not c["recorded"]:
            raise RuntimeError(f"not all was recorded: {c}, {rec.failure}")
        shutil.rmtree(folder)
        return done, written, c["recorded"]

    recorded()  # loads what the first recording would pay for
    plain()
    for turn in range(options.rounds):
        if turn % 2:
            done, written, calls = recorded()
            alone = plain()
        else:
            alone = plain()
            done, written, calls = recorded()
        rounds.append({"plain": alone, "recorded": done, "written": written, "calls": calls})
        print(f"round {turn}: {alone:.3f} s plain, {done:.3f} s recorded, {written:.3f} s with writing", flush=True)
    sampled = steps // EVERY
    return {
        "steps": steps,
        "sampled": sampled,
        "rounds": rounds,
        "plain_step": quartiles([r["plain"] / steps for r in rounds]),
        "ratio_done": quartiles([r["recorded"] / r["plain"] for r in rounds]),
        "ratio_written": quartiles([r["written"] / r["plain"] for r in rounds]),
        "seconds_more_a_sampled_step": quartiles([(r["recorded"] - r["plain"]) / sampled for r in rounds]),
    }


# ---- single steps ---------------------------------------------------------------------------------------------------


def single(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    train, clock = training(options), Clock(options.device)
    names = itertools.count()
    sizes: dict[str, list[dict[str, int]]] = {"hash": [], "samples": []}

    def empty() -> float:
        with Empty():
            return clock(train.step)

    def sampled(outputs: str) -> float:
        folder = work / f"step-{next(names)}.hawk"
        with hawkeye.record(folder, outputs=outputs, display=False) as rec:
            seconds = clock(train.step)
        if rec.failure or rec.coverage()["dropped"] or not rec.coverage()["recorded"]:
            raise RuntimeError(f"not all was recorded: {rec.coverage()}, {rec.failure}")
        calls = common.lines(folder)
        madds = sum(map(common.multiply_adds, calls))
        sizes[outputs].append({"bytes": common.size(folder), "calls": len(calls), "multiply_adds": madds})
        shutil.rmtree(folder)
        return seconds

    kinds: dict[str, Callable[[], float]] = {
        "plain": lambda: clock(train.step),
        "empty mode": empty,
        "sampled, hash": lambda: sampled("hash"),
        "sampled, samples": lambda: sampled("samples"),
    }
    for kind in kinds.values():
        repeat(kind, 3)
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(options.samples):
        order = list(kinds)
        for name in order[turn % len(order) :] + order[: turn % len(order)]:
            seconds[name].append(kinds[name]())
    result: dict[str, Any] = {"seconds": seconds}
    result["quartiles"] = {name: quartiles(values) for name, values in seconds.items()}
    medians = {name: q["median"] for name, q in result["quartiles"].items()}
    result["to_plain"] = {name: value / medians["plain"] for name, value in medians.items()}
    result["to_empty"] = {name: value / medians["empty mode"] for name, value in medians.items()}
    result["pairs_to_empty"] = {
        name: quartiles([v / e for v, e in zip(values, seconds["empty mode"])]) for name, values in seconds.items()
    }
    result["size"] = {outputs: of[-1] for outputs, of in sizes.items()}
    return result


# ---- bytes and memory -----------------------------------------------------------------------------------------------


def written(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Bytes of a trace of several sampled steps, whose unchanged tensors are stored once."""
    found: dict[str, Any] = {}
    for outputs in ("hash", "samples"):
        train, folder, steps = training(options), work / f"size-{outputs}.hawk", 4
        with hawkeye.record(folder, outputs=outputs, display=False):
            repeat(train.step, steps)
            common.synchronize(options.device)
        lines = common.lines(folder)
        madds, size = sum(map(common.multiply_adds, lines)), common.size(folder)
        index = sum(path.stat().st_size for path in folder.glob("rank-*.jsonl"))
        found[outputs] = {
            "steps": steps,
            "calls": len(lines),
            "bytes": size,
            "index_bytes": index,
            "multiply_adds": madds,
            "bytes_per_step": size / steps,
            "bytes_per_multiply_add": size / madds,
        }
        shutil.rmtree(folder)
    return found


def peak() -> dict[str, int]:
    """This process's most memory in bytes. ru_maxrss also counts what the parent had when it started this one, so the
    kernel's own mark of this program is asked for too.
    """
    found = {"ru_maxrss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return {"peak": found["ru_maxrss"], **found, **({"peak": mark} if (mark := highest("self")) else {})}


def highest(process: int | str) -> int:
    """The kernel's mark of the most memory of a process, in bytes; 0 where it has none."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def memory_child(options: argparse.Namespace) -> None:
    """In a process of its own: so many steps, recorded one in so many (0: not at all); prints its peak."""
    train, (every, steps) = training(options), options.memory_child
    writer = 0
    with tempfile.TemporaryDirectory(dir=options.work) as work:
        if every == 0:
            repeat(train.step, steps)
        else:
            seed = next(seeds(steps)) if every == EVERY else 0
            with hawkeye.record(Path(work) / "run.hawk", every=every, seed=seed, display=False) as rec:
                repeat(train.step, steps)
                common.synchronize(options.device)
                time.sleep(2)  # until the process that writes has had its largest batch
                writer = highest(rec._writer._process.pid)
        common.synchronize(options.device)
    found = {**peak(), "writer": writer}
    if options.device == "cuda":
        found["gpu"] = torch.cuda.max_memory_allocated()
    print(json.dumps(found))


def memory(options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, every, steps in (("plain", 0, EVERY), ("one in 100", EVERY, EVERY), ("every step", 1, 10)):
        command = [sys.executable, __file__, "--device", options.device, "--memory-child", str(every), str(steps)]
        command += ["--small"] if options.small else []
        command += ["--work", str(options.work)] if options.work else []
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the process for memory ({name}) failed:\n{done.stderr}")
        found[name] = {"steps": steps, **json.loads(done.stdout.splitlines()[-1])}
    return found


# ---- tables ---------------------------------------------------------------------------------------------------------


def show(results: dict[str, Any]) -> None:
    if "memory" in results:
        rows = [
            [
                name,
                m["steps"],
                f"{m['peak'] / 2**20:.0f}",
                f"{m['writer'] / 2**20:.0f}" if m["writer"] else "-",
                f"{m['gpu'] / 2**20:.0f}" if "gpu" in m else "-",
            ]
            for name, m in results["memory"].items()
        ]
        print(
            "\n"
            + common.table(["memory", "steps", "MiB of the host", "of the writing process", "MiB of the GPU"], rows)
        )
    if "average" in results:
        a = results["average"]
        rows = [
            ["a plain step, ms", text(a["plain_step"], 1e3)],
            ["recorded / plain, until the last step is done", text(a["ratio_done"], digits=4)],
            ["recorded / plain, all written", text(a["ratio_written"], digits=4)],
            ["more time a sampled step, ms", text(a["seconds_more_a_sampled_step"], 1e3)],
        ]
        head = f"{a['steps']} steps, {a['sampled']} sampled, {len(a['rounds'])} rounds"
        print("\n" + common.table([head, "median (quartiles)"], rows))
    if "step" in results:
        s = results["step"]
        rows = [
            [
                name,
                text(q, 1e3),
                *(f"{s[to][name]:.2f}" for to in ("to_plain", "to_empty")),
                text(s["pairs_to_empty"][name]),
            ]
            for name, q in s["quartiles"].items()
        ]
        head = ["a single step", "ms, median (quartiles)", "/ plain", "/ empty mode", "pairs: / empty mode"]
        print("\n" + common.table(head, rows))
    if "size" in results:
        rows = [
            [
                f"outputs {name}",
                z["steps"],
                z["calls"],
                f"{z['bytes_per_step'] / 1e6:.2f}",
                f"{z['index_bytes'] / z['steps'] / 1e3:.1f}",
                f"{z['bytes_per_multiply_add']:.6f}",
            ]
            for name, z in results["size"].items()
        ]
        head = ["bytes written", "steps", "calls", "MB a step", "kB a step of it lines", "bytes a multiply-add"]
        print("\n" + common.table(head, rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="of memory, average, step, size (default: all)")
    parser.add_argument("--out", type=Path, help="the results, as JSON")
    parser.add_argument("--work", type=Path, help="where traces are written and removed (default: a temporary folder)")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--small", action="store_true", help="a tiny size")
    parser.add_argument("--steps", type=int, default=300, help="N of the average, in hundreds (default 300)")
    parser.add_argument("--rounds", type=int, default=8, help="R of the average (default 8)")
    parser.add_argument("--samples", type=int, default=40, help="single steps of each kind (default 40)")
    parser.add_argument("--memory-child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    parts: dict[str, Callable[[Path], Any]] = {
        "memory": lambda _: memory(options),  # first: processes start from what this one has by then
        "average": lambda work: average(options, work),
        "step": lambda work: single(options, work),
        "size": lambda work: written(options, work),
    }
    if set(options.parts) - set(parts):
        parser.error(f"the parts are {', '.join(parts)}")
    if options.steps < EVERY or options.steps % EVERY:
        parser.error("--steps: a multiple of 100, of which exactly one in 100 is sampled")
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here: --device cpu --small is a trial")
    if options.memory_child:
        memory_child(options)
        return 0
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()}
    results: dict[str, Any] = {"machine": common.machine(options.device), "settings": settings}
    for name, part in parts.items():
        if options.parts and name not in options.parts:
            continue
        start = time.perf_counter()
        with tempfile.TemporaryDirectory(dir=options.work) as work:
            results[name] = part(Path(work))
        print(f"{name}: measured in {time.perf_counter() - start:.0f} s", flush=True)
        if options.out:
            common.write_json(options.out, results)
    show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())

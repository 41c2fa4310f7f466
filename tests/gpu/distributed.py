"""Two ranks train the small GPT together, plain and recorded: the same bits, and one trace of both.

    python tests/gpu/distributed.py --mode ddp --out FOLDER               two GPUs, NCCL
    python tests/gpu/distributed.py --mode fsdp --out FOLDER
    python tests/gpu/distributed.py --mode ddp --device cpu --small --out FOLDER     a trial on the CPU, gloo

The ranks are processes that this one starts; they meet through a file. Each enters hawkeye.record(FOLDER/MODE.hawk)
once its process group is there, under bf16 autocast with AdamW, on batches of its own. In mode fsdp parameters are
sharded (fully_shard), block by block. The hash of a rank's final weights and logits must be the same with recording and
without; the trace must have an index a rank and be sealed. Status 1 where not; FOLDER/MODE.json has the results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import common
import hawkeye
import torch
import torch.distributed as dist
import workloads
from torch import nn

WORLD = 2


class Trained(workloads.GPTTraining):
    """A rank's part: the same model, every other batch."""

    def __init__(self, options: argparse.Namespace, device: str) -> None:
        super().__init__(device, WORLD * options.steps, options.small, torch.bfloat16)
        self.data = self.data[options.rank :: WORLD]
        if options.mode == "ddp":
            self.model = nn.parallel.DistributedDataParallel(self.model)
        else:
            from torch.distributed.device_mesh import init_device_mesh
            from torch.distributed.fsdp import fully_shard

            mesh = init_device_mesh(device, (WORLD,))
            for part in (*self.model.blocks, self.model):
                fully_shard(part, mesh=mesh)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)

    def results(self) -> workloads.Results:
        """Sharded tensors as a whole, which all ranks have to ask for together."""
        results = super().results()
        return {name: v.full_tensor() if hasattr(v, "full_tensor") else v for name, v in results.items()}


def rank(options: argparse.Namespace) -> dict[str, Any]:
    """In a rank's process: train, and say what came of it."""
    if options.device == "cuda":
        torch.cuda.set_device(options.rank)
    dist.init_process_group(
        options.backend,
        init_method=options.store.resolve().as_uri(),
        rank=options.rank,
        world_size=WORLD,
        timeout=timedelta(seconds=options.timeout),
    )
    train = Trained(options, options.device)
    found: dict[str, Any] = {"rank": options.rank}
    start = time.perf_counter()
    with contextlib.ExitStack() as stack:
        emulation = stack.enter_context(hawkeye.emulate()) if options.emulate else None
        rec = None
        if options.folder:
            rec = stack.enter_context(
                hawkeye.record(options.folder, outputs=options.outputs, fraction=options.fraction, display=False)
            )
        for _ in range(options.steps):
            train.step()
        common.synchronize(options.device)
    found["seconds"] = time.perf_counter() - start
    if rec is not None:
        found |= {"coverage": rec.coverage(), "root": rec.root, "failure": repr(rec.failure) if rec.failure else ""}
        found["lines"] = found["coverage"]["recorded"]
    if emulation is not None:
        found["emulated"] = sum(emulation.calls.values())
    results = train.results()
    found |= {"digest": workloads.digest(results), "loss": float(results["loss"])}
    weights = {name: v for name, v in results.items() if name not in ("logits", "loss")}
    found["weights"] = workloads.digest(weights)
    dist.barrier()
    dist.destroy_process_group()
    return found


def together(options: argparse.Namespace, folder: Path | None) -> list[dict[str, Any]]:
    """All ranks, each in a process; what they say."""
    with tempfile.TemporaryDirectory() as meeting:
        command = [sys.executable, __file__, "--store", str(Path(meeting) / "store")]
        for name in ("mode", "backend", "device", "steps", "outputs", "fraction", "timeout"):
            command += [f"--{name}", str(getattr(options, name))]
        command += [f"--{name}" for name in ("small", "emulate") if getattr(options, name)]
        command += ["--folder", str(folder)] if folder else []
        logs = [(Path(meeting) / f"{i}.out", Path(meeting) / f"{i}.err") for i in range(WORLD)]
        ranks = []
        try:
            for i, (out, err) in enumerate(logs):
                with out.open("w") as stdout, err.open("w") as stderr:
                    ranks.append(subprocess.Popen([*command, "--rank", str(i)], stdout=stdout, stderr=stderr))
            end = time.monotonic() + options.timeout
            while any(p.poll() is None for p in ranks) and time.monotonic() < end:
                if any(p.returncode for p in ranks):  # the others would wait for it: let them say so, but not for long
                    end = min(end, time.monotonic() + 10)
                time.sleep(0.05)
            failed = [i for i, p in enumerate(ranks) if p.poll() != 0]
        finally:
            for process in ranks:
                process.kill()
                process.wait()
        if failed:
            words = [f"rank {i} ended with {ranks[i].returncode}:\n{logs[i][1].read_text()[-4000:]}" for i in failed]
            raise RuntimeError("\n".join(words))
        return [json.loads(out.read_text().splitlines()[-1]) for out, _ in logs]


def check(folder: Path, ranks: list[dict[str, Any]]) -> list[str]:
    """What is wrong with the trace."""
    manifest, wrong = json.loads((folder / "manifest.json").read_text(encoding="utf-8")), []
    indices = sorted(path.name for path in folder.glob("rank-*.jsonl"))
    if indices != [f"rank-{i:04d}.jsonl" for i in range(WORLD)]:
        wrong.append(f"the indices are {indices}")
    if not manifest["sealed"] or [entry["rank"] for entry in manifest["ranks"]] != list(range(WORLD)):
        wrong.append("the manifest is not sealed with all ranks")
    for entry, r in zip(manifest["ranks"], ranks):
        if r["failure"] or not entry["lines"] == r["coverage"]["recorded"] > 0:
            wrong.append(f"rank {r['rank']}: {entry['lines']} lines, {r['coverage']}, {r['failure']}")
    if manifest["root"] not in [r["root"] for r in ranks]:
        wrong.append("no rank was told the root of the whole")
    return wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("ddp", "fsdp"), required=True)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--backend", choices=("nccl", "gloo"), help="default: nccl for cuda, gloo for cpu")
    parser.add_argument("--out", type=Path, help="folder of the trace and of the results")
    parser.add_argument("--small", action="store_true", help="a tiny size")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--outputs", default="hash", choices=("hash", "samples", "full"))
    parser.add_argument("--fraction", type=float, default=1.0)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--record", action="store_true", help="only the recorded run")
    only.add_argument("--plain", action="store_true", help="only the plain run")
    parser.add_argument("--emulate", action="store_true", help="with an H200's products, on the CPU")
    parser.add_argument("--overwrite", action="store_true", help="remove a trace of that name first")
    parser.add_argument("--timeout", type=int, default=240, help="seconds for the ranks of a run (default 240)")
    for name, kind in (("rank", int), ("store", Path), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.backend = options.backend or ("nccl" if options.device == "cuda" else "gloo")
    if options.out is None and options.rank is None:
        parser.error("--out: say where the trace goes")
    if options.emulate and options.device != "cpu":
        parser.error("--emulate is of the CPU")
    if options.device == "cuda" and torch.cuda.device_count() < WORLD:
        parser.error(f"torch sees {torch.cuda.device_count()} CUDA devices here: --device cpu --small is a trial")
    return options


def main() -> int:
    options = arguments()
    if options.rank is not None:
        print(json.dumps(rank(options)), flush=True)
        sys.stderr.flush()
        # Threads of gloo outlive the process group; one that asks for Python's lock as Python ends aborts it all.
        os._exit(0)
    results: dict[str, Any] = {"machine": common.machine(options.device), "mode": options.mode, "steps": options.steps}
    folder, wrong = options.out / f"{options.mode}.hawk", []
    if options.overwrite:
        shutil.rmtree(folder, ignore_errors=True)
    if not options.record:
        results["plain"] = together(options, None)
    if not options.plain:
        results["recorded"] = together(options, folder)
        wrong += check(folder, results["recorded"])
    for kind in ("plain", "recorded"):
        if len({r["weights"] for r in results.get(kind, ())}) > 1:
            wrong.append(f"{kind}: the ranks ended with different weights")
    for plain, recorded in zip(results.get("plain", ()), results.get("recorded", ())):
        if plain["digest"] != recorded["digest"]:
            wrong.append(f"rank {plain['rank']}: recording changed the results")
    results["wrong"] = wrong
    common.write_json(options.out / f"{options.mode}.json", results)
    rows = [
        [kind, r["rank"], r["digest"][:16], f"{r['loss']:.6f}", f"{r['seconds']:.2f}", r.get("lines", "-")]
        for kind in ("plain", "recorded")
        for r in results.get(kind, ())
    ]
    print(common.table([options.mode, "rank", "digest", "loss", "seconds", "recorded"], rows))
    if not options.plain:
        lines = common.lines(folder)
        work = sum(map(common.multiply_adds, lines))
        print(
            f"{len(lines)} lines, {common.size(folder) / 1e6:.1f} MB, {common.size(folder) / work:.5f} bytes a", end=""
        )
        print(f" multiply-add, modules such as {lines[0]['module']}; skipped: {skipped(results['recorded'])}")
    print("\n".join(wrong) or "all is well")
    return 1 if wrong else 0


def skipped(ranks: list[dict[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for r in ranks:
        for reason, count in r["coverage"]["skipped"].items():
            total[reason] = total.get(reason, 0) + count
    return total


if __name__ == "__main__":
    sys.exit(main())

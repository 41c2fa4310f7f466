"""Compare torch's matrix products on the GPU of this machine with Hawkeye's replay of them, bit for bit.

    python tests/gpu/compare_matmul.py [--cases N] [--seed S] [--json FILE]

Needs torch with CUDA and an installed hawkeye. Only products that one kernel computed with one accumulator,
k ascending, are compared: nvjet without split-K, and for tf32 also CUTLASS and xmma in one launch where K is a
multiple of 64. The others are counted. Inputs cancel: the exact result nearly vanishes, so that every low bit of every
partial sum shows. Exit status 1 when a compared product differs.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import sys
import time
from typing import Any

import hawkeye
import torch


def cancelling(m: int, n: int, k: int, generator: torch.Generator, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    """A (m by k) and B (k by n) in f64 whose product nearly vanishes."""
    h = max((k - 2) // 2, 0)

    def draw(*shape: int) -> torch.Tensor:
        scale = torch.exp2(torch.randint(-int(spread), 2, shape, generator=generator).double())
        return torch.randn(*shape, generator=generator, dtype=torch.float64) * scale

    x, y = draw(m, h), draw(h, n)
    a = torch.cat([x, x, draw(m, k - 2 * h) / 64], 1)
    b = torch.cat([y, -y, draw(k - 2 * h, n) / 64], 0)
    order = torch.randperm(k, generator=generator)
    return a[:, order], b[order]


def size(choose: random.Random, low: int, high: int, multiple: int) -> int:
    """A log-uniform size."""
    value = 2 ** choose.uniform(low, high)
    return max(multiple, round(value / multiple) * multiple)


def kernels_of(call: Any) -> tuple[Any, list[str]]:
    """The result of call and the names of the kernels it launched."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        result = call()
        torch.cuda.synchronize()
    names = [event.name for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return result, [name for name in names if not name.startswith(("Memcpy", "Memset"))]


DTYPES = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "tf32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
}
OUT = {"bf16-f32": torch.float32, "f16": torch.float16, "f16-f32": torch.float32, "tf32": torch.float32}
PROFILES = {"bf16": "hopper/bf16", "f16": "hopper/f16", "tf32": "hopper/tf32", "e5m2": "hopper/e5m2-e4m3-fast"}
KINDS = ["bf16", "bf16-f32", "f16", "f16-f32", "tf32", "e4m3-fast", "e4m3", "e5m2-fast"]


def one_accumulator(names: list[str], k: int) -> bool:
    """Whether the kernels say that one accumulator walked k in order."""
    if len(names) != 1 or "split" in names[0].lower() or "segment_k_on" in names[0]:
        return False
    name = names[0].removeprefix("void ")
    return name.startswith("nvjet") or (k % 64 == 0 and "s1688gemm_" in name) or (k % 64 == 0 and "_tf32f32_" in name)


def one_case(choose: random.Random, seed: int) -> dict[str, Any]:
    """Draw a product, run it on the GPU and here, and say how they compare."""
    kind = choose.choice(KINDS)
    base = kind.split("-")[0]
    f8 = base.startswith("e")
    m, n, k = size(choose, 4, 12, 16), size(choose, 4, 12, 16), size(choose, 4, 13, 64 if base == "tf32" else 16)
    while m * n * k > 2**34:
        m = max(16, m // 32 * 16)
    generator = torch.Generator().manual_seed(seed)
    a, b = cancelling(m, n, k, generator, 0 if f8 else choose.choice([0, 4, 9]))
    layout = "NT" if f8 else choose.choice(["NN", "NT", "TN", "TT"])
    # cuBLAS multiplies no two e5m2 operands: B is then e4m3.
    a, b = a.to(DTYPES[base]), b.to(DTYPES["e4m3" if f8 else base])
    if layout[0] == "T":
        a = a.T.contiguous().T
    if layout[1] == "T":
        b = b.T.contiguous().T
    torch.backends.cuda.matmul.allow_tf32 = base == "tf32"
    x, y = a.cuda(), b.cuda()
    out = OUT.get(kind, torch.bfloat16)
    if f8:
        one = torch.ones((), device="cuda")
        fast = kind.endswith("fast")
        call = lambda: torch._scaled_mm(x, y, scale_a=one, scale_b=one, out_dtype=out, use_fast_accum=fast)  # noqa: E731
    elif out != x.dtype:
        call = lambda: torch.mm(x, y, out_dtype=out)  # noqa: E731
    else:
        call = lambda: x @ y  # noqa: E731
    result, names = kernels_of(call)
    report: dict[str, Any] = {"kind": kind, "m": m, "n": n, "k": k, "layout": layout, "seed": seed, "kernels": names}
    if not one_accumulator(names, k):
        report["outcome"] = "not compared"
        return report
    start = time.perf_counter()
    replay = hawkeye.matmul(a, b, profile=PROFILES.get(base, "hopper/" + kind), out_dtype=out)
    report["seconds"] = time.perf_counter() - start
    integer = torch.int16 if out != torch.float32 else torch.int32
    differing = int((replay.view(integer) != result.cpu().view(integer)).sum())
    report["differing"], report["outcome"] = differing, "exact" if differing == 0 else "differs"
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=200, help="how many products (200)")
    parser.add_argument("--seed", type=int, default=1, help="of the random sizes and inputs (1)")
    parser.add_argument("--minutes", type=float, default=8, help="stop after so long (8)")
    parser.add_argument("--json", help="write a line a product to this file")
    options = parser.parse_args()
    level = hawkeye.instruction_set()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, hawkeye {hawkeye.__version__} on {level}")
    choose = random.Random(options.seed)
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    elements = work = 0
    seconds = 0.0
    lines = open(options.json, "w") if options.json else None  # noqa: SIM115
    deadline = time.monotonic() + options.minutes * 60
    for i in range(options.cases):
        if time.monotonic() > deadline:
            print(f"stopped after {i} products: {options.minutes} minutes are over")
            break
        try:
            report = one_case(choose, options.seed * 1_000_003 + i)
        except RuntimeError as error:  # a layout or size this torch does not multiply
            report = {"kind": "refused", "outcome": "refused by torch", "error": str(error)[:200]}
        counts[report["kind"], report["outcome"]] += 1
        if "differing" in report:
            elements += report["m"] * report["n"]
            work += report["m"] * report["n"] * report["k"]
            seconds += report["seconds"]
        if report["outcome"] == "differs":
            print("DIFFERS", json.dumps(report))
        if lines:
            lines.write(json.dumps(report) + "\n")
            lines.flush()
    for (kind, outcome), count in sorted(counts.items()):
        print(f"{count:5} {kind:10} {outcome}")
    rate = work / max(seconds, 1e-9) / 1e9
    print(f"{elements} elements compared, {work / 1e9:.1f} G multiply-adds replayed at {rate:.1f} G/s")
    return 1 if any(outcome == "differs" for _, outcome in counts) else 0


if __name__ == "__main__":
    sys.exit(main())

"""Records grouped products of random sizes whose sums cancel, in every layout that torch's grouped kernel takes.

    python tests/gpu/record_grouped.py --out FOLDER [--calls 40]
    python tests/gpu/verify_traces.py FOLDER

Cancelling sums show the order of summation in every element; those of a network mostly do not.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

import common
import hawkeye
import torch

sys.path.insert(0, str(common.ROOT / "tests" / "goldens"))
import inputs

LAYOUTS = ("m", "n", "k", "")  # the size that differs from group to group; "": none


def operands(seed: int, m: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A and B of one group in bf16."""
    a, b = inputs.operands("bf16", "bf16", "cancel", seed, 1, m, n, k)
    return tuple(torch.from_numpy(x[0].view("int16")).view(torch.bfloat16) for x in (a, b))  # type: ignore[return-value]


def call(layout: str, choose: random.Random, device: str) -> torch.Tensor:
    """One grouped product."""
    count = choose.randint(1, 6)

    def size(most: int) -> int:  # lines of 16 bytes are what the kernel wants
        return 8 * max(1, round(most ** choose.random() / 8))

    m, n, k = size(600), size(600), size(3000)
    parts = []
    for group in range(count):
        sizes = {"m": m, "n": n, "k": k}
        if layout:  # groups may be of any size, but the ends of those along k are lines of memory
            least = 8 if layout == "k" else 1
            sizes[layout] = max(least, choose.randint(0, sizes[layout]) // least * least)
        parts.append(operands(choose.randrange(1 << 30) + group, sizes["m"], sizes["n"], sizes["k"]))
    a, b = [p[0].to(device) for p in parts], [p[1].to(device) for p in parts]
    axis = {"m": 0, "n": 1, "k": 1}
    ends = None
    if layout:
        lengths = [(x if layout in "mk" else y).shape[axis[layout]] for x, y in zip(a, b)]
        ends = torch.tensor(lengths).cumsum(0).to(device, torch.int32)
    left = torch.cat(a, 0) if layout == "m" else torch.cat(a, 1) if layout == "k" else torch.stack(a)
    right = torch.cat(b, 1) if layout == "n" else torch.cat(b, 0) if layout == "k" else torch.stack(b)
    if choose.random() < 0.5:  # the other order of memory
        left = left.mT.contiguous().mT
    if choose.random() < 0.5:
        right = right.mT.contiguous().mT
    return torch._grouped_mm(left, right, offs=ends)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    choose = random.Random(options.seed)
    refused: dict[str, Any] = {}
    with hawkeye.record(options.out / "grouped.hawk", outputs="samples", kernels=True) as rec:
        for number in range(options.calls):
            try:
                call(LAYOUTS[number % len(LAYOUTS)], choose, options.device)
            except RuntimeError as error:  # a layout that this torch does not take
                refused[str(error).partition("\n")[0]] = refused.get(str(error).partition("\n")[0], 0) + 1
            rec.step()
    for text, count in refused.items():
        print(f"{count} refused: {text}")
    return int(rec.failure is not None)


if __name__ == "__main__":
    sys.exit(main())

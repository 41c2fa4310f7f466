"""Reading a profile of torch's: which kernels each call ran. Without torch.

Launches fall into the marks of their thread by time, and kernels belong to launches by their correlation. Kernels of a
matrix product under no mark are products that the recorder did not see.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

#: what the name of a mark begins with; the call's number follows
MARK = "hawkeye:"
_LAUNCHES = ("cuda_runtime", "cuda_driver")
# How the kernels of cuBLAS, cuBLASLt, CUTLASS, MAGMA and Triton's templates are called (docs/rules.md); not the kernels
# that only add up a split product's parts.
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|xmma|cutlass|dot_kernel|\bcublas\w*dot|triton_(?:\w*_)?(?:mm|bmm)\b|triton_tem_fused",
    re.IGNORECASE,
)
_REDUCTION = re.compile(r"splitk_?reduce|reduce_1Block", re.IGNORECASE)


def multiplies(kernel: str) -> bool:
    """Whether a kernel of this name computes matrix products."""
    return bool(_PRODUCT.search(kernel)) and not _REDUCTION.search(kernel)


class Kernel(NamedTuple):
    """A kernel as it was launched."""

    name: str
    grid: list[int]
    block: list[int]


class Seen(NamedTuple):
    """What a profile says."""

    calls: dict[int, list[Kernel]]  #: by the number of the mark, in the order of their start
    missed: int  #: kernels that multiply under no mark


def read(path: Path) -> Seen:
    """What a profile in Chrome's format says."""
    return seen(json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"])


def seen(events: list[dict[str, Any]]) -> Seen:
    """The same, of its events."""
    marks: dict[Any, list[tuple[float, float, int]]] = defaultdict(list)
    launches: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    for event in events:
        kind = event.get("cat")
        if kind == "user_annotation" and event["name"].startswith(MARK):
            begin, number = float(event["ts"]), int(event["name"][len(MARK) :])
            marks[event["tid"]].append((begin, begin + float(event["dur"]), number))
        elif kind in _LAUNCHES:
            launches.append(event)
        elif kind == "kernel":
            kernels.append(event)
    starts = {}
    for tid, found in marks.items():
        found.sort()
        starts[tid] = [begin for begin, _, _ in found]
    owner: dict[int, int] = {}
    for event in launches:
        number = event.get("args", {}).get("correlation")
        if number is None:
            continue
        at, tid = float(event["ts"]), event["tid"]
        index = bisect_right(starts.get(tid, ()), at) - 1
        if index >= 0 and at <= marks[tid][index][1]:
            owner[number] = marks[tid][index][2]
    calls: dict[int, list[Kernel]] = defaultdict(list)
    missed = 0
    for event in sorted(kernels, key=lambda e: float(e["ts"])):
        args = event["args"]
        call = owner.get(args["correlation"])
        if call is None:
            missed += multiplies(event["name"])
        elif call >= 0:
            calls[call].append(Kernel(event["name"], list(args["grid"]), list(args["block"])))
    return Seen(dict(calls), missed)

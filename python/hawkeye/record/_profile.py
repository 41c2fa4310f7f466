"""Reading a profile of torch's: which kernels each call ran. Without torch.

Launches of a thread fall between its marks by time, and kernels belong to launches by their correlation. Kernels of a
matrix product between no marks are products that the recorder did not see.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

# The kernel of torch.cuda._sleep, which stands before and after each call.
_MARK = "spin_kernel"
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


class Taken(NamedTuple):
    """A profile that was taken."""

    path: Path  #: in Chrome's format; to be removed when it is read
    marks: dict[int, list[int]]  #: by the ident of a thread, the numbers of the calls that it made


class Seen(NamedTuple):
    """What a profile says."""

    calls: dict[int, list[Kernel]]  #: by the number of the call, in the order of their start
    missed: int  #: kernels that multiply, of no call
    whole: bool  #: every call was found


def read(taken: Taken) -> Seen:
    """What a profile says."""
    events = json.loads(taken.path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return seen(events, taken.marks)


def _names(thread: int) -> set[int]:
    """What a profile may call a thread: of its ident, which is the address of 64 bits that POSIX threads have, it keeps
    32, with a sign or without."""
    low = thread & 0xFFFFFFFF
    signed = low - (1 << 32) if low >> 31 else low
    return {low, signed, abs(signed)}


def seen(events: list[dict[str, Any]], marks: dict[int, list[int]]) -> Seen:
    """The same, of its events."""
    kernels = [e for e in events if e.get("cat") == "kernel"]
    names = {e["args"]["correlation"]: e["name"] for e in kernels}
    launches: dict[int, list[tuple[float, int]]] = defaultdict(list)
    for event in events:
        number = event.get("args", {}).get("correlation")
        if event.get("cat") in _LAUNCHES and number is not None:
            launches[event["tid"]].append((float(event["ts"]), number))
    owner: dict[int, int] = {}
    whole = True
    for thread, calls in marks.items():
        found = sorted(launch for name in _names(thread) for launch in launches.get(name, []))
        at = [i for i, (_, number) in enumerate(found) if _MARK in names.get(number, "")]
        if len(at) != 2 * len(calls):  # the program uses that kernel too, or the profiler lost some
            whole = False
            continue
        for call, begin, end in zip(calls, at[::2], at[1::2]):
            owner.update((number, call) for _, number in found[begin : end + 1])
    ran: dict[int, list[Kernel]] = defaultdict(list)
    missed = 0
    for event in sorted(kernels, key=lambda e: float(e["ts"])):
        args = event["args"]
        call = owner.get(args["correlation"], 0)
        if call == 0:
            missed += multiplies(event["name"])
        elif call > 0 and _MARK not in event["name"]:
            ran[call].append(Kernel(event["name"], list(args["grid"]), list(args["block"])))
    return Seen(dict(ran), missed, whole)

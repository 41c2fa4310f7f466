"""Names and launches of the kernels that a step's calls ran, from torch's profiler.

The profiler sees which kernels were launched while a mark was set, on the thread that set it. A mark is set around
every multiplication that the recorder sees, so kernels of a matrix product under no mark are products that it missed.
"""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

_MARK = "hawkeye:"
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


class Profile:
    """One step's profile. Started and stopped on the same thread; read on any."""

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("the program profiles itself")
        self._profile = torch.autograd.profiler.profile(use_device="cuda", **_every_thread())
        self._profile.__enter__()

    def stop(self) -> None:
        """End it; waits for the GPU."""
        self._profile.__exit__(None, None, None)

    def read(self) -> Seen:
        """What it saw."""
        with tempfile.TemporaryDirectory(prefix="hawkeye-") as folder:
            path = Path(folder) / "profile.json"
            self._profile.export_chrome_trace(str(path))
            events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
        return seen(events)


def _every_thread() -> dict[str, Any]:
    """Marks of threads that the program attached are needed too, where this torch can see them."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(profile_all_threads=True)}
    except (AttributeError, TypeError):
        return {}


@contextlib.contextmanager
def mark(number: int) -> Iterator[None]:
    """Around one call; -1 for one that is seen and not recorded."""
    with torch.autograd.profiler.record_function(f"{_MARK}{number}"):
        yield


def seen(events: list[dict[str, Any]]) -> Seen:
    """What a profile in Chrome's format says.

    Launches fall into the marks of their thread by time, and kernels belong to launches by their correlation.
    """
    marks: dict[Any, list[tuple[float, float, int]]] = defaultdict(list)
    launches: list[dict[str, Any]] = []
    kernels: list[dict[str, Any]] = []
    for event in events:
        kind = event.get("cat")
        if kind == "user_annotation" and event["name"].startswith(_MARK):
            begin, number = float(event["ts"]), int(event["name"][len(_MARK) :])
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

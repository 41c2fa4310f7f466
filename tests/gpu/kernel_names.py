"""Which kernels multiplied, by the profiler: so that two runs can be compared, one of them recorded."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

# Kernels of products, and what belongs to them (the reductions of split K); not copies, which recording adds.
GEMM = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|wgmma|dot_kernel|reduce_1Block|split_?k|matmul|cublas|grouped|_mm_", re.IGNORECASE
)

Streams = dict[str, list[str]]


def streams(events: Iterable[dict[str, Any]]) -> Streams:
    """Of a profile's events the names of the multiplying kernels, in their order, for every stream."""
    kernels = [e for e in events if e.get("cat") == "kernel" and GEMM.search(e["name"])]
    found: Streams = {}
    for event in sorted(kernels, key=lambda e: e["ts"]):
        found.setdefault(str(event.get("args", {}).get("stream", "")), []).append(event["name"])
    return found


def of(program: Callable[[], Any]) -> Streams:
    """The multiplying kernels that a program runs."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        program()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile.json"
        profile.export_chrome_trace(str(path))
        return streams(json.loads(path.read_text(encoding="utf-8"))["traceEvents"])


def difference(plain: Streams, recorded: Streams) -> str:
    """A sentence about the first kernel that differs; "" where both ran the same ones in the same order."""
    if not plain:
        return "the profiler saw no multiplying kernel"
    if set(plain) != set(recorded):
        return f"streams {', '.join(sorted(plain))} without recording, {', '.join(sorted(recorded))} with it"
    for stream, names in plain.items():
        others = recorded[stream]
        for i, (name, other) in enumerate(zip(names, others)):
            if name != other:
                return f"stream {stream}, kernel {i}: {name} without recording, {other} with it"
        if len(names) != len(others):
            return f"stream {stream}: {len(names)} kernels without recording, {len(others)} with it"
    return ""

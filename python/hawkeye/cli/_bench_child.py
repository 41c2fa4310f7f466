"""The process that ``hawkeye bench`` measures in: one job as JSON on standard input, the answer on standard output."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .. import _native
from .._formats import BY_NUMPY, parse
from .._matmul import matmul
from .._profiles import profile as find
from .._tensors._numpy import dtype_of


def main() -> None:
    """Does the job."""
    job = json.load(sys.stdin)
    answer = _speed(job) if job["task"] == "speed" else _memory(job)
    json.dump(answer, sys.stdout)


def operand(shape: tuple[int, int], dtype: str, seed: int) -> Any:
    """An operand of ordinary numbers, like weights and activations; built in strips, so that it leaves no memory."""
    fmt = parse(dtype)
    result = np.empty(shape, dtype_of(fmt, "hold operands of"))
    random = np.random.default_rng(seed)
    for row in range(0, shape[0], 64):
        part = result[row : row + 64]
        if fmt.specials in ("signed", "unsigned"):
            part[...] = random.integers(-128, 128, part.shape).astype(result.dtype)
        else:
            part[...] = random.standard_normal(part.shape, np.float32).astype(result.dtype)
    return result


# ---- speed --------------------------------------------------------------------------------------------------------


def _speed(job: dict[str, Any]) -> dict[str, Any]:
    m, n, k = job["size"]
    core, openblas = _openblas()
    references: dict[str, Callable[[], Any]] = {}
    for routine, dtype in (("sgemm", "f32"), ("dgemm", "f64")):
        x, y = operand((m, k), dtype, 1), operand((k, n), dtype, 2)
        target = np.empty((m, n), x.dtype)
        references[routine] = partial(np.matmul, x, y, out=target)
        references[routine]()
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rows = []
    for label, profile, dtype, routine in job["rows"]:
        a, b = operand((m, k), dtype, 3), operand((k, n), dtype, 4)
        d = matmul(a, b, profile=profile, threads=1)
        large = partial(matmul, a, b, profile=profile, out=d)
        small = _small(profile, dtype)
        ours: list[float] = []
        theirs: list[float] = []
        twos: list[float] = []
        smalls: list[float] = []
        for _ in range(job["rounds"]):
            # One after the other within a round, so that a change of clock or of the neighbours' load meets all alike.
            theirs.append(_time(references[routine]))
            ours.append(_time(partial(large, threads=1)))
            if usable > 1:
                twos.append(_time(partial(large, threads=2)))
            smalls.append(_each(small, 0.02))
        rate, reference = (m * n * k / statistics.median(t) / 1e9 for t in (ours, theirs))
        small_rate = 64**3 / statistics.median(smalls) / 1e9
        # Ratios of the same round, then their median: more robust than a ratio of medians.
        ratio = statistics.median(t / o for t, o in zip(theirs, ours))
        rows.append(
            {
                "label": label,
                "profile": profile,
                "rate": rate,
                "reference": reference,
                "routine": routine,
                "ratio": ratio,
                "scaling": statistics.median(o / t for o, t in zip(ours, twos)) if twos else None,
                "small": small_rate,
                "small_ratio": small_rate / rate,
            }
        )
    return {
        "rows": rows,
        "core": core,
        "openblas": openblas,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "instruction set": _native.instruction_set(),
    }


def _small(profile: str, dtype: str) -> Callable[[], None]:
    """A 64x64x64 product on one thread by the library's own call, for Python takes as long as the arithmetic."""
    a, b = operand((64, 64), dtype, 5), operand((64, 64), dtype, 6)
    d = matmul(a, b, profile=profile)
    matrices = [
        _native.matrix(x.__array_interface__["data"][0], BY_NUMPY[x.dtype.name].code, (1, 64, 64), (0, 64, 1))
        for x in (a, b, d)
    ]
    args = _native.GemmArgs(
        struct_size=ctypes.sizeof(_native.GemmArgs),
        profile=find(profile)._handle,
        alpha=1.0,
        beta=1.0,
        threads=1,
    )
    args.a, args.b, args.d = map(ctypes.pointer, matrices)
    reference = ctypes.byref(args)
    keep = (a, b, d, args)

    def work(keep: Any = keep) -> None:
        _native.call("hawkeye_gemm", reference)

    return work


def _time(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _each(work: Callable[[], Any], at_least: float) -> float:
    """Seconds a call, over enough of them to fill ``at_least`` seconds."""
    count, start = 0, time.perf_counter()
    while True:
        work()
        count += 1
        spent = time.perf_counter() - start
        if spent >= at_least:
            return spent / count


def _openblas() -> tuple[str, str]:
    """Which kernels numpy's OpenBLAS chose ("SkylakeX", "Haswell", ...) and its version, asked of the library."""
    np.ones((2, 2), np.float32) @ np.ones((2, 2), np.float32)
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split()[-1] for line in maps if "openblas" in line.lower()}
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                core = getattr(library, f"{prefix}openblas_get_corename{suffix}", None)
                config = getattr(library, f"{prefix}openblas_get_config{suffix}", None)
                if core is not None and config is not None:
                    core.restype = config.restype = ctypes.c_char_p
                    words = config().decode().split()
                    return core().decode(), next((w for w in words if w[:1].isdigit()), "?")
    return "unknown", "not found: numpy uses another BLAS"


# ---- memory -------------------------------------------------------------------------------------------------------


def _memory(job: dict[str, Any]) -> dict[str, Any]:
    """The peak of resident memory during one product beyond what was there before it: operands, result, Python. The
    library is loaded by that product, so that its own memory counts."""
    _, profile, dtype, _ = job["row"]
    size = job["size"]
    a, b = operand((size, size), dtype, 1), operand((size, size), dtype, 2)
    fmt = parse(dtype)
    # The result is touched before, so that its pages are not counted.
    out = parse({"e4m3": "bf16", "e5m2": "bf16", "s8": "s32"}.get(fmt.name, fmt.name))
    d = np.empty((size, size), dtype_of(out))
    d.view(np.uint8)[...] = 0
    gc.collect()
    assert not _native.loaded()
    _reset_peak()
    before = _resident("VmRSS")
    start = time.perf_counter()
    matmul(a, b, profile=profile, out=d)
    seconds = time.perf_counter() - start
    return {
        "size": size,
        "operands": a.nbytes + b.nbytes,
        "extra": max(_resident("VmHWM") - before, 0),
        "seconds": seconds,
    }


def _reset_peak() -> None:
    # Linux: 5 sets the peak (VmHWM) back to the present size. Where it may not be written, the peak so far is the
    # operands' own building, which leaves no more behind than a strip.
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def _resident(field: str) -> int:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        for line in lines:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    main()

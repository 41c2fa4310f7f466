"""Copies from a GPU through the driver: one call each, that leaves Python's lock alone.

torch's own copies give the lock back and take it again, hundreds of times a step; a program that wants it meanwhile
waits as often.
"""

from __future__ import annotations

import ctypes
from typing import Any

_library: Any = None


def copier() -> Any:
    """A function of (to, from, bytes, stream) with addresses, that starts a copy to the CPU's memory; None without a
    driver. The thread's device must be that of the memory. Raises RuntimeError where the driver refuses."""
    global _library
    if _library is None:
        try:
            _library = ctypes.PyDLL("libcuda.so.1")
            _library.cuMemcpyDtoHAsync_v2.argtypes = [
                ctypes.c_void_p,
                ctypes.c_uint64,
                ctypes.c_size_t,
                ctypes.c_void_p,
            ]
        except (OSError, AttributeError):
            _library = False
    return _copy if _library else None


def _copy(to: int, source: int, nbytes: int, stream: int) -> None:
    status = _library.cuMemcpyDtoHAsync_v2(to, source, nbytes, stream)
    if status != 0:
        raise RuntimeError(f"a copy from the GPU failed (CUDA error {status})")

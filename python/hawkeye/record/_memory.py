"""Memory that the program's process and the writing process share.

The first copies tensors into it, the other hashes and writes them from there.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from typing import Any

ALIGNED = 64


class Memory:
    """A piece of memory without a name, that a descriptor leads to."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.descriptor, self.size = descriptor, size
        self._map = mmap.mmap(descriptor, size)
        self.view = memoryview(self._map)

    @classmethod
    def new(cls, size: int) -> Memory:
        """Of so many bytes, all zero."""
        descriptor = os.memfd_create("hawkeye-record", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, size)
        return cls(descriptor, size)

    def close(self) -> None:
        """Give it back. Whoever still holds a view keeps the memory."""
        self.view.release()
        with contextlib.suppress(BufferError):
            self._map.close()
        os.close(self.descriptor)


def room(nbytes: int) -> int:
    """How many bytes a tensor takes in it."""
    return -(-nbytes // ALIGNED) * ALIGNED


class Pinned:
    """The same as a tensor of bytes that a GPU copies into, page-locked where there is a GPU."""

    def __init__(self, memory: Memory, *, lock: bool) -> None:
        import torch

        self.bytes: Any = torch.frombuffer(memory.view, dtype=torch.uint8)
        self.address: int = self.bytes.data_ptr()
        self._locked = lock and _registered(self.address, memory.size)

    def close(self) -> None:
        """Before the memory is given back."""
        if self._locked:
            import torch

            torch.cuda.cudart().cudaHostUnregister(self.bytes.data_ptr())
        self.bytes = None


def _registered(pointer: int, size: int) -> bool:
    import torch

    try:
        return int(torch.cuda.cudart().cudaHostRegister(pointer, size, 0)) == 0
    except RuntimeError:
        return False  # copies wait for one another then, and are as right

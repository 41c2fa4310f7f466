"""A tensor of one line, in the CPU memory. Without torch: the writing process knows bits, shapes, dtypes by name."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import numpy as np

from ._safetensors import FORMATS
from ._trace import TensorFile, tensor_file

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Part:
    """A tensor's elements, as unsigned numbers of their bits, and how the GPU saw it."""

    __slots__ = ("bits", "dtype", "offset", "shape", "strides", "transposed")

    def __init__(
        self, bits: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, transposed: bool
    ) -> None:
        #: in the logical order, of size 1 along strides of 0 where those are kept once
        self.bits = bits
        self.dtype, self.shape, self.strides, self.offset, self.transposed = dtype, shape, strides, offset, transposed

    @classmethod
    def of(
        cls,
        memory: memoryview,
        dtype: str,
        size: int,
        kept: tuple[int, ...],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        offset: int,
        transposed: bool,
    ) -> Part:
        """Of memory with a dense tensor of the shape ``kept``, transposed where it says so; size bytes an element."""
        bits = np.frombuffer(memory, dtype=_UNSIGNED[size]).reshape(kept)
        return cls(bits.swapaxes(-1, -2) if transposed else bits, dtype, shape, strides, offset, transposed)

    @property
    def format(self) -> str:
        """Hawkeye's name of the dtype."""
        return FORMATS[self.dtype]

    @property
    def stored(self) -> str:
        """How the file's tensor differs from the shape, as a trace says it."""
        once = "once" if self.bits.shape != self.shape else ""
        return "-".join(word for word in (once, "transposed" if self.transposed else "") if word)

    def data(self) -> memoryview:
        """The bytes in the logical order, dense and row-major."""
        return _bytes(self.bits)

    def slice(self, dim: int, start: int, end: int) -> Part:
        """The elements from start to end along a dimension."""
        index = [slice(None)] * len(self.shape)
        index[dim] = slice(start, end)
        bits = np.broadcast_to(self.bits, self.shape)[tuple(index)]
        offset = self.offset + start * self.strides[dim]
        return Part(bits, self.dtype, bits.shape, self.strides, offset, self.transposed)

    def flat(self) -> Part:
        """As a list."""
        bits = np.broadcast_to(self.bits, self.shape).reshape(-1)
        return Part(bits, self.dtype, bits.shape, self.strides or (1,), self.offset, False)

    def numbers(self, dtype: Any) -> Any:
        """The elements as numbers of a numpy dtype of the same size."""
        return np.ascontiguousarray(self.bits).view(dtype)

    def file(self) -> TensorFile:
        """The elements as a file, in the order in which they were kept."""
        bits = self.bits.swapaxes(-1, -2) if self.transposed else self.bits
        return tensor_file(self.dtype, bits.shape, _bytes(bits))

    def record(self, hashes: Hashes) -> tuple[dict[str, Any], TensorFile]:
        """A case record's tensor and the file it names."""
        file = self.file()
        entry: dict[str, Any] = {
            "format": self.format,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "offset": self.offset,
            "file": file.name,
            "sha256": hashes.of(file, self),
        }
        if self.stored:
            entry["stored"] = self.stored
        return entry, file


class Hashes:
    """Hashes of elements by the file that holds them: a weight that did not change is hashed once instead of twice."""

    MOST = 65536

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], str] = {}

    def of(self, file: TensorFile, part: Part) -> str:
        """The hash of the part's bits, dense and row-major; file holds them, transposed where the part says so."""
        key = file.name, part.transposed
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self.MOST:
                self._known.clear()
            found = self._known[key] = sha256(part.data()).hexdigest()
        return found


def _bytes(bits: Any) -> memoryview:
    if bits.size == 0:
        return memoryview(b"")
    return np.ascontiguousarray(bits).reshape(-1).view(np.uint8).data

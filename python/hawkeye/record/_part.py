"""A tensor of one line, without torch: the writing process knows bits, shapes and dtypes by name."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from ._safetensors import FORMATS
from ._trace import TensorFile, tensor_file

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Part:
    """A tensor's elements, as unsigned numbers of their bits, and how the GPU saw it."""

    __slots__ = ("bits", "dtype", "offset", "shape", "strides")

    def __init__(self, bits: Any, dtype: str, shape: Sequence[int], strides: Sequence[int], offset: int) -> None:
        #: in the logical order, in whatever order of memory; of size 1 along strides of 0 where those are kept once
        self.bits = bits
        self.dtype, self.shape, self.strides, self.offset = dtype, tuple(shape), tuple(strides), offset

    @classmethod
    def of(cls, memory: memoryview, size: int, kept: Sequence[int], order: Sequence[int], *about: Any) -> Part:
        """Of memory with a tensor of the shape ``kept`` and the strides ``order``, size bytes an element."""
        if 0 in kept:
            return cls(np.zeros(tuple(kept), _UNSIGNED[size]), *about)
        strides = tuple(stride * size for stride in order)
        return cls(np.ndarray(tuple(kept), _UNSIGNED[size], memory, strides=strides), *about)

    @property
    def format(self) -> str:
        """Hawkeye's name of the dtype; "" where it has none."""
        return FORMATS.get(self.dtype, "")

    @property
    def size(self) -> int:
        """How many elements it has."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    # ---- views, with the strides that torch gives them ----

    def unsqueeze(self, dim: int) -> Part:
        """With a dimension of size 1 more."""
        stride = self.shape[dim] * self.strides[dim] if dim < len(self.shape) else 1
        shape, strides = list(self.shape), list(self.strides)
        shape.insert(dim, 1)
        strides.insert(dim, stride)
        return Part(np.expand_dims(self.bits, dim), self.dtype, shape, strides, self.offset)

    def expand(self, *shape: int) -> Part:
        """Repeated to that shape; elements are not."""
        more = len(shape) - len(self.shape)
        strides: list[int] = [0] * len(shape)
        for i in range(len(shape) - 1, -1, -1):
            if i >= more:
                size, stride = self.shape[i - more], self.strides[i - more]
            else:
                size, stride = 1, shape[i + 1] * strides[i + 1] if i + 1 < len(shape) else 1
            strides[i] = stride if size == shape[i] else 0
        bits = self.bits.reshape((1,) * more + self.bits.shape) if more else self.bits
        return Part(bits, self.dtype, shape, strides, self.offset)

    def copied(self) -> Part:
        """With every element for itself, dense and row-major."""
        bits = np.array(np.broadcast_to(self.bits, self.shape), order="C")
        return Part(bits, self.dtype, self.shape, tuple(step // bits.itemsize for step in bits.strides), 0)

    def slice(self, dim: int, start: int, end: int) -> Part:
        """The elements from start to end along a dimension."""
        index = [slice(None)] * len(self.shape)
        index[dim] = slice(start, end)
        bits = np.broadcast_to(self.bits, self.shape)[tuple(index)]
        return Part(bits, self.dtype, bits.shape, self.strides, self.offset + start * self.strides[dim])

    def flat(self) -> Part:
        """As a list."""
        bits = np.broadcast_to(self.bits, self.shape).reshape(-1)
        strides = [stride for size, stride in zip(self.shape, self.strides) if size > 1]
        return Part(bits, self.dtype, bits.shape, strides[:1] or (1,), self.offset)

    # ---- bits ----

    @property
    def transposed(self) -> bool:
        """Whether it lies with rows and columns exchanged.

        A file holds it so, and a weight is one file whichever way it is multiplied.
        """
        bits = self.bits
        return bits.ndim == 3 and not bits.flags.c_contiguous and bool(bits.swapaxes(1, 2).flags.c_contiguous)

    @property
    def stored(self) -> str:
        """How the file's tensor differs from the shape, as a trace says it."""
        once = "once" if self.bits.shape != self.shape else ""
        return "-".join(word for word in (once, "transposed" if self.transposed else "") if word)

    def data(self) -> memoryview:
        """The bytes in the logical order, dense and row-major."""
        return _bytes(self.bits)

    def numbers(self, dtype: Any) -> Any:
        """The elements as numbers of a numpy dtype of the same size."""
        return np.ascontiguousarray(self.bits).view(dtype)

    def file(self, transposed: bool) -> TensorFile:
        """The elements as a file, with rows and columns exchanged or not."""
        bits = self.bits.swapaxes(1, 2) if transposed else self.bits
        return tensor_file(self.dtype, bits.shape, _bytes(bits))

    def record(self, hashes: Hashes) -> tuple[dict[str, Any], TensorFile]:
        """A case record's tensor and the file it names."""
        transposed = self.transposed
        file = self.file(transposed)
        entry: dict[str, Any] = {
            "format": self.format,
            "shape": list(self.shape),
            "strides": list(self.strides),
            "offset": self.offset,
            "file": file.name,
            "sha256": hashes.of(file, self, transposed),
        }
        if self.stored:
            entry["stored"] = self.stored
        return entry, file


class Hashes:
    """Hashes of elements by the file that holds them: a weight that did not change is hashed once instead of twice."""

    MOST = 65536

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], str] = {}

    def of(self, file: TensorFile, part: Part, transposed: bool) -> str:
        """The hash of the part's bits, dense and row-major; file holds them, transposed where it says so."""
        key = file.name, transposed
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

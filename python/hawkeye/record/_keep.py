"""Copies of tensors as they are at the moment of a call, and their way to the CPU's memory."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import torch

from ._ops import FORMATS
from ._trace import TensorFile, tensor_file


class Kept:
    """A copy of a view, made on the caller's stream, and how the view lay in memory.

    The copy is dense. A view that is the transpose of a dense tensor is copied in the order of its memory, so that a
    weight gives the same file whether it is multiplied as it is or transposed. Dimensions of stride 0 are copied once.
    """

    __slots__ = ("copy", "offset", "shape", "strides", "transposed")

    def __init__(self, view: Any) -> None:
        self.shape: tuple[int, ...] = tuple(view.shape)
        self.strides: tuple[int, ...] = view.stride()
        self.offset: int = view.storage_offset()
        base = view
        if 0 in self.strides:
            for dim, (size, stride) in enumerate(zip(self.shape, self.strides)):
                if stride == 0 and size > 1:
                    base = base.narrow(dim, 0, 1)
        self.transposed: bool = base.dim() == 3 and not base.is_contiguous() and base.mT.is_contiguous()
        if self.transposed:
            base = base.mT
        self.copy = base.clone(memory_format=torch.contiguous_format)


class Part:
    """A tensor of one line: its elements in the CPU's memory, and how the GPU saw it."""

    __slots__ = ("offset", "shape", "strides", "transposed", "view")

    def __init__(
        self, view: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, transposed: bool
    ) -> None:
        #: in the logical order, over a dense tensor; of size 1 along strides of 0
        self.view = view
        self.shape, self.strides, self.offset, self.transposed = shape, strides, offset, transposed

    @property
    def stored(self) -> str:
        """How the file's tensor differs from the shape, as a trace says it."""
        once = "once" if tuple(self.view.shape) != self.shape else ""
        return "-".join(word for word in (once, "transposed" if self.transposed else "") if word)

    def slice(self, dim: int, start: int, end: int) -> Part:
        """The elements from start to end along a dimension."""
        view = self.view.expand(self.shape).narrow(dim, start, end - start)
        return Part(view, tuple(view.shape), self.strides, self.offset + start * self.strides[dim], self.transposed)

    def flat(self) -> Part:
        """As a list."""
        view = self.view.expand(self.shape).reshape(-1)
        return Part(view, tuple(view.shape), self.strides or (1,), self.offset, False)

    def record(self, hashes: Hashes) -> tuple[dict[str, Any], TensorFile]:
        """A case record's tensor and the file it names."""
        dense = (self.view.mT if self.transposed else self.view).contiguous()
        file = tensor_file(name(dense.dtype), dense.shape, data(dense))
        entry: dict[str, Any] = {
            "format": FORMATS[dense.dtype],
            "shape": list(self.shape),
            "strides": list(self.strides),
            "offset": self.offset,
            "file": file.name,
            "sha256": hashes.of_view(file, self.view, self.transposed),
        }
        if self.stored:
            entry["stored"] = self.stored
        return entry, file


def fetch(kept: Iterable[Kept | None], event: Any) -> list[Part | None]:
    """The copies in the CPU's memory; event says when the caller's stream has made them, None where there is none."""
    kept = list(kept)
    copies = [None if k is None else k.copy for k in kept]
    if event is not None:
        device = next(c.device for c in copies if c is not None and c.is_cuda)
        stream = _side_stream(device)
        with torch.cuda.device(device), torch.cuda.stream(stream):
            stream.wait_event(event)
            for i, copy in enumerate(copies):
                if copy is not None and copy.is_cuda:
                    pinned = torch.empty(copy.shape, dtype=copy.dtype, pin_memory=True)
                    copies[i] = pinned.copy_(copy, non_blocking=True)
            # Waiting here also makes it safe to free the copies, whose memory belongs to the caller's stream.
            stream.synchronize()
    return [
        None
        if k is None or copy is None
        else Part(copy.mT if k.transposed else copy, k.shape, k.strides, k.offset, k.transposed)
        for k, copy in zip(kept, copies)
    ]


def now(kept: Iterable[Kept | None]) -> Any:
    """An event of the caller's stream behind the copies; None where all are on the CPU."""
    for k in kept:
        if k is not None and k.copy.is_cuda:
            return torch.cuda.current_stream(k.copy.device).record_event()
    return None


_streams: dict[Any, Any] = {}


def _side_stream(device: Any) -> Any:
    """Where copies to the CPU's memory run beside the program. Used by the writing thread alone."""
    if device not in _streams:
        _streams[device] = torch.cuda.Stream(device)
    return _streams[device]


def data(dense: Any) -> memoryview:
    """The bytes of a dense CPU tensor, which they keep alive."""
    if dense.numel() == 0:
        return memoryview(b"")
    return memoryview(dense.reshape(-1).view(torch.uint8).numpy())


def name(dtype: Any) -> str:
    """torch's name of a dtype: "bfloat16"."""
    return str(dtype).rpartition(".")[2]


class Hashes:
    """Hashes of views by the file that holds them: a weight that did not change is hashed once instead of twice."""

    MOST = 65536

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], str] = {}

    def of_view(self, file: TensorFile, view: Any, transposed: bool) -> str:
        """The hash of the view's bits, dense and row-major; file holds the view, transposed where it says so."""
        key = file.name, transposed
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self.MOST:
                self._known.clear()
            found = self._known[key] = sha256(data(view.contiguous())).hexdigest()
        return found

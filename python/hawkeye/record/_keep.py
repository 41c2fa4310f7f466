"""Copies of tensors as they are at the moment of a call, and their way to the CPU's memory."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import torch

from ._ops import FORMATS
from ._trace import TensorFile, tensor_file


class Kept:
    """A copy of a view, made on the caller's stream, and how the view lay in memory.

    The copy is dense. A view that is the transpose of a dense tensor is copied in the order of its memory and marked
    ``transposed``, so that a weight gives the same file whether it is multiplied as it is or transposed. Dimensions of
    stride 0 are copied once and spread out again later.
    """

    def __init__(self, view: Any) -> None:
        self.dtype = view.dtype
        self.shape = tuple(view.shape)
        self.strides = tuple(view.stride())
        self.offset = view.storage_offset()
        self.transposed = view.dim() == 3 and not view.is_contiguous() and view.mT.is_contiguous()
        base = view
        for dim, (size, stride) in enumerate(zip(self.shape, self.strides)):
            if stride == 0 and size > 1:
                base = base.narrow(dim, 0, 1)
        if self.transposed:
            base = base.mT
        self.copy = base.clone(memory_format=torch.contiguous_format)
        #: what it occupies until it is written
        self.nbytes = self.copy.numel() * self.copy.element_size()
        self.event: Any = None
        if self.copy.is_cuda:
            self.event = torch.cuda.current_stream(self.copy.device).record_event()

    def fetch(self) -> Any:
        """The view in the CPU's memory, over a dense tensor."""
        host = self.copy
        if host.is_cuda:
            stream = _side_stream(host.device)
            with torch.cuda.device(host.device), torch.cuda.stream(stream):
                stream.wait_event(self.event)
                pinned = torch.empty(host.shape, dtype=host.dtype, pin_memory=True)
                pinned.copy_(host, non_blocking=True)
                host.record_stream(stream)
                stream.synchronize()
            host = pinned
        if self.transposed:
            host = host.mT
        return host if tuple(host.shape) == self.shape else host.expand(self.shape).contiguous()


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


def tensor_record(
    view: Any, strides: Sequence[int], offset: int, transposed: bool, hashes: Hashes
) -> tuple[dict[str, Any], TensorFile]:
    """A case record's tensor and the file it names, of a logical view in the CPU's memory."""
    dense = (view.mT if transposed else view).contiguous()
    file = tensor_file(name(dense.dtype), dense.shape, data(dense))
    entry: dict[str, Any] = {
        "format": FORMATS[dense.dtype],
        "shape": list(view.shape),
        "strides": list(strides),
        "offset": offset,
        "file": file.name,
        "sha256": hashes.of_view(file, view, transposed),
    }
    if transposed:
        entry["stored"] = "transposed"
    return entry, file


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

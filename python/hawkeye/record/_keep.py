"""Copies of tensors as they are at the moment of a call."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch


class Kept:
    """A copy of a tensor, made on the caller's stream, and how the tensor lay in memory.

    The copy is dense, in the order of its memory where that is dense too. Dimensions of stride 0 are copied once.
    """

    __slots__ = ("copy", "offset", "shape", "strides")

    def __init__(self, tensor: Any) -> None:
        self.shape: tuple[int, ...] = tensor.shape
        self.strides: tuple[int, ...] = tensor.stride()
        self.offset: int = tensor.storage_offset()
        if 0 in self.strides:
            for dim, (size, stride) in enumerate(zip(self.shape, self.strides)):
                if stride == 0 and size > 1:
                    tensor = tensor.narrow(dim, 0, 1)
        self.copy = tensor.clone()


class Call(NamedTuple):
    """What is kept of a call until it is written."""

    number: int  # of its marks in a profile
    op: str
    arguments: dict[str, Any]  # by name; tensors as Kept
    out: Kept
    fields: dict[str, Any]
    stream: Behind | None  # where the copies were made; None where all are on the CPU


class Behind:
    """The stream on which copies were made. Whoever reads them waits for it."""

    __slots__ = ("event", "number")

    def __init__(self, number: tuple[int, int, int]) -> None:
        #: torch's number of the stream, of the device, and the kind of the device
        self.number = number
        # A stream that is not torch's (whose numbers are 0, or odd) may be gone by then.
        foreign = number[0] != 0 and number[0] % 2 == 0
        self.event: Any = self._stream().record_event() if foreign else None

    def _stream(self) -> Any:
        return torch.cuda.Stream(stream_id=self.number[0], device_index=self.number[1], device_type=self.number[2])

    def wait(self, stream: Any) -> None:
        """Let a stream wait for it."""
        stream.wait_event(self.event or self._stream().record_event())


def current(kept: Kept) -> Behind | None:
    """The caller's stream, on which a copy was made."""
    copy = kept.copy
    return Behind(torch._C._cuda_getCurrentStream(copy.get_device())) if copy.is_cuda else None

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
    event: Any  # of the caller's stream behind the copies; None where all are on the CPU


def now(kept: Kept) -> Any:
    """An event of the caller's stream behind the copies; None where they are on the CPU."""
    if not kept.copy.is_cuda:
        return None
    number = torch._C._cuda_getCurrentStream(kept.copy.get_device())
    stream = _streams.get(number)
    if stream is None:
        stream = _streams[number] = torch.cuda.Stream(
            stream_id=number[0], device_index=number[1], device_type=number[2]
        )
    return stream.record_event()


_streams: dict[tuple[int, int, int], Any] = {}

"""Copies of tensors as they are at the moment of a call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import torch

from ._ops import Product


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
        self.transposed: bool = not base.is_contiguous() and base.dim() == 3 and base.mT.is_contiguous()
        if self.transposed:
            base = base.mT
        self.copy = base.clone(memory_format=torch.contiguous_format)


class Call(NamedTuple):
    """What is kept of a call until it is written."""

    number: int  # of the mark in a profile
    op: str
    scalars: dict[str, float]
    ragged: str
    fields: dict[str, Any]
    tensors: list[Kept | None]  # in the order of _lines.TENSORS
    event: Any  # of the caller's stream behind the copies; None where all are on the CPU

    @classmethod
    def of(cls, number: int, p: Product, fields: dict[str, Any], operands: list[Kept | None], out: Kept) -> Call:
        """Without the program's tensors, which must not live longer because of us."""
        return cls(number, p.op, p.scalars, p.ragged, fields, [*operands, out], now([out]))


def now(kept: Iterable[Kept | None]) -> Any:
    """An event of the caller's stream behind the copies; None where all are on the CPU."""
    for k in kept:
        if k is not None and k.copy.is_cuda:
            number = torch._C._cuda_getCurrentStream(k.copy.get_device())
            stream = _streams.get(number)
            if stream is None:
                stream = _streams[number] = torch.cuda.Stream(
                    stream_id=number[0], device_index=number[1], device_type=number[2]
                )
            return stream.record_event()
    return None


_streams: dict[tuple[int, int, int], Any] = {}

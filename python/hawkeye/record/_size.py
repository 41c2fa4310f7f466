"""How large a trace would be: counting a program's products without keeping any."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ._ops import product
from ._part import Part


class Sizes:
    """What sampled steps would keep.

    Tensors that a step multiplies twice, unchanged, are counted once, as a trace stores them once; what several steps
    share (frozen weights) is counted in each.
    """

    LINE = 1400  # bytes of a line of the index, about

    def __init__(self, every: int, fraction: float, outputs: str) -> None:
        self.every, self.fraction, self.outputs = every, fraction, outputs
        self.steps: list[int] = []  #: bytes of each step that was counted
        self.calls: list[int] = []  #: multiplications of each
        self.products = 0  #: multiply-adds in all
        self._seen: set[tuple[Any, ...]] = set()

    def begin(self) -> None:
        """A step begins."""
        self._seen.clear()
        self.steps.append(0)
        self.calls.append(0)

    def add(self, op: str, named: dict[str, Any], tensors: dict[str, Any]) -> None:
        """A call with its arguments by name, and those of them that are tensors. Raises Skip as writing it would."""
        p = product(op, {**named, **{name: _shape(t) for name, t in tensors.items()}})
        batch, m, k = p.a.shape
        count, n = batch * m * p.b.shape[2], p.b.shape[2]
        self.calls[-1] += 1
        self.products += count * k
        size = tensors[next(iter(tensors))].itemsize  # about that of the result
        self.steps[-1] += self.LINE
        if self.outputs == "full":
            self.steps[-1] += batch * m * n * size
        elif self.outputs == "samples":
            self.steps[-1] += 2 * size * (count if count <= 8192 else 512)
        for t in tensors.values():
            layout = sorted((stride, extent) for stride, extent in zip(t.stride(), t.shape) if stride and extent > 1)
            version = None if t.is_inference() else t._version
            key = (t.data_ptr(), version, t.dtype, tuple(layout))
            if key not in self._seen:
                self._seen.add(key)
                self.steps[-1] += math.prod(extent for _, extent in layout) * t.itemsize

    def report(self) -> dict[str, Any]:
        """Means of a step: calls, multiply-adds, and the bytes that it would add to the trace if it were sampled."""
        steps = len(self.steps) - (self.calls[-1:] == [0])  # what comes after the last step is mostly nothing
        count = max(steps, 1)
        sampled = sum(self.steps) / count * self.fraction
        return {
            "steps": steps,
            "calls": sum(self.calls) / count,
            "multiply_adds": self.products / count,
            "bytes_sampled_step": round(sampled),
            "bytes_step": round(sampled / self.every),
        }

    def __str__(self) -> str:
        r = self.report()
        text = f"{r['calls']:,.0f} multiplications a step ({r['multiply_adds'] / 1e9:,.3g} G multiply-adds), "
        text += f"about {megabytes(r['bytes_sampled_step'])} in the trace for a sampled step"
        if self.every > 1:
            text += f", so {megabytes(r['bytes_step'])} a step of the program with every={self.every}"
        return f"{text}; {megabytes(1000 * r['bytes_step'])} for 1,000 steps"


def _shape(t: Any) -> Part:
    """A tensor without its elements."""
    once = tuple(1 if stride == 0 and size > 1 else size for size, stride in zip(t.shape, t.stride()))
    bits = np.broadcast_to(np.uint8(0), once)
    return Part(bits, str(t.dtype).rpartition(".")[2], t.shape, t.stride(), t.storage_offset())


def megabytes(count: float) -> str:
    """A number of bytes for a person."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:.0f} bytes"

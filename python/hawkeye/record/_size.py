"""How large a trace would be: counting a program's products without keeping any."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any


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

    def add(self, views: Iterable[Any], shape: tuple[int, int, int, int], out_bytes: int) -> None:
        """A call with these operands, of batch, m, n, k; out_bytes an element of the result."""
        self.calls[-1] += 1
        self.products += math.prod(shape)
        self.steps[-1] += self.LINE
        if self.outputs == "full":
            self.steps[-1] += math.prod(shape[:3]) * out_bytes
        elif self.outputs == "samples":
            self.steps[-1] += 2 * out_bytes * min(math.prod(shape[:3]), 512 if math.prod(shape[:3]) > 8192 else 8192)
        for view in views:
            layout = sorted((stride, size) for stride, size in zip(view.stride(), view.shape) if stride and size > 1)
            version = None if view.is_inference() else view._version
            key = (view.data_ptr(), version, view.dtype, tuple(layout))
            if key not in self._seen:
                self._seen.add(key)
                self.steps[-1] += math.prod(size for _, size in layout) * view.element_size()

    def report(self) -> dict[str, Any]:
        """Means of a step: calls, multiply-adds, and the bytes that it would add to the trace if it were sampled."""
        count = max(len(self.steps), 1)
        sampled = sum(self.steps) / count * self.fraction
        return {
            "steps": len(self.steps),
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


def megabytes(count: float) -> str:
    """A number of bytes for a person."""
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:,.3g} {unit}"
    return f"{count:.0f} bytes"

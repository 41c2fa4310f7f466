"""Comparison of results, bit by bit."""

from __future__ import annotations

import ctypes as c
from dataclasses import dataclass
from typing import Any

from . import _native, _shapes
from ._errors import FormatError, ShapeError
from ._formats import Format, parse, value
from ._shapes import Dims
from ._tensors import adapter


@dataclass(frozen=True)
class Comparison:
    """How two results differ, in bits: every NaN pattern and both zeros count as different from each other.

    ``bool(comparison)`` is whether they are equal; ``str(comparison)`` says it for a person.
    """

    count: int  #: elements compared
    differing: int  #: elements whose bits differ
    shape: Dims
    format: str  #: such as "bf16"
    first: Dims | None  #: index of the first difference in row-major order; None where there is none
    first_expected: int  #: the bit pattern there
    first_actual: int
    worst: Dims | None  #: index of the largest distance
    worst_expected: int
    worst_actual: int
    worst_ulps: int | None  #: that distance in units in the last place; None against a NaN

    @property
    def equal(self) -> bool:
        """Whether every bit is equal."""
        return self.differing == 0

    def __bool__(self) -> bool:
        return self.equal

    def __str__(self) -> str:
        total = f"{self.count:,} element{'' if self.count == 1 else 's'}"
        if self.equal:
            return f"{total}, every bit equal"
        parts = [f"{self.differing:,} of {total} differ"]
        if self.first is not None:
            parts.append(f"the first at {_at(self.first)}: {self._pair(self.first_expected, self.first_actual)}")
        if self.worst is not None:
            distance = "a NaN against a number" if self.worst_ulps is None else f"{self.worst_ulps:,} ulp"
            where = "there too" if self.worst == self.first else f"at {_at(self.worst)}"
            text = f"the farthest, {distance}, {where}"
            if self.worst != self.first:
                text += f": {self._pair(self.worst_expected, self.worst_actual)}"
            parts.append(text)
        return "; ".join(parts)

    def _pair(self, expected: int, actual: int) -> str:
        fmt = parse(self.format)
        return f"expected {_show(fmt, expected)}, got {_show(fmt, actual)}"


def _at(index: Dims) -> str:
    return "(" + ", ".join(map(str, index)) + ")"


def _show(fmt: Format, bits: int) -> str:
    number = value(fmt, bits)
    text = f"{int(number)}" if fmt.specials in ("signed", "unsigned") else f"{number:.9g}"
    return f"{text} (0x{bits:0{2 * fmt.bytes}X})"


def compare(expected: Any, actual: Any) -> Comparison:
    """Compares the bits of two results of one shape and one format, of any frameworks and strides.

    Raises ShapeError or FormatError where they cannot be compared.
    """
    x = adapter(expected, "expected").view(expected, "expected")
    y = adapter(actual, "actual").view(actual, "actual")
    if x.shape != y.shape:
        raise ShapeError(f"expected is {_shapes.show(x.shape)} and actual {_shapes.show(y.shape)}.")
    if x.format != y.format:
        raise FormatError(f"expected is in {x.format} and actual in {y.format}: only equal formats have equal bits.")

    dims, (xs, ys) = _shapes.merge(x.shape, x.strides, y.strides)
    dims, xs, ys = ((1,) * (3 - len(t)) + t for t in (dims, xs, ys))
    outer, inner = dims[:-3], dims[-3:]
    total, differing = _shapes.count(x.shape), 0
    step = _shapes.count(inner)
    first: tuple[int, int, int] | None = None
    worst: tuple[int, int, int, int] | None = None
    with _native.Watched() as watched:
        for i, (x_at, y_at) in enumerate(_shapes.offsets(outer, xs[:-3], ys[:-3])):
            one = _native.ComparisonStruct(struct_size=c.sizeof(_native.ComparisonStruct))
            matrices = (
                _native.matrix(x.address, x.format.code, inner, xs[-3:], offset=x_at),
                _native.matrix(y.address, y.format.code, inner, ys[-3:], offset=y_at),
            )
            if not watched.call("hawkeye_compare", *(c.byref(m) for m in matrices), c.byref(one)):
                break
            differing += one.differing
            if one.first >= 0 and first is None:
                first = (i * step + one.first, one.first_expected, one.first_actual)
            if one.worst >= 0 and (worst is None or one.worst_ulps > worst[0]):
                worst = (one.worst_ulps, i * step + one.worst, one.worst_expected, one.worst_actual)
    return Comparison(
        count=total,
        differing=differing,
        shape=x.shape,
        format=x.format.name,
        first=None if first is None else _shapes.unravel(first[0], x.shape),
        first_expected=0 if first is None else first[1],
        first_actual=0 if first is None else first[2],
        worst=None if worst is None else _shapes.unravel(worst[1], x.shape),
        worst_expected=0 if worst is None else worst[2],
        worst_actual=0 if worst is None else worst[3],
        worst_ulps=None if worst is None or worst[0] == 2**64 - 1 else worst[0],
    )

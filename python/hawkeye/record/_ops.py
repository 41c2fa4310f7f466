"""torch's matrix multiplications as products of [batch, m, k] and [batch, k, n]: what their arguments mean.

Operators come as they arrive below autograd and autocast; in-place and out variants, and those with an out_dtype, are
the operator they belong to. Nothing here needs torch: the writing process makes products of calls.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ._part import Part

MAX_ELEMENTS = 1 << 31  # of a tensor, as a reader of traces allows


@dataclass
class Product:
    """One call: its operands, all with three dimensions, and how to view its result so."""

    op: str
    a: Part
    b: Part
    view: Callable[[Part], Part]
    c: Part | None = None
    scalars: dict[str, float] = field(default_factory=dict)  # alpha and beta
    scale_a: Part | None = None  # a list of one element, or one a row
    scale_b: Part | None = None
    ragged: str = ""  # of grouped products: the size that differs, m, n or k
    ends: Part | None = None  # where each group ends along it


class Skip(Exception):  # noqa: N818  not a fault
    """Why a call is not recorded; the text is counted in the trace's coverage."""


def _matrix(t: Part) -> Part:
    return t.unsqueeze(0)


def _row(t: Part) -> Part:
    return t.unsqueeze(0).unsqueeze(0)


def _column(t: Part) -> Part:
    return t.unsqueeze(0).unsqueeze(2)


def _same(t: Part) -> Part:
    return t


def _single(t: Part) -> Part:
    return t.unsqueeze(0).unsqueeze(0).unsqueeze(0)


def _addend(c: Part, batch: int, m: int, n: int) -> Part:
    return c.expand(batch, m, n)


def _bias(c: Part, m: int, n: int) -> Part:
    """As a vector that the library adds to every row, also where there is one."""
    whole = c.expand(1, m, n)
    return Part(whole.bits, whole.dtype, whole.shape, (0, 0, 1), whole.offset)


def _alpha_beta(args: dict[str, Any]) -> dict[str, float]:
    return {"alpha": args["alpha"], "beta": args["beta"]}


def _mm(op: str, args: dict[str, Any]) -> Product:
    return Product(op, _matrix(args["self"]), _matrix(args["mat2"]), _matrix)


def _addmm(op: str, args: dict[str, Any]) -> Product:
    a, b, c = args["mat1"], args["mat2"], args["self"]
    m, n = a.shape[0], b.shape[1]
    # torch gives the library a vector only there (2.11); elsewhere it copies the addend into the output first. What a
    # record would show as such a vector and is none is kept as that copy.
    may_be = args["beta"] == 1 and min(b.shape) > 1
    if may_be and c.shape == (n,) and c.strides == (1,):
        c = _bias(c, m, n)
    else:
        c = _addend(c, 1, m, n)
        c = c.copied() if may_be and not c.strides[1] else c
    return Product(op, _matrix(a), _matrix(b), _matrix, c, _alpha_beta(args))


def _bmm(op: str, args: dict[str, Any]) -> Product:
    return Product(op, args["self"], args["mat2"], _same)


def _baddbmm(op: str, args: dict[str, Any]) -> Product:
    a, b = args["batch1"], args["batch2"]
    return Product(op, a, b, _same, _addend(args["self"], a.shape[0], a.shape[1], b.shape[2]), _alpha_beta(args))


def _mv(op: str, args: dict[str, Any]) -> Product:
    return Product(op, _matrix(args["self"]), _column(args["vec"]), _column)


def _addmv(op: str, args: dict[str, Any]) -> Product:
    a = args["mat"]
    c = _column(args["self"].expand(a.shape[0]))
    return Product(op, _matrix(a), _column(args["vec"]), _column, c, _alpha_beta(args))


def _dot(op: str, args: dict[str, Any]) -> Product:
    other = args["tensor"] if "tensor" in args else args["other"]
    return Product("dot", _row(args["self"]), _column(other), _single)


def _scaled_mm(op: str, args: dict[str, Any]) -> Product:
    a, b = args["self"], args["mat2"]
    m, n = a.shape[0], b.shape[1]
    if args["scale_result"] is not None:
        raise Skip("_scaled_mm with scale_result")
    scales: dict[str, Part] = {}
    for name, size in (("scale_a", m), ("scale_b", n)):
        scale = args[name]
        if scale.dtype != "float32" or scale.size not in (1, size):
            raise Skip("_scaled_mm with block scales")
        scales[name] = scale.flat()
    if (scales["scale_a"].size == 1) != (scales["scale_b"].size == 1) and m > 1 and n > 1:
        raise Skip("_scaled_mm with one scale beside many")
    c = None if args["bias"] is None else _bias(args["bias"], m, n)
    a, b = _matrix(a), _matrix(b)
    return Product("scaled_mm", a, b, _matrix, c, scale_a=scales["scale_a"], scale_b=scales["scale_b"])


def _int_mm(op: str, args: dict[str, Any]) -> Product:
    return Product("int_mm", _matrix(args["self"]), _matrix(args["mat2"]), _matrix)


def _grouped_mm(op: str, args: dict[str, Any]) -> Product:
    if args["bias"] is not None:
        raise Skip("_grouped_mm with bias")
    a, b, ends = args["self"], args["mat2"], args["offs"]
    ranks = len(a.shape), len(b.shape)
    if ranks == (3, 3):
        return Product("grouped_mm", a, b, _same)
    ragged = {(2, 3): "m", (3, 2): "n", (2, 2): "k"}[ranks]
    a, b = (t if len(t.shape) == 3 else _matrix(t) for t in (a, b))
    return Product("grouped_mm", a, b, _same if ragged == "k" else _matrix, ragged=ragged, ends=ends)


RULES: dict[str, Callable[[str, dict[str, Any]], Product]] = {
    "mm": _mm,
    "addmm": _addmm,
    "bmm": _bmm,
    "baddbmm": _baddbmm,
    "mv": _mv,
    "addmv": _addmv,
    "dot": _dot,
    "vdot": _dot,
    "_scaled_mm": _scaled_mm,
    "_int_mm": _int_mm,
    "_grouped_mm": _grouped_mm,
}


def product(op: str, args: dict[str, Any]) -> Product:
    """What a call computes; args are all of its arguments by name, tensors as Parts. Raises Skip where a trace cannot
    hold it."""
    found = RULES[op](op, args)
    parts = [found.a, found.b] if found.c is None else [found.a, found.b, found.c]
    for part in parts:
        if not part.format:
            raise Skip(f"dtype {part.dtype}")
        if part.size > MAX_ELEMENTS:
            raise Skip("more than 2^31 elements")
    if not found.ragged:  # of those each group by itself, where the sizes are known
        if found.a.shape[-1] == 0:
            raise Skip("k = 0")
        if found.a.size == 0 or found.b.size == 0:
            raise Skip("empty")
    return found

"""Shapes: torch.matmul's rules for 1-D operands and broadcasting, and batches as the C interface sees them.

The C interface takes batch x rows x columns with one batch stride. torch.matmul takes any number of batch dimensions,
so these are merged where their strides allow, and looped over in Python where not: never copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ._errors import ShapeError

Dims = tuple[int, ...]


class Product(NamedTuple):
    """A matrix product's shape: ``batch`` is the broadcast batch shape, then m x k times k x n."""

    batch: Dims
    m: int
    n: int
    k: int
    a_is_vector: bool
    b_is_vector: bool

    def result(self, rows: int, columns: int) -> Dims:
        """The result's shape when ``rows`` x ``columns`` of each matrix are computed."""
        return self.batch + (() if self.a_is_vector else (rows,)) + (() if self.b_is_vector else (columns,))


def broadcast(x: Dims, y: Dims) -> Dims | None:
    """The shape both broadcast to, by numpy's and torch's common rule; None where they do not."""
    rank = max(len(x), len(y))
    x, y = (1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y
    if any(p != q and p != 1 and q != 1 for p, q in zip(x, y)):
        return None
    return tuple(q if p == 1 else p for p, q in zip(x, y))


def product(a: Dims, b: Dims) -> Product:
    """What a @ b is: a 1-D ``a`` is a row, a 1-D ``b`` a column, and their added dimension is dropped again."""
    for name, shape in (("a", a), ("b", b)):
        if not shape:
            raise ShapeError(f"Operand {name} has no dimensions: a matrix product needs at least one in each operand.")
    k, inner = a[-1], b[-2] if len(b) > 1 else b[0]
    if k != inner:
        raise ShapeError(
            f"The inner dimensions differ: a is {show(a)}, so k = {k}, and b is {show(b)}, so k = {inner}."
        )
    batch = broadcast(a[:-2], b[:-2])
    if batch is None:
        raise ShapeError(f"The batch dimensions {show(a[:-2])} of a and {show(b[:-2])} of b do not broadcast together.")
    return Product(
        batch,
        a[-2] if len(a) > 1 else 1,
        b[-1] if len(b) > 1 else 1,
        k,
        len(a) == 1,
        len(b) == 1,
    )


def expand(shape: Dims, strides: Dims, to: Dims) -> Dims:
    """The strides that make batch dimensions ``shape`` look like ``to``: a dimension of 1 repeats, at stride 0."""
    added = len(to) - len(shape)
    return (0,) * added + tuple(0 if n == 1 else s for n, s in zip(shape, strides))


def merge(shape: Dims, *strides: Dims) -> tuple[Dims, list[Dims]]:
    """Merges neighbouring dimensions that every operand walks with one stride; drops those of size 1.

    >>> merge((2, 3), (12, 4), (0, 0))
    ((6,), [(4,), (0,)])
    """
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for i, size in enumerate(shape):
        if size == 1:
            continue
        if sizes and all(step[-1] == size * stride[i] for step, stride in zip(steps, strides)):
            sizes[-1] *= size
            for step, stride in zip(steps, strides):
                step[-1] = stride[i]
            continue
        sizes.append(size)
        for step, stride in zip(steps, strides):
            step.append(stride[i])
    return tuple(sizes), [tuple(step) for step in steps]


def offsets(shape: Dims, *strides: Dims) -> Iterator[tuple[int, ...]]:
    """For every index into ``shape``, row-major, each operand's offset in elements."""
    if not shape:
        yield (0,) * len(strides)
        return
    for i in range(shape[0]):
        heads = [i * stride[0] for stride in strides]
        for tails in offsets(shape[1:], *(stride[1:] for stride in strides)):
            yield tuple(head + tail for head, tail in zip(heads, tails))


def contiguous(shape: Dims) -> Dims:
    """Row-major strides in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def count(shape: Dims) -> int:
    """The number of elements."""
    total = 1
    for size in shape:
        total *= size
    return total


def unravel(flat: int, shape: Dims) -> Dims:
    """The index of a row-major flat position."""
    index = []
    for size in reversed(shape):
        flat, rest = divmod(flat, size)
        index.append(rest)
    return tuple(reversed(index))


def show(shape: Dims) -> str:
    """A shape for a message: "2x3", "scalar" for no dimensions."""
    return "x".join(map(str, shape)) if shape else "(none)"

"""torch's grouped product, group by group: each is a product of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

#: the size that differs from group to group, by the dimensions of the two operands
RAGGED = {(2, 3): "m", (3, 2): "n", (2, 2): "k", (3, 3): ""}


def groups(a: Any, b: Any, offs: Any, out: torch.dtype) -> tuple[torch.Tensor, Iterator[tuple[Any, Any, Any]]]:
    """The result, zero, and of each group its two matrices and its place in the result.

    offs says where each group ends along the size that differs; None where none does. Raises RuntimeError for operands
    that do not go together, as torch does.
    """
    ragged = RAGGED.get((a.dim(), b.dim()))
    if ragged is None or (ragged != "") != (offs is not None):
        raise RuntimeError("_grouped_mm: want operands of two or three dimensions, and offs where one of them has two")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"_grouped_mm: operands of {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    if ragged == "":
        result = torch.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=out)
        return result, iter([(a[i], b[i], result[i]) for i in range(a.shape[0])])
    ends = [int(end) for end in offs.tolist()]
    parts = [slice(begin, end) for begin, end in zip([0, *ends], ends)]
    if ragged == "k":
        result = torch.zeros((len(ends), a.shape[0], b.shape[1]), dtype=out)
        return result, iter([(a[:, part], b[part], result[i]) for i, part in enumerate(parts)])
    result = torch.zeros((a.shape[-2], b.shape[-1]), dtype=out)
    if ragged == "m":
        return result, iter([(a[part], b[i], result[part]) for i, part in enumerate(parts)])
    return result, iter([(a[i], b[:, part], result[:, part]) for i, part in enumerate(parts)])

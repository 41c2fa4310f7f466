"""Shapes against torch.matmul's and numpy's own rules, and merged batches against numpy's strides."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hawkeye import ShapeError, _shapes
from hypothesis import given
from hypothesis import strategies as st

dims = st.lists(st.integers(0, 3), min_size=0, max_size=4).map(tuple)


@given(a=dims, b=dims)
def test_product_shape_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted: Any = np.matmul(np.zeros(a), np.zeros(b)).shape
    except ValueError:
        with pytest.raises(ShapeError):
            _shapes.product(a, b)
        return
    got = _shapes.product(a, b)
    assert got.result(got.m, got.n) == wanted


@given(a=dims, b=dims)
def test_product_shape_is_torchs(torch: Any, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        wanted: Any = tuple(torch.matmul(torch.zeros(a), torch.zeros(b)).shape)
    except RuntimeError:
        with pytest.raises(ShapeError):
            _shapes.product(a, b)
        return
    got = _shapes.product(a, b)
    assert got.result(got.m, got.n) == wanted


@given(x=dims, y=dims)
def test_broadcast_is_numpys(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    try:
        wanted: Any = np.broadcast_shapes(x, y)
    except ValueError:
        wanted = None
    assert _shapes.broadcast(x, y) == wanted


@given(
    shape=st.lists(st.integers(1, 4), max_size=5).map(tuple),
    order=st.randoms(use_true_random=False),
    repeat=st.integers(0, 3),
)
def test_merging_visits_the_same_elements(shape: tuple[int, ...], order: Any, repeat: int) -> None:
    """Whatever two operands' strides, the merged dimensions visit the same pairs of elements in the same order."""
    rank = len(shape)
    axes = list(range(rank))
    order.shuffle(axes)
    strides = [0] * rank
    step = 1
    for axis in axes:
        strides[axis] = step
        step *= shape[axis]
    for axis in axes[:repeat]:
        strides[axis] = 0
    other = _shapes.contiguous(shape)
    merged, (x, y) = _shapes.merge(shape, tuple(strides), other)
    assert _shapes.count(merged) == _shapes.count(shape)
    got = list(_shapes.offsets(merged, x, y))
    wanted = [
        (sum(i * s for i, s in zip(index, strides)), sum(i * s for i, s in zip(index, other)))
        for index in itertools.product(*map(range, shape))
    ]
    assert got == wanted


def test_contiguous_operands_merge_into_one_dimension() -> None:
    shape = (2, 3, 4)
    assert _shapes.merge(shape, _shapes.contiguous(shape), (0, 0, 0)) == ((24,), [(1,), (0,)])


def test_unravel_is_numpys() -> None:
    shape = (2, 3, 5)
    for flat in range(30):
        assert _shapes.unravel(flat, shape) == np.unravel_index(flat, shape)


def test_errors_name_both_shapes() -> None:
    with pytest.raises(ShapeError, match=r"2x3.*k = 3.*4x5.*k = 4"):
        _shapes.product((2, 3), (4, 5))
    with pytest.raises(ShapeError, match="Operand b has no dimensions"):
        _shapes.product((2, 3), ())
    with pytest.raises(ShapeError, match="batch dimensions 2 of a and 3 of b"):
        _shapes.product((2, 1, 1), (3, 1, 1))

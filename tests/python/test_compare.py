"""Comparison of bits."""

from __future__ import annotations

from typing import Any

import hawkeye
import numpy as np
import pytest
from hawkeye import FormatError, ShapeError
from hypothesis import given, settings
from hypothesis import strategies as st
from operands import bits, random


def test_equal() -> None:
    x = random("bf16", (64, 64), kind="bits")
    result = hawkeye.compare(x, x.copy())
    assert result
    assert result.equal
    assert (result.count, result.differing, result.first, result.worst) == (4096, 0, None, None)
    assert str(result) == "4,096 elements, every bit equal"


def test_one_bit() -> None:
    x = np.ones((3, 4, 5), np.float32)
    y = x.copy()
    y[1, 2, 3] = np.nextafter(np.float32(1), np.float32(2))
    result = hawkeye.compare(x, y)
    assert not result
    assert (result.differing, result.first, result.worst, result.worst_ulps) == (1, (1, 2, 3), (1, 2, 3), 1)
    assert (result.first_expected, result.first_actual) == (0x3F800000, 0x3F800001)
    assert str(result) == (
        "1 of 60 elements differ; the first at (1, 2, 3): expected 1 (0x3F800000), got 1.00000012 (0x3F800001); "
        "the farthest, 1 ulp, there too"
    )


def test_signs_of_zero_and_nans_are_bits() -> None:
    zeros = hawkeye.compare(np.array([0.0, 1.0], np.float16), np.array([-0.0, 1.0], np.float16))
    assert zeros.differing == 1
    assert zeros.worst_ulps == 0
    nans = hawkeye.compare(
        np.array([0x7E00], np.uint16).view(np.float16), np.array([0x7E01], np.uint16).view(np.float16)
    )
    assert nans.differing == 1
    number = hawkeye.compare(np.array([1.0], np.float16), np.array([np.nan], np.float16))
    assert number.worst_ulps is None
    assert "a NaN against a number" in str(number)


@settings(deadline=None, max_examples=60)
@given(
    shape=st.lists(st.integers(0, 4), max_size=5).map(tuple),
    order=st.randoms(use_true_random=False),
    flips=st.integers(0, 6),
)
def test_any_shape_and_strides_against_numpy(shape: tuple[int, ...], order: Any, flips: int) -> None:
    x = random("f32", shape, 1)
    y = x.copy()
    flat = bits(y).reshape(-1)
    for _ in range(flips if flat.size else 0):
        flat[order.randrange(flat.size)] ^= np.uint32(1 << order.randrange(32))
    y = flat.view(np.float32).reshape(shape)
    axes = list(range(len(shape)))
    order.shuffle(axes)
    strided = y.transpose(axes).copy().transpose(np.argsort(axes)) if axes else y
    result = hawkeye.compare(x, strided)
    unequal = bits(x) != bits(y)
    assert result.count == x.size
    assert result.differing == int(unequal.sum())
    assert result.first == (tuple(np.argwhere(unequal)[0]) if unequal.any() else None)


def test_negative_strides_and_more_than_three_dimensions() -> None:
    x = random("bf16", (2, 3, 2, 3, 4), 1)
    y = x[::-1, :, ::-1, :, ::-1].copy()[::-1, :, ::-1, :, ::-1]
    assert hawkeye.compare(x, y)
    z = y.copy()
    z[1, 2, 0, 1, 3] = -z[1, 2, 0, 1, 3]
    assert hawkeye.compare(x[:, :, ::-1], z[:, :, ::-1]).first == (1, 2, 1, 1, 3)


def test_frameworks_may_differ(torch: Any) -> None:
    x = torch.randn(4, 5).bfloat16()
    assert hawkeye.compare(x, x.clone())
    assert hawkeye.compare(x.double(), x.double().numpy())


def test_refusals() -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ShapeError, match="expected is 2x3 and actual 3x2"):
        hawkeye.compare(x, x.T)
    with pytest.raises(FormatError, match="expected is in f32 and actual in f64"):
        hawkeye.compare(x, x.astype(np.float64))

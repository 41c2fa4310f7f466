"""Operands of the kinds of tests/goldens/inputs.py, as arrays of bit patterns and as typed numpy arrays."""

from __future__ import annotations

from typing import Any

import inputs
import ml_dtypes
import numpy as np
from hawkeye._formats import BY_NAME

KINDS = ("normal", "wide", "tiny", "sparse", "bits", "cancel")
#: the names inputs.py has for formats
SOURCE = {"s8": "i8", "tf32": "f32"}
UINT = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a format."""
    numpy_name = BY_NAME[name].numpy
    try:
        return np.dtype(numpy_name)
    except TypeError:
        return np.dtype(getattr(ml_dtypes, numpy_name))


def bits(array: Any) -> Any:
    """An array's bit patterns."""
    return np.ascontiguousarray(array).view(UINT[array.dtype.itemsize]).reshape(array.shape)


def pair(a: str, b: str, kind: str, seed: int, batch: int, m: int, n: int, k: int) -> tuple[Any, Any]:
    """A (batch, m, k) and B (batch, k, n) of formats a and b."""
    x, y = inputs.operands(SOURCE.get(a, a), SOURCE.get(b, b), kind, seed, batch, m, n, k)
    return np.ascontiguousarray(x).view(dtype(a)), np.ascontiguousarray(y).view(dtype(b))


def random(name: str, shape: tuple[int, ...], seed: int = 1, kind: str = "normal") -> Any:
    """An operand of any shape."""
    count = int(np.prod(shape, dtype=np.int64))
    return inputs.elements(SOURCE.get(name, name), kind, seed, count).reshape(shape).view(dtype(name))


def same(x: Any, y: Any) -> None:
    """Asserts that two arrays have one dtype, one shape and the same bits."""
    assert x.dtype == y.dtype
    assert x.shape == y.shape
    np.testing.assert_array_equal(bits(x), bits(y))

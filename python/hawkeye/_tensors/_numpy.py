"""numpy arrays, with ml_dtypes for the formats numpy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._errors import ArgumentError, FormatError
from .._formats import BY_NUMPY, Format
from .._shapes import Dims
from . import View


def dtype_of(fmt: Format, purpose: str = "hold a result of") -> np.dtype[Any]:
    """The dtype that holds a format; ml_dtypes registers the ones numpy lacks."""
    if not fmt.numpy:
        raise FormatError(f"No numpy dtype can {purpose} format {fmt}; choose another out_dtype.")
    try:
        return np.dtype(fmt.numpy)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, fmt.numpy))
        return dtype


# numpy makes up a dtype's name anew each time it is asked, which takes longer than a small product.
_known: dict[np.dtype[Any], Format] = {}


def format_of(dtype: np.dtype[Any], name: str) -> Format:
    """The format an array's elements are in."""
    fmt = _known.get(dtype) or BY_NUMPY.get(dtype.name)
    if fmt is not None:
        _known[dtype] = fmt
        return fmt
    if dtype.kind in "Vu":
        raise FormatError(
            f"Operand {name} holds raw {dtype.itemsize}-byte elements ({dtype}): say what they are with "
            f"{name}.view(ml_dtypes.bfloat16) or another ml_dtypes dtype of that size."
        )
    raise FormatError(f"Operand {name} has dtype {dtype}, which is no operand of a GPU matrix multiplication.")


def _strides(array: np.ndarray[Any, Any]) -> Dims | None:
    """Strides in elements; None where they are no whole number of elements (a field of a structured array)."""
    size = array.itemsize
    strides = []
    for stride, n in zip(array.strides, array.shape):
        # A dimension of one element may carry any stride at all, even one that is not a multiple of the size.
        step, rest = divmod(stride, size) if n > 1 else (0, 0)
        if rest:
            return None
        strides.append(step)
    return tuple(strides)


class NumpyAdapter:
    """See Adapter."""

    def view(self, tensor: Any, name: str) -> View:
        if isinstance(tensor, np.ma.MaskedArray):  # whose mask a GPU knows nothing of
            raise FormatError(f"Operand {name} is a masked array: pass {name}.filled(0) or another value.")
        array = np.asarray(tensor)
        fmt = format_of(array.dtype, name)
        strides = _strides(array)
        if strides is None or not array.flags.aligned or not array.dtype.isnative:
            array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C")
            strides = _strides(array)
        assert strides is not None
        return View(array.__array_interface__["data"][0], fmt, array.shape, strides, array)

    def output(self, tensor: Any, name: str) -> View:
        if not isinstance(tensor, np.ndarray) or not tensor.flags.writeable:
            raise ArgumentError(f"{name} is not a writable numpy array.")
        strides = _strides(tensor)
        if strides is None or not tensor.flags.aligned or not tensor.dtype.isnative:
            raise ArgumentError(f"{name} must be aligned, of native byte order, and with strides of whole elements.")
        fmt = format_of(tensor.dtype, name)
        return View(tensor.__array_interface__["data"][0], fmt, tensor.shape, strides, tensor)

    def empty(self, shape: Dims, fmt: Format) -> Any:
        return np.empty(shape, dtype_of(fmt))

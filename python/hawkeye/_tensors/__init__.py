"""Tensors in and out, one adapter file a framework: each turns an operand into a View without copying where the layout
allows, and makes results of its own kind.

An operand's framework is told by its type alone, so that a program which uses only numpy never imports torch.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple, Protocol

from .._errors import FormatError
from .._formats import Format
from .._shapes import Dims


class View(NamedTuple):
    """Memory as the C interface sees it. Strides count elements and may be 0 or negative; ``owner`` keeps it alive."""

    address: int  # of the element at index (0, 0, ...)
    format: Format
    shape: Dims
    strides: Dims
    owner: Any


class Adapter(Protocol):
    """What a framework's file provides."""

    def view(self, tensor: Any, name: str) -> View:
        """The tensor's memory; copies only a layout that strides cannot express. ``name`` is for messages."""

    def output(self, tensor: Any, name: str) -> View:
        """The memory of a tensor to write to; refuses what would need a copy."""

    def empty(self, shape: Dims, fmt: Format) -> Any:
        """A new row-major tensor of this framework."""


def adapter(tensor: Any, name: str) -> Adapter:
    """The adapter for an operand; a FormatError (a TypeError) where there is none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        from ._torch import TorchAdapter

        return TorchAdapter()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, (numpy.ndarray, numpy.generic)):
        from ._numpy import NumpyAdapter

        return NumpyAdapter()
    if hasattr(tensor, "__dlpack__") and hasattr(tensor, "__dlpack_device__"):
        from ._dlpack import DLPackAdapter

        return DLPackAdapter()
    raise FormatError(
        f"Operand {name} is a {type(tensor).__name__}: pass a torch tensor, a numpy array (with an ml_dtypes dtype for "
        "bf16 and f8), or an object with __dlpack__."
    )

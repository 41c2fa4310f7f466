"""torch tensors in the CPU's memory. torch itself is never imported: whoever holds a tensor has imported it."""

from __future__ import annotations

import sys
from typing import Any

from .._errors import ArgumentError, DeviceError, FormatError
from .._formats import BY_TORCH, Format
from .._shapes import Dims
from . import View


def _torch() -> Any:
    return sys.modules["torch"]


_known: dict[Any, Format] = {}


def format_of(dtype: Any, name: str) -> Format:
    """The format of a tensor's elements."""
    fmt = _known.get(dtype) or BY_TORCH.get(str(dtype).rpartition(".")[2])
    if fmt is None:
        raise FormatError(f"Operand {name} has dtype {dtype}, which is no operand that Hawkeye knows.")
    _known[dtype] = fmt
    return fmt


def _check(tensor: Any, name: str) -> None:
    if tensor.device.type != "cpu":
        raise DeviceError(f"Operand {name} is on {tensor.device}, and Hawkeye computes on the CPU: pass {name}.cpu().")
    if tensor.layout is not _torch().strided:
        raise FormatError(f"Operand {name} has layout {tensor.layout}: pass {name}.to_dense().")


class TorchAdapter:
    """See Adapter. The result takes no part in autograd."""

    def view(self, tensor: Any, name: str) -> View:
        _check(tensor, name)
        fmt = format_of(tensor.dtype, name)
        tensor = tensor.detach()
        if tensor.is_neg():  # a lazily negated view, such as the imaginary part of a conjugate
            tensor = tensor.resolve_neg()
        return View(tensor.data_ptr(), fmt, tuple(tensor.shape), tuple(tensor.stride()), tensor)

    def output(self, tensor: Any, name: str) -> View:
        if not isinstance(tensor, _torch().Tensor):
            raise ArgumentError(f"{name} must be a torch tensor, as operand a is, and is a {type(tensor).__name__}.")
        if tensor.requires_grad:
            raise ArgumentError(f"{name} requires a gradient, and Hawkeye's results have none: pass {name}.detach().")
        _check(tensor, name)
        if tensor.is_neg():
            raise ArgumentError(f"{name} is a lazily negated view, which cannot be written to.")
        fmt = format_of(tensor.dtype, name)
        return View(tensor.data_ptr(), fmt, tuple(tensor.shape), tuple(tensor.stride()), tensor)

    def empty(self, shape: Dims, fmt: Format) -> Any:
        torch = _torch()
        dtype = getattr(torch, fmt.torch, None) if fmt.torch else None
        if dtype is None:
            raise FormatError(f"torch {torch.__version__} has no dtype for format {fmt}; choose another out_dtype.")
        return torch.empty(shape, dtype=dtype)

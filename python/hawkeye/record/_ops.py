"""torch's matrix multiplications as products of [batch, m, k] and [batch, k, n]: names of operators and arguments.

Operators come as they arrive below autograd and autocast; in-place and out variants, and those with an out_dtype, are
the operator they belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from . import _safetensors

MAX_ELEMENTS = 1 << 31  # of a tensor, as a reader of traces allows

#: hawkeye's names of the dtypes
FORMATS = {getattr(torch, name): form for name, form in _safetensors.FORMATS.items()}


@dataclass
class Product:
    """One call: views of its operands, all with three dimensions, and how to view its result so."""

    op: str
    a: Any
    b: Any
    view: Callable[[Any], Any]
    c: Any = None
    scalars: dict[str, float] = field(default_factory=dict)  # alpha and beta
    scale_a: Any = None  # of one element, or one a row
    scale_b: Any = None
    fast: bool = False  # use_fast_accum
    ragged: str = ""  # of grouped products: the size that differs, m, n or k
    ends: Any = None  # where each group ends along it


class Skip(Exception):  # noqa: N818  not a fault
    """Why a call is not recorded; the text is counted in the trace's coverage."""


def _matrix(t: Any) -> Any:
    return t.unsqueeze(0)


def _row(t: Any) -> Any:
    return t.unsqueeze(0).unsqueeze(0)


def _column(t: Any) -> Any:
    return t.unsqueeze(0).unsqueeze(-1)


def _same(t: Any) -> Any:
    return t


def _single(t: Any) -> Any:
    return t.reshape(1, 1, 1)


def _addend(c: Any, batch: int, m: int, n: int) -> Any:
    return c.expand(batch, m, n)


def _alpha_beta(args: dict[str, Any]) -> dict[str, float]:
    return {"alpha": args["alpha"], "beta": args["beta"]}


def _mm(op: str, args: dict[str, Any]) -> Product:
    return Product(op, _matrix(args["self"]), _matrix(args["mat2"]), _matrix)


def _addmm(op: str, args: dict[str, Any]) -> Product:
    a, b = args["mat1"], args["mat2"]
    c = _addend(args["self"], 1, a.shape[0], b.shape[1])
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
    scales = {"scale_a": args["scale_a"], "scale_b": args["scale_b"]}
    for name, size in (("scale_a", m), ("scale_b", n)):
        scale = scales[name]
        if scale.dtype is not torch.float32 or scale.numel() not in (1, size):
            raise Skip("_scaled_mm with block scales")
        scales[name] = scale.reshape(-1) if scale.numel() == 1 else scale.squeeze()
    if (scales["scale_a"].numel() == 1) != (scales["scale_b"].numel() == 1) and m > 1 and n > 1:
        raise Skip("_scaled_mm with one scale beside many")
    c = None if args["bias"] is None else _addend(args["bias"], 1, m, n)
    fast = bool(args["use_fast_accum"])
    return Product("scaled_mm", _matrix(a), _matrix(b), _matrix, c, fast=fast, **scales)


def _int_mm(op: str, args: dict[str, Any]) -> Product:
    return Product("int_mm", _matrix(args["self"]), _matrix(args["mat2"]), _matrix)


def _grouped_mm(op: str, args: dict[str, Any]) -> Product:
    if args["bias"] is not None:
        raise Skip("_grouped_mm with bias")
    a, b, ends = args["self"], args["mat2"], args["offs"]
    if a.dim() == 3 and b.dim() == 3:
        return Product("grouped_mm", a, b, _same)
    ragged = {(2, 3): "m", (3, 2): "n", (2, 2): "k"}[a.dim(), b.dim()]
    a, b = (t if t.dim() == 3 else _matrix(t) for t in (a, b))
    return Product("grouped_mm", a, b, _same if ragged == "k" else _matrix, ragged=ragged, ends=ends)


_RULES: dict[str, Callable[[str, dict[str, Any]], Product]] = {
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

# Operators that multiply matrices inside and are not recorded: counted, so that a summary does not pass over them.
_UNCOVERED = (
    "addbmm",
    "_addmm_activation",
    "_scaled_mm_v2",
    "_scaled_grouped_mm",
    "_scaled_grouped_mm_v2",
    "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
    "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
    "_flash_attention_forward",
    "_efficient_attention_forward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
    "_flash_attention_backward",
    "_efficient_attention_backward",
    "convolution",
    "convolution_backward",
    "cudnn_convolution",
    "_cudnn_rnn",
    "mkldnn_rnn_layer",
    "_weight_int4pack_mm",
    "_weight_int8pack_mm",
    "_sparse_semi_structured_mm",
    "_cslt_sparse_mm",
    "linear_backward",
    "mkldnn_linear",
    "_trilinear",
    "cdist",
    "_cdist_forward",
)

_BACKENDS = ("CPU", "CUDA")


class Overload:
    """What is to be done with one overload: found once, then looked up."""

    def __init__(self, func: Any) -> None:
        self.build: Callable[[str, dict[str, Any]], Product] | None = None
        self.uncovered = ""
        self.composite = False
        namespace, _, name = func.name().partition("::")
        base = name.partition(".")[0]
        inplace = base.endswith("_") and not base.endswith("__")
        self.op = base[:-1] if inplace else base
        if namespace == "aten":
            self.build = _RULES.get(self.op)
            self.uncovered = self.op if self.op in _UNCOVERED else ""
        self.arguments = [(a.name, a.default_value if a.has_default_value() else None) for a in func._schema.arguments]
        if self.build is None and not self.uncovered:
            # Under inference_mode operators such as linear and einsum arrive whole. They are made of others, and torch
            # would run that same C++ code next; a Python decomposition could round differently.
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            full = func.name()
            self.composite = has(full, "CompositeImplicitAutograd") and not any(has(full, key) for key in _BACKENDS)

    def product(self, args: Any, kwargs: Any) -> Product:
        """The call's product. Raises Skip where it is none that a trace can hold."""
        assert self.build is not None
        named = dict(self.arguments)
        named.update(zip((name for name, _ in self.arguments), args))
        named.update(kwargs)
        product = self.build(self.op, named)
        check(product)
        return product


def check(p: Product) -> None:
    """Raise Skip for operands that a case record does not know."""
    tensors = [p.a, p.b] if p.c is None else [p.a, p.b, p.c]
    for t in tensors:
        if t.layout is not torch.strided:
            raise Skip(f"layout {str(t.layout).rpartition('.')[2]}")
        if t.dtype not in FORMATS:
            raise Skip(f"dtype {str(t.dtype).rpartition('.')[2]}")
        if t.device.type not in ("cpu", "cuda"):
            raise Skip(f"device {t.device.type}")
        if t.numel() > MAX_ELEMENTS:
            raise Skip("more than 2^31 elements")
    if p.ragged:
        return  # each group by itself, where the sizes are known
    if p.a.shape[-1] == 0:
        raise Skip("k = 0")
    if p.a.numel() == 0 or p.b.numel() == 0:
        raise Skip("empty")


_overloads: dict[Any, Overload] = {}


def overload(func: Any) -> Overload:
    """What is known of an overload."""
    found = _overloads.get(func)
    if found is None:
        found = _overloads[func] = Overload(func)
    return found

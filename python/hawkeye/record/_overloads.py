"""torch's operators as a sampled step meets them: which multiply, which do so unseen, and which are made of others."""

from __future__ import annotations

from typing import Any

import torch

from ._ops import RULES

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


# The argument that is the first operand, where it is not "self".
_FIRST = {"addmm": "mat1", "baddbmm": "batch1", "addmv": "mat"}


class Overload:
    """What is to be done with one overload: found once, then looked up."""

    def __init__(self, func: Any) -> None:
        self.multiplies = False  # and is recorded
        self.uncovered = ""
        self.composite = False
        namespace, _, name = func.name().partition("::")
        base = name.partition(".")[0]
        inplace = base.endswith("_") and not base.endswith("__")
        self.op = base[:-1] if inplace else base
        self.output = "self" if inplace else "out"  # the argument that becomes the result, where it is given
        if namespace == "aten":
            self.multiplies = self.op in RULES
            self.uncovered = self.op if self.op in _UNCOVERED else ""
        self.arguments = [(a.name, a.default_value if a.has_default_value() else None) for a in func._schema.arguments]
        self.names = [name for name, _ in self.arguments]
        self.operand = _FIRST.get(self.op, "self")
        self.addend = "self" if self.op in _FIRST else ""  # which the result may lie upon
        if not self.multiplies and not self.uncovered:
            # Under inference_mode operators such as linear and einsum arrive whole. They are made of others, and torch
            # would run that same C++ code next; a Python decomposition could round differently.
            has = torch._C._dispatch_has_kernel_for_dispatch_key
            full = func.name()
            self.composite = has(full, "CompositeImplicitAutograd") and not any(has(full, key) for key in _BACKENDS)

    def named(self, args: Any, kwargs: Any) -> dict[str, Any]:
        """A call's arguments by name, defaults among them."""
        named = dict(self.arguments)
        named.update(zip(self.names, args))
        if kwargs:
            named.update(kwargs)
        return named


_overloads: dict[Any, Overload] = {}


def overload(func: Any) -> Overload:
    """What is known of an overload."""
    found = _overloads.get(func)
    if found is None:
        found = _overloads[func] = Overload(func)
    return found

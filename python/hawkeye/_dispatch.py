"""The torch mode behind ``hawkeye.emulate``: it sees every operator below autograd and replaces those that multiply.

An operator is first brought to one form, a ``_Product``: operands of batch x rows x columns, an addend, scalars and
scales. Its signature asks the rule table for a profile, once, and ``hawkeye_gemm`` computes it.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import os
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from . import _errors as errors
from . import _native
from ._emulate import Running
from ._formats import BY_TORCH, Format
from ._grouped import groups
from ._profiles import Profile, profile
from ._shapes import contiguous
from ._signatures import key
from ._tensors import View, adapter


class _Product(NamedTuple):
    """One call: alpha * a @ b + beta * c, as the operator's arguments say it."""

    op: str  # as in a case record
    a: torch.Tensor  # batch x m x k
    b: torch.Tensor  # batch x k x n
    c: torch.Tensor | None  # batch x m x n, a row stride of 0 for a bias
    out: torch.dtype
    shape: tuple[int, ...]  # of the result as torch gives it
    alpha: float = 1.0
    beta: float = 1.0
    scale_a: torch.Tensor | None = None  # f32: one element, or m
    scale_b: torch.Tensor | None = None  # one element, or n
    fast: bool = False


# Operators that multiply matrices on a GPU and are not replaced, by their names without overload.
LEFT_OUT = frozenset(
    {
        "_addmm_activation",
        "_cdist_forward",
        "_convolution",
        "_cslt_sparse_mm",
        "_dyn_quant_matmul_4bit",
        "_euclidean_dist",
        "_flash_attention_forward",
        "_mixed_dtypes_linear",
        "_native_multi_head_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_scaled_dot_product_fused_attention_overrideable",
        "_scaled_grouped_mm",
        "_scaled_grouped_mm_v2",
        "_scaled_mm_v2",
        "_sparse_addmm",
        "_sparse_semi_structured_addmm",
        "_sparse_semi_structured_linear",
        "_sparse_semi_structured_mm",
        "_transformer_encoder_layer_fwd",
        "_trilinear",
        "_weight_int4pack_mm",
        "_weight_int4pack_mm_for_cpu",
        "_weight_int8pack_mm",
        "addbmm",
        "addr",
        "convolution",
        "convolution_backward",
        "convolution_backward_overrideable",
        "convolution_overrideable",
        "dot",
        "ger",
        "linear_backward",
        "mkldnn_convolution",
        "mkldnn_linear",
        "mkldnn_rnn_layer",
        "mkldnn_rnn_layer_backward",
        "vdot",
    }
)

# What cuBLAS multiplies.
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_F8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def _mm(a: Any, b: Any, out_dtype: Any = None) -> _Product:
    return _Product("mm", a[None], b[None], None, out_dtype or a.dtype, (a.shape[0], b.shape[1]))


def _addmm(addend: Any, a: Any, b: Any, out_dtype: Any = None, *, beta: Any = 1, alpha: Any = 1) -> _Product:
    shape = (a.shape[0], b.shape[1])
    # torch gives a vector to the library as a bias only there; else it copies the addend into the output first.
    bias = addend.dim() == 1 and addend.is_contiguous() and beta == 1 and len(addend) == shape[1] and min(b.shape) > 1
    c = _bias(addend, *shape) if bias else addend.expand(shape).contiguous()[None]
    return _scaled_by(_Product("addmm", a[None], b[None], c, out_dtype or a.dtype, shape), alpha, beta)


def _bias(vector: torch.Tensor, m: int, n: int) -> torch.Tensor:
    return vector.as_strided((1, m, n), (0, 0, 1))


def _bmm(a: Any, b: Any, out_dtype: Any = None) -> _Product:
    return _Product("bmm", a, b, None, out_dtype or a.dtype, (a.shape[0], a.shape[1], b.shape[2]))


def _baddbmm(addend: Any, a: Any, b: Any, out_dtype: Any = None, *, beta: Any = 1, alpha: Any = 1) -> _Product:
    shape = (a.shape[0], a.shape[1], b.shape[2])
    c = addend.expand(shape).contiguous()
    return _scaled_by(_Product("baddbmm", a, b, c, out_dtype or a.dtype, shape), alpha, beta)


def _mv(a: Any, x: Any) -> _Product:
    return _Product("mv", a[None], x[None, :, None], None, a.dtype, (a.shape[0],))


def _addmv(addend: Any, a: Any, x: Any, *, beta: Any = 1, alpha: Any = 1) -> _Product:
    c = addend.expand(a.shape[0]).contiguous()[None, :, None]
    alpha, beta = (_rounded(x, a.dtype) for x in (alpha, beta))
    return _scaled_by(_Product("addmv", a[None], x[None, :, None], c, a.dtype, (a.shape[0],)), alpha, beta)


def _rounded(scalar: Any, dtype: Any) -> float:
    """torch's addmv, unlike addmm, rounds alpha and beta to the operands' type before it calls the library."""
    return float(torch.tensor(float(scalar), dtype=dtype)) if dtype.is_floating_point else float(scalar)


def _scaled_by(p: _Product, alpha: Any, beta: Any) -> _Product:
    if beta == 0:  # the addend is not read: not even its NaN
        return p._replace(c=None, alpha=float(alpha))
    return p._replace(alpha=float(alpha), beta=float(beta))


def _int_mm(a: Any, b: Any) -> _Product:
    return _Product("int_mm", a[None], b[None], None, torch.int32, (a.shape[0], b.shape[1]))


def _scaled_mm(
    a: Any,
    b: Any,
    scale_a: Any,
    scale_b: Any,
    bias: Any = None,
    scale_result: Any = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> _Product:
    m, n = a.shape[0], b.shape[1]
    if scale_result is not None:
        raise errors.UnsupportedError("How scale_result enters _scaled_mm on the GPU is not known.")
    out = out_dtype or a.dtype
    if out not in _FLOATS:
        raise errors.UnsupportedError(f"How _scaled_mm makes an output in {out} on the GPU is not known.")
    whole = scale_a.numel() == 1 and scale_b.numel() == 1
    if scale_a.dtype != torch.float32 or not (whole or (scale_a.shape == (m, 1) and scale_b.shape == (1, n))):
        raise errors.UnsupportedError(
            f"_scaled_mm with scales of {tuple(scale_a.shape)} and {tuple(scale_b.shape)} in {scale_a.dtype} is not "
            "known: f32 scales of a whole operand, or one a row of a and one a column of b, are."
        )
    c = None if bias is None else _bias(bias.contiguous(), m, n)
    product = _Product("scaled_mm", a[None], b[None], c, out, (m, n))
    return product._replace(scale_a=scale_a.reshape(-1), scale_b=scale_b.reshape(-1), fast=bool(use_fast_accum))


class _Operator(NamedTuple):
    read: Callable[..., _Product]
    first: int  # which argument is a; b follows it
    ranks: tuple[int, int]  # of a and b
    in_place: bool = False


# By name without overload.
_OPERATORS = {
    "mm": _Operator(_mm, 0, (2, 2)),
    "addmm": _Operator(_addmm, 1, (2, 2)),
    "addmm_": _Operator(_addmm, 1, (2, 2), in_place=True),
    "bmm": _Operator(_bmm, 0, (3, 3)),
    "baddbmm": _Operator(_baddbmm, 1, (3, 3)),
    "baddbmm_": _Operator(_baddbmm, 1, (3, 3), in_place=True),
    "mv": _Operator(_mv, 0, (2, 1)),
    "addmv": _Operator(_addmv, 1, (2, 1)),
    "addmv_": _Operator(_addmv, 1, (2, 1), in_place=True),
    "_scaled_mm": _Operator(_scaled_mm, 0, (2, 2)),
    "_int_mm": _Operator(_int_mm, 0, (2, 2)),
}


def _plain(tensor: Any) -> bool:
    """Whether this is memory of the CPU that can be read, and no subclass with a mind of its own."""
    kind = type(tensor)
    known = kind is torch.Tensor or kind is torch.nn.Parameter or kind is torch.nn.Buffer
    return known and tensor.device.type == "cpu" and tensor.layout is torch.strided


def _known_formats(name: str, a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether the GPU's library multiplies such operands at all."""
    if name == "_int_mm":
        return a.dtype is torch.int8 and b.dtype is torch.int8
    if name == "_scaled_mm":
        return a.dtype in _F8 and b.dtype in _F8
    return a.dtype in _FLOATS and b.dtype is a.dtype


def _strides(t: torch.Tensor) -> list[int]:
    """Strides of batch x rows x columns as the GPU library gets them.

    torch passes on a matrix whose rows or columns are contiguous and apart, and copies any other to row-major first.
    """
    _, rows, columns = t.shape
    batch, row, column = t.stride()
    if (column == 1 and row >= max(1, columns)) or (row == 1 and column >= max(1, rows)):
        return [batch, row, column]
    if not t[:1].is_contiguous() and t[:1].mT.is_contiguous():
        return [rows * columns, 1, rows]
    return [rows * columns, columns, 1]


def _tensor(t: torch.Tensor, strides: list[int]) -> dict[str, Any]:
    return {"format": _format(t.dtype).name, "shape": list(t.shape), "strides": strides}


def _format(dtype: torch.dtype) -> Format:
    return BY_TORCH[str(dtype).rpartition(".")[2]]


def _tf32() -> bool:
    """Whether f32 products may be rounded to tf32, by either of torch's two interfaces."""
    try:
        return bool(torch.backends.cuda.matmul.allow_tf32)
    except RuntimeError:  # the program uses the newer interface, beside which the older refuses to answer
        precision = torch.backends.cuda.matmul.fp32_precision
        return bool((torch.backends.fp32_precision if precision == "none" else precision) == "tf32")


def _flags(p: _Product) -> dict[str, bool]:
    """The settings that the arithmetic of such operands depends on."""
    if p.op == "scaled_mm":
        return {"use_fast_accum": p.fast}
    if p.a.dtype is torch.float32:
        return {"allow_tf32": _tf32()}
    if p.a.dtype is torch.float16:
        return {"allow_fp16_accumulation": bool(torch.backends.cuda.matmul.allow_fp16_accumulation)}
    return {}


def _scalar(value: float, double: bool) -> str:
    """A scalar as a case record has it."""
    if double:
        return f"f64:0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    return f"f32:0x{struct.unpack('<I', struct.pack('<f', c.c_float(value).value))[0]:08x}"


def _signature(p: _Product) -> str:
    """A case record without bits: what the choice of a profile depends on, as JSON."""
    batch, m, n = p.a.shape[0], p.a.shape[1], p.b.shape[2]
    record: dict[str, Any] = {
        "record_version": "1.0",
        "id": "",
        "op": p.op,
        "a": _tensor(p.a, _strides(p.a)),
        "b": _tensor(p.b, _strides(p.b)),
        "out": {"format": _format(p.out).name, "shape": [batch, m, n]},
        "flags": _flags(p),
    }
    scalars = {}
    if p.c is not None:
        record["c"] = _tensor(p.c, [0, 0, 1] if _is_bias(p.c) else list(contiguous((batch, m, n))))
        scalars["beta"] = _scalar(p.beta, p.a.dtype is torch.float64)
    scalars["alpha"] = _scalar(p.alpha, p.a.dtype is torch.float64)
    if p.scale_a is not None:
        if p.scale_a.numel() == 1 and p.scale_b is not None and p.scale_b.numel() == 1:
            # Which scales they are does not matter, and a new one each step must not make a new signature.
            scalars["scale_a"] = scalars["scale_b"] = _scalar(1.0, False)
        else:
            record["scale_a"] = {"format": "f32", "shape": [m], "strides": [1]}
            record["scale_b"] = {"format": "f32", "shape": [n], "strides": [1]}
    record["scalars"] = scalars
    return json.dumps(record, separators=(",", ":"))


def _is_bias(t: torch.Tensor) -> bool:
    return bool(t.stride(1) == 0)


def _likeliest(signature: str) -> Profile:
    """The profile of the rule table's first candidate."""
    text = signature.encode()
    choice = json.loads(_native.text("hawkeye_rules_choose", text, len(text), 1))
    if not choice["candidates"]:
        record = json.loads(signature)
        formats = f"{record['a']['format']} by {record['b']['format']}"
        raise errors.UnsupportedError(f"No plan is known for {record['op']} of {formats}: {choice['unknown']}.")
    return profile(choice["candidates"][0]["profile"])


def _matrix(view: View) -> _native.Matrix:
    return _native.matrix(view.address, view.format.code, view.shape, view.strides)


def _compute(p: _Product, chosen: Profile, threads: int) -> torch.Tensor:
    """The product, row-major."""
    batch, m, _ = p.a.shape
    result = torch.empty((batch, m, p.b.shape[2]), dtype=p.out)
    views = {"a": p.a, "b": p.b, "c": p.c, "d": result}
    kept = {name: adapter(t, name).view(t, name) for name, t in views.items() if t is not None}  # alive until the end
    args = _native.GemmArgs(struct_size=c.sizeof(_native.GemmArgs), profile=chosen._handle, alpha=p.alpha, beta=p.beta)
    for name, view in kept.items():
        setattr(args, name, c.pointer(_matrix(view)))
    for name, scale in (("scale_a", p.scale_a), ("scale_b", p.scale_b)):
        if scale is not None:
            values = scale.tolist()
            setattr(args, name, (c.c_float * max(len(values), 1))(*values))
            setattr(args, f"{name}_count", len(values))
    args.threads = threads
    with _native.Watched() as watched:
        args.progress = watched.function
        watched.call("hawkeye_gemm", c.byref(args))
    return result.view(p.shape)


class Emulation(TorchDispatchMode):  # type: ignore[misc]
    """What ``hawkeye.emulate`` returns. ``calls`` and ``left_out`` count operators by name."""

    def __init__(self, machine: str, *, threads: int | None, strict: bool, known: dict[str, Profile]) -> None:
        super().__init__()
        self.machine = machine
        self.strict = strict
        self.calls: Counter[str] = Counter()  #: products computed as on the GPU
        self.left_out: Counter[str] = Counter()  #: operators that multiply and were torch's own
        self._threads = _native.thread_count(threads)
        self._profiles: dict[str, Profile] = {}
        self._known = known
        self._process = os.getpid()

    @property
    def profiles(self) -> dict[str, Profile]:
        """The profile used for each signature met, a case record without bits as JSON (docs/cases.md)."""
        return dict(self._profiles)

    def __str__(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{name} {count:,}" for name, count in counts.most_common())

        text = f"{sum(self.calls.values()):,} products as on {self.machine} ({listed(self.calls) or 'none'}), "
        text += f"{len(self._profiles):,} signatures"
        return text + (f"; left to torch: {listed(self.left_out)}" if self.left_out else "")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if (
            os.getpid() != self._process
        ):  # a worker's products are not the GPU's, and the library does not survive a fork
            return func(*args, **kwargs)
        if _below():  # hawkeye.record, a counter of the program's: they see the operator first, and its emulated result
            with _beneath(self):
                return func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        if name == "_grouped_mm" and func.namespace == "aten":
            return self._grouped(func, *args, **kwargs)
        operator = _OPERATORS.get(name) if func.namespace == "aten" else None
        if operator is not None:
            return self._replaced(name, operator, func, args, kwargs)
        if func.namespace == "aten" and name in LEFT_OUT:
            self._leave(name)
        elif _composite(func):  # under inference_mode linear and matmul arrive whole
            with self:
                return func.decompose(*args, **kwargs)
        return func(*args, **kwargs)

    def _replaced(self, name: str, operator: _Operator, func: Any, args: Any, kwargs: Any) -> Any:
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        a, b = args[operator.first : operator.first + 2]
        if not all(map(_plain, tensors)):
            if a.device.type != "meta":
                self._leave(f"{name} on {a.device.type}")
            return func(*args, **kwargs)
        if not _known_formats(name, a, b):
            self._leave(f"{name} of {a.dtype}")
            return func(*args, **kwargs)
        _check(name, operator.ranks, a, b)
        p = operator.read(*args, **{key: value for key, value in kwargs.items() if key != "out"})
        out = args[0] if operator.in_place else kwargs.get("out")
        if out is not None and out.dtype is not p.out:
            raise RuntimeError(f"{name}: the result is in {p.out}, and out in {out.dtype}")
        if operator.in_place and out.shape != p.shape:
            raise RuntimeError(f"{name}: the result is {p.shape}, and the tensor it replaces {tuple(out.shape)}")
        if p.a.shape[2] == 0 or 0 in p.shape:  # torch fills the output without a product
            return func(*args, **kwargs)
        result = _compute(p, self._profile(p), self._threads)
        self.calls[p.op] += 1
        Running.note(self.machine)
        if out is None:
            return result
        if out.shape != result.shape:
            out.resize_(result.shape)
        return out.copy_(result)

    def _grouped(
        self, func: Any, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
    ) -> torch.Tensor:
        reason = ""
        if not all(_plain(t) for t in (a, b, offs, bias) if t is not None):
            reason = "" if a.device.type == "meta" else f" on {a.device.type}"
        elif bias is not None:
            reason = " with bias"
        elif a.dtype is not torch.bfloat16 or b.dtype is not torch.bfloat16 or out_dtype not in (None, torch.bfloat16):
            reason = f" of {a.dtype}"
        else:
            return self._each_group(a, b, offs)
        if reason:
            self._leave(f"_grouped_mm{reason}")
        result: torch.Tensor = func(a, b, offs, bias, out_dtype)
        return result

    def _each_group(self, a: Any, b: Any, offs: Any) -> torch.Tensor:
        result, parts = groups(a, b, offs, a.dtype)
        for left, right, place in parts:
            if 0 in (*left.shape, *right.shape):
                continue
            p = _Product("grouped_mm", left[None], right[None], None, a.dtype, tuple(place.shape))
            place.copy_(_compute(p, self._profile(p), self._threads))
            self.calls[p.op] += 1
            Running.note(self.machine)
        return result

    def _profile(self, p: _Product) -> Profile:
        signature = _signature(p)
        found = self._profiles.get(signature)
        if found is None:
            chosen = self._known.get(key(json.loads(signature))) if self._known else None
            found = self._profiles.setdefault(signature, chosen or _likeliest(signature))
        return found

    def _leave(self, name: str) -> None:
        if self.strict:
            raise errors.UnsupportedError(f"{name} multiplies, and how is not emulated (strict=True refuses it).")
        self.left_out[name] += 1


# The device lies below every mode of a program, and so does what stands for it. A mode is entered above others, and
# hawkeye.record puts its own below all: an operator that comes here before them goes round through them once.


def _below() -> list[Any]:
    """The thread's modes that would see an operator after the one that is handling it now."""
    stack = dispatch._get_current_dispatch_mode_stack()
    return [mode for mode in stack if getattr(mode, "_mode_key", None) is None]  # those with a key are torch's own


@contextlib.contextmanager
def _beneath(mode: Any) -> Iterator[None]:
    """Puts a mode below the thread's other modes."""
    above = [dispatch._pop_mode() for _ in _below()]
    dispatch._push_mode(mode)
    for other in reversed(above):
        dispatch._push_mode(other)
    try:
        yield
    finally:
        stack = _below()
        above = [dispatch._pop_mode() for _ in range(len(stack) - 1 - stack.index(mode))]
        dispatch._pop_mode()
        for other in reversed(above):
            dispatch._push_mode(other)


def _check(name: str, ranks: tuple[int, int], a: torch.Tensor, b: torch.Tensor) -> None:
    """Refuses operands that do not go together, as torch does."""
    if (a.dim(), b.dim()) != ranks:
        raise RuntimeError(
            f"{name}: expected operands of {ranks[0]} and {ranks[1]} dimensions, got {a.dim()}, {b.dim()}"
        )
    if a.shape[-1] != b.shape[-2 if ranks[1] > 1 else 0] or (ranks[1] == 3 and a.shape[0] != b.shape[0]):
        raise RuntimeError(f"{name}: operands of {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")


_decomposable: dict[Any, bool] = {}


def _composite(func: Any) -> bool:
    """Whether torch knows the operator only as a composition of others."""
    known = _decomposable.get(func)
    if known is None:
        has = torch._C._dispatch_has_kernel_for_dispatch_key
        known = has(func.name(), "CompositeImplicitAutograd") and not has(func.name(), "CPU")
        _decomposable[func] = known
    return known

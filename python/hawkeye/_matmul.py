"""Matrix multiplication: operands of any framework, torch.matmul's shapes, and the calls that compute them."""

from __future__ import annotations

import ctypes as c
from collections.abc import Iterable
from operator import index
from typing import Any, TypeVar, Union

from . import _formats as formats
from . import _native, _profiles, _shapes
from ._errors import ArgumentError, FormatError, ShapeError
from ._native import Progress
from ._profiles import ProfileLike
from ._shapes import Dims
from ._tensors import Adapter, View, adapter

T = TypeVar("T")
# Multiply-adds that end within a second even on the oracle's level, which does about a million a second: such a call
# needs no watching for Ctrl-C, and the watching would cost a small product more than its arithmetic.
_BRIEF = 1 << 18
#: which rows or columns to compute: any indices in any order, negative ones from the end, or a slice
Selection = Union[Iterable[int], slice]


def matmul(
    a: T,
    b: Any,
    *,
    profile: ProfileLike | None = None,
    out_dtype: Any = None,
    threads: int | None = None,
    rows: Selection | None = None,
    columns: Selection | None = None,
    scale_a: Any = None,
    scale_b: Any = None,
    progress: Progress | None = None,
    out: Any = None,
) -> T:
    """``a @ b`` as a GPU computes it, bit for bit.

    ``a`` and ``b`` are torch CPU tensors, numpy arrays (with ml_dtypes for bf16 and f8) or any CPU object with
    ``__dlpack__``, of shapes (..., m, k) and (..., k, n). Shapes, 1-D operands, broadcasting and batches follow
    ``torch.matmul``. No operand is copied, whatever its strides. The result has ``a``'s framework, (numpy's for other
    DLPack objects), is row-major, and takes no part in autograd.

    profile: what to reproduce; see ``hawkeye.profiles()``. Without one, Hopper's plan of one accumulator for the
        operands' formats: f16, bf16, e4m3 and e5m2 (their fast accumulation, in any mix), f64, s8. Operands in f32 need
        a profile that says tf32 or f32.
    out_dtype: the result's format ("f32", "bf16", torch.float32, numpy.float32, ...). Without one, the profile's: that
        of the operands for f16, bf16, f32 and f64, bf16 for f8, s32 for s8.
    threads: how many threads to use; the bits do not depend on it.
    rows, columns: compute only these, in this order; the result is (..., len(rows), len(columns)), and each element is
        the one the whole product would hold.
    scale_a, scale_b: f32 factors of f8 operands, as torch's scaled_mm has them: one number each, or one a row of ``a``
        and one a column of ``b``. A profile named beside them must say how they enter (hopper/e4m3-fast-scaled, ...).
    progress: called about ten times a second with (done, total) multiply-adds; returning False stops the call, which
        then raises Cancelled.
    out: where to put the result: an array or tensor of the result's shape, with any strides, that overlaps no operand.

    Raises a subclass of ``hawkeye.Error``: ShapeError, FormatError, ProfileError, UnsupportedError, OverlapError, ...
    Ctrl-C stops it within a second.
    """
    result: T = _multiply(
        _Operands(a, b, None),
        profile=profile,
        out_dtype=out_dtype,
        threads=threads,
        rows=rows,
        columns=columns,
        scale_a=scale_a,
        scale_b=scale_b,
        progress=progress,
        out=out,
    )
    return result


def linear(
    x: T,
    weight: Any,
    bias: Any = None,
    *,
    profile: ProfileLike | None = None,
    out_dtype: Any = None,
    threads: int | None = None,
    rows: Selection | None = None,
    columns: Selection | None = None,
    progress: Progress | None = None,
    out: Any = None,
) -> T:
    """``x @ weight.T + bias`` as torch.nn.functional.linear has it: x is (..., k), weight (n, k), bias (n).

    The bias is added to the accumulator before the one rounding to the output's format, or after it, as the profile's
    epilogue says (docs/arithmetic.md). A bias is in the output's format. The other arguments are ``matmul``'s.
    """
    weights = adapter(weight, "weight").view(weight, "weight")
    if len(weights.shape) != 2:
        raise ShapeError(f"weight is {_shapes.show(weights.shape)}: it must be n x k.")
    transposed = weights._replace(shape=weights.shape[::-1], strides=weights.strides[::-1])
    result: T = _multiply(
        _Operands(x, transposed, bias),
        profile=profile,
        out_dtype=out_dtype,
        threads=threads,
        rows=rows,
        columns=columns,
        progress=progress,
        out=out,
    )
    return result


class _Operands:
    """The operands as views, and the adapter of the first, which makes the result."""

    def __init__(self, a: Any, b: Any, bias: Any) -> None:
        self.adapter: Adapter = adapter(a, "a")
        self.a = self.adapter.view(a, "a")
        self.b: View = b if isinstance(b, View) else adapter(b, "b").view(b, "b")
        self.bias: View | None = None if bias is None else adapter(bias, "bias").view(bias, "bias")


def _multiply(
    operands: _Operands,
    *,
    profile: ProfileLike | None,
    out_dtype: Any,
    threads: int | None,
    rows: Selection | None,
    columns: Selection | None,
    progress: Progress | None,
    out: Any,
    scale_a: Any = None,
    scale_b: Any = None,
) -> Any:
    a, b, bias = operands.a, operands.b, operands.bias
    count = _native.thread_count(threads)
    shape = _shapes.product(a.shape, b.shape)
    scales = _Scales(scale_a, scale_b, shape.m, shape.n)
    chosen = _profiles.default(a.format, b.format, scales.kind) if profile is None else _profiles.profile(profile)
    _check_formats(chosen, a, b)
    if bias is not None and bias.shape != (shape.n,):
        raise ShapeError(f"bias is {_shapes.show(bias.shape)}: it must have weight's n = {shape.n} elements.")

    picked_rows = _selection("rows", rows, shape.m, a_vector=shape.a_is_vector)
    picked_columns = _selection("columns", columns, shape.n, a_vector=shape.b_is_vector)
    height = shape.m if picked_rows is None else len(picked_rows)
    width = shape.n if picked_columns is None else len(picked_columns)
    wanted = shape.result(height, width)

    if out is None:
        fmt = formats.parse(chosen.out if out_dtype is None else out_dtype)
        result = operands.adapter.empty(wanted, fmt)
        d = adapter(result, "the result").output(result, "the result")
    else:
        result, d = out, adapter(out, "out").output(out, "out")
        if d.shape != wanted:
            raise ShapeError(f"out is {_shapes.show(d.shape)} and the result {_shapes.show(wanted)}.")
        if out_dtype is not None and formats.parse(out_dtype) != d.format:
            raise FormatError(f"out holds {d.format} and out_dtype asks for {formats.parse(out_dtype)}.")

    # Rows chosen, or scaled one by one, are counted within each matrix of a batch.
    fold = picked_rows is None and not scales.given
    for matrices, done, total in _calls(shape, a, b, bias, d, height, width, fold):
        args = _native.GemmArgs(struct_size=c.sizeof(_native.GemmArgs), profile=chosen._handle, alpha=1.0, beta=1.0)
        args.a, args.b, args.c, args.d = (c.pointer(m) if m is not None else None for m in matrices)
        scales.put(args)
        args.rows, args.row_count = _indices(picked_rows)
        args.columns, args.column_count = _indices(picked_columns)
        args.threads = count
        if progress is None and total <= _BRIEF:
            _native.call("hawkeye_gemm", c.byref(args))
            continue
        with _native.Watched(_part(progress, done, total)) as watched:
            args.progress = watched.function
            if not watched.call("hawkeye_gemm", c.byref(args)):
                break
    return result


def _check_formats(profile: _profiles.Profile, a: View, b: View) -> None:
    """Names both operands and the profile, where the library would name one operand."""
    for name, view, wanted in (("a", a, profile.a), ("b", b, profile.b)):
        if view.format.name == wanted or (view.format is formats.F32 and (profile.takes_f32 or wanted == "tf32")):
            continue
        hint = ""
        if formats.F32 in (a.format, b.format):
            hint = " Operands in f32 need a profile that says tf32 or f32, such as hopper/tf32 or hopper/f32."
        raise FormatError(
            f"Operand {name} is in {view.format}, and profile {profile} multiplies {profile.a} by {profile.b}.{hint}"
        )


def _calls(
    shape: _shapes.Product, a: View, b: View, bias: View | None, d: View, height: int, width: int, fold: bool
) -> list[tuple[tuple[Any, Any, Any, Any], int, int]]:
    """The calls that make up the product: (a, b, c, d) matrices, and (done, total) multiply-adds before each."""
    m, n, k = shape.m, shape.n, shape.k
    a_row, a_k = (0, a.strides[0]) if shape.a_is_vector else a.strides[-2:]
    b_k, b_column = (b.strides[0], 0) if shape.b_is_vector else b.strides[-2:]
    inner = list(d.strides[len(shape.batch) :])
    d_row = 0 if shape.a_is_vector else inner.pop(0)
    d_column = 0 if shape.b_is_vector else inner.pop(0)
    batch, (a_batch, b_batch, d_batch) = _shapes.merge(
        shape.batch,
        _shapes.expand(a.shape[:-2], a.strides[:-2], shape.batch),
        _shapes.expand(b.shape[:-2], b.strides[:-2], shape.batch),
        d.strides[: len(shape.batch)],
    )
    # The longest dimension is the library's batch and the others are looped over here.
    longest = max(range(len(batch)), key=batch.__getitem__, default=None)
    if longest is None:
        size, a_step, b_step, d_step = 1, 0, 0, 0
    else:
        size, a_step, b_step, d_step = batch[longest], a_batch[longest], b_batch[longest], d_batch[longest]
        drop = slice(longest, longest + 1)
        batch, a_batch, b_batch, d_batch = (_without(dims, drop) for dims in (batch, a_batch, b_batch, d_batch))
    # A batch that shares b and continues a's and the result's rows is one tall matrix, as torch folds it too.
    if fold and size > 1 and b_step == 0 and m > 0 and a_step == m * a_row and d_step == m * d_row:
        m, height, size, a_step, d_step = m * size, height * size, 1, 0, 0
    elif fold and size > 1 and b_step == 0 and m == 1:
        m, height, a_row, d_row, size, a_step, d_step = size, size, a_step, d_step, 1, 0, 0

    loops = list(_shapes.offsets(batch, a_batch, b_batch, d_batch))
    each = size * height * width * k
    calls = []
    for i, (a_at, b_at, d_at) in enumerate(loops):
        addend = None
        if bias is not None:
            addend = _native.matrix(bias.address, bias.format.code, (size, m, n), (0, 0, bias.strides[0]))
        matrices = (
            _native.matrix(a.address, a.format.code, (size, m, k), (a_step, a_row, a_k), offset=a_at),
            _native.matrix(b.address, b.format.code, (size, k, n), (b_step, b_k, b_column), offset=b_at),
            addend,
            _native.matrix(d.address, d.format.code, (size, height, width), (d_step, d_row, d_column), offset=d_at),
        )
        calls.append((matrices, i * each, len(loops) * each))
    return calls


def _without(dims: Dims, drop: slice) -> Dims:
    kept = list(dims)
    del kept[drop]
    return tuple(kept)


def _selection(name: str, picked: Selection | None, size: int, *, a_vector: bool) -> list[int] | None:
    if picked is None:
        return None
    if a_vector:
        raise ShapeError(f"{name} cannot be chosen of a 1-D operand: the result has no such dimension.")
    if isinstance(picked, slice):
        return list(range(*picked.indices(size)))
    try:
        picked = list(picked)
        if any(isinstance(i, bool) for i in picked):  # integers to Python, a mask to numpy and torch
            raise ArgumentError(f"{name} must be indices, and is a mask of booleans: pass numpy.flatnonzero of it.")
        indices = [index(i) for i in picked]
    except TypeError as error:
        raise ArgumentError(f"{name} must be integers or a slice, and is {picked!r}.") from error
    for i in indices:
        if not -size <= i < size:
            raise ShapeError(f"{name} names {i}, and there are {size}.")
    return [i + size if i < 0 else i for i in indices]


def _indices(picked: list[int] | None) -> tuple[Any, int]:
    if picked is None:
        return None, 0
    # One more than needed: an empty selection must be told from none, which is NULL.
    return (c.c_int64 * (len(picked) + 1))(*picked), len(picked)


class _Scales:
    """The f8 scales as f32 values: none, one an operand, or one a row of a and one a column of b."""

    def __init__(self, scale_a: Any, scale_b: Any, m: int, n: int) -> None:
        a, b = _numbers("scale_a", scale_a), _numbers("scale_b", scale_b)
        for name, values, what, size in (("scale_a", a, "row of a", m), ("scale_b", b, "column of b", n)):
            if values is not None and len(values) not in (1, size):
                raise ShapeError(f"{name} has {len(values)} elements: it must be one number, or {size}, one a {what}.")
        self.given = a is not None or b is not None
        self.kind = ""
        if self.given:  # a scale left out is 1, by which a product does not round
            a, b = a or [1.0], b or [1.0]
            self.kind = "tensor" if len(a) == len(b) == 1 else "row"
            if self.kind == "row":
                a, b = (a * m if len(a) == 1 else a), (b * n if len(b) == 1 else b)
        self.a, self.b = a, b

    def put(self, args: _native.GemmArgs) -> None:
        """Sets the fields of a call."""
        for side, values in (("a", self.a), ("b", self.b)):
            if values is not None:
                setattr(args, f"scale_{side}", (c.c_float * max(len(values), 1))(*values))
                setattr(args, f"scale_{side}_count", len(values))


def _numbers(name: str, scale: Any) -> list[float] | None:
    if scale is None:
        return None
    if hasattr(scale, "reshape") and hasattr(scale, "tolist"):
        fmt = adapter(scale, name).view(scale, name).format
        if fmt is not formats.F32:
            raise FormatError(f"{name} is in {fmt}: scales are f32.")
        return [float(x) for x in scale.reshape(-1).tolist()]
    return [float(x) for x in scale] if isinstance(scale, (list, tuple)) else [float(scale)]


def _part(progress: Progress | None, before: int, total: int) -> Progress | None:
    """The caller's callback, told of one call among several."""
    if progress is None:
        return None
    report = progress
    return lambda done, _: report(before + done, total)

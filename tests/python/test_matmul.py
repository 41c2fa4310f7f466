"""Shapes, batches, selections, outputs, biases, scales, threads and refusals of a product."""

from __future__ import annotations

from typing import Any

import hawkeye
import numpy as np
import pytest
from hawkeye import (
    ArgumentError,
    FormatError,
    OverlapError,
    ProfileError,
    ShapeError,
    UnsupportedError,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from operands import bits, dtype, random, same


def loop(a: Any, b: Any, **options: Any) -> Any:
    """The product matrix by matrix, by calls that know no batch and no broadcasting."""
    x = a[None, :] if a.ndim == 1 else a
    y = b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = np.broadcast_to(x, batch + x.shape[-2:]), np.broadcast_to(y, batch + y.shape[-2:])
    matrices = [hawkeye.matmul(x[i].copy(), y[i].copy(), **options) for i in np.ndindex(batch)]
    kind = hawkeye.matmul(x[(0,) * len(batch)], y[(0,) * len(batch)], **options).dtype if matrices else dtype("bf16")
    d = np.array([bits(m) for m in matrices]).view(kind) if matrices else np.empty(0, kind)
    d = d.reshape((*batch, x.shape[-2], y.shape[-1]))
    if a.ndim == 1:
        d = d[..., 0, :]
    return d[..., 0] if b.ndim == 1 else d


# ---- shapes ---------------------------------------------------------------------------------------------------------

SHAPES = [
    ((5,), (5,)),
    ((5,), (5, 3)),
    ((4, 5), (5,)),
    ((4, 5), (5, 3)),
    ((1, 1), (1, 1)),
    ((2, 4, 5), (5, 3)),
    ((4, 5), (2, 5, 3)),
    ((2, 4, 5), (2, 5, 3)),
    ((2, 4, 5), (5,)),
    ((5,), (2, 5, 3)),
    ((2, 1, 4, 5), (3, 5, 2)),
    ((1, 3, 4, 5), (2, 1, 5, 3)),
    ((2, 3, 4, 5), (2, 3, 5, 2)),
    ((2, 3, 2, 1, 5), (3, 1, 5, 4)),
    ((7, 1, 5), (5, 3)),
]


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = random("bf16", a, 1), random("bf16", b, 2)
    d = hawkeye.matmul(x, y)
    assert d.shape == np.matmul(np.zeros(a), np.zeros(b)).shape
    same(np.asarray(d), loop(x, y))


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_broadcasting_of_torch(torch: Any, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = torch.randn(a).to(torch.float16), torch.randn(b).to(torch.float16)
    d = hawkeye.matmul(x, y)
    assert d.shape == torch.matmul(x.float(), y.float()).shape
    same(np.asarray(d.numpy()), loop(x.numpy(), y.numpy()))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((0,), (0,)),
        ((0, 5), (5, 3)),
        ((4, 0), (0, 3)),
        ((4, 5), (5, 0)),
        ((0, 0), (0, 0)),
        ((0, 4, 5), (5, 3)),
        ((2, 0, 5), (5, 3)),
        ((3, 0, 4, 5), (1, 1, 5, 2)),
        ((2, 4, 0), (2, 0, 3)),
    ],
)
@pytest.mark.parametrize("name", ["bf16", "e4m3", "f64", "s8"])
def test_zero_sizes(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> None:
    d = np.asarray(hawkeye.matmul(random(name, a), random(name, b)))
    assert d.shape == np.matmul(np.zeros(a), np.zeros(b)).shape
    # An empty sum is +0.
    assert not bits(d).any()


@settings(deadline=None, max_examples=80)
@given(
    batch=st.lists(st.integers(1, 3), max_size=3),
    ones_a=st.integers(0, 7),
    ones_b=st.integers(0, 7),
    m=st.integers(1, 4),
    n=st.integers(1, 4),
    k=st.integers(1, 20),
    order=st.randoms(use_true_random=False),
)
def test_any_batch_of_any_strides(
    batch: list[int], ones_a: int, ones_b: int, m: int, n: int, k: int, order: Any
) -> None:
    def operand(ones: int, rows: int, columns: int, seed: int) -> Any:
        shape = [1 if ones >> i & 1 else size for i, size in enumerate(batch)] + [rows, columns]
        axes = list(range(len(shape)))
        order.shuffle(axes)
        # Lying in memory in another order of axes, with the axes' names put back.
        x = random("bf16", tuple(shape[axis] for axis in axes), seed)
        return x.transpose(np.argsort(axes))

    x, y = operand(ones_a, m, k, 3), operand(ones_b, k, n, 4)
    same(hawkeye.matmul(x, y), loop(x, y))


def test_batch_of_rows_equals_one_tall_matrix() -> None:
    x, w = random("bf16", (6, 5, 64), 1), random("bf16", (64, 9), 2)
    d = hawkeye.matmul(x, w)
    same(d.reshape(30, 9), hawkeye.matmul(x.reshape(30, 64), w))


# ---- selections -----------------------------------------------------------------------------------------------------


def test_rows_and_columns() -> None:
    a, b = random("f16", (2, 9, 50), 1), random("f16", (2, 50, 8), 2)
    whole = hawkeye.matmul(a, b)
    for rows, columns in [
        ([0], None),
        (None, [7, 0, 3]),
        ([8, 8, -1, 2], [1]),
        (slice(None, None, -2), range(2, 6)),
        (np.array([1, 5]), np.array([-8])),
        ([], None),
        ([3], []),
    ]:
        got = hawkeye.matmul(a, b, rows=rows, columns=columns)
        wanted = (
            whole if rows is None else whole[:, rows] if not isinstance(rows, list) else whole[:, np.array(rows, int)]
        )
        if columns is not None:
            wanted = wanted[:, :, np.array(list(columns), int)]
        same(got, np.ascontiguousarray(wanted))


def test_selections_of_a_shared_weight() -> None:
    # Rows are counted within each matrix of the batch, though a shared b would allow one tall matrix.
    a, b = random("bf16", (3, 4, 32), 1), random("bf16", (32, 5), 2)
    same(hawkeye.matmul(a, b, rows=[3, 1]), np.ascontiguousarray(hawkeye.matmul(a, b)[:, [3, 1]]))


def test_selection_refusals() -> None:
    a, b = random("f16", (4, 8)), random("f16", (8, 4))
    with pytest.raises(ShapeError, match="rows names 4, and there are 4"):
        hawkeye.matmul(a, b, rows=[4])
    with pytest.raises(ShapeError, match="columns names -5"):
        hawkeye.matmul(a, b, columns=[-5])
    with pytest.raises(ArgumentError, match="rows must be integers"):
        hawkeye.matmul(a, b, rows=[1.5])  # type: ignore[list-item]
    with pytest.raises(ShapeError, match="1-D"):
        hawkeye.matmul(a[0], b, rows=[0])


# ---- outputs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["f32", "float32", np.float32, np.dtype(np.float32)])
def test_out_dtype(spec: Any) -> None:
    a, b = random("bf16", (4, 40)), random("bf16", (40, 4))
    d = hawkeye.matmul(a, b, out_dtype=spec)
    assert d.dtype == np.float32
    same(d.astype(dtype("bf16")), hawkeye.matmul(a, b))  # one more rounding to nearest even


def test_out_dtype_of_torch(torch: Any) -> None:
    a = torch.randn(4, 40).to(torch.float8_e4m3fn)
    assert hawkeye.matmul(a, a.t()).dtype == torch.bfloat16
    for kind in (torch.float32, torch.float16, torch.bfloat16):
        assert hawkeye.matmul(a, a.t(), out_dtype=kind).dtype == kind


@pytest.mark.parametrize(
    ("name", "out"),
    [("f16", "f16"), ("bf16", "bf16"), ("e4m3", "bf16"), ("e5m2", "bf16"), ("f64", "f64"), ("s8", "s32")],
)
def test_default_out_dtype(name: str, out: str) -> None:
    assert hawkeye.matmul(random(name, (3, 8)), random(name, (8, 3))).dtype == dtype(out)


def test_out_with_any_strides() -> None:
    a, b = random("bf16", (3, 4, 40), 1), random("bf16", (40, 6), 2)
    wanted = hawkeye.matmul(a, b)
    for make in (
        lambda: np.zeros((3, 4, 6), dtype("bf16")),
        lambda: np.zeros((6, 4, 3), dtype("bf16")).transpose(2, 1, 0),
        lambda: np.zeros((3, 8, 13), dtype("bf16"))[:, ::-2, 1::2],
        lambda: np.zeros((4, 3, 6), dtype("bf16")).transpose(1, 0, 2),
    ):
        out = make()
        assert hawkeye.matmul(a, b, out=out) is out
        same(out, wanted)


def test_out_leaves_its_gaps_alone() -> None:
    a, b = random("bf16", (4, 40), 1), random("bf16", (40, 6), 2)
    ground = np.full((8, 12), 7, dtype("bf16"))
    hawkeye.matmul(a, b, out=ground[1::2, ::2])
    assert (ground[::2] == 7).all()
    assert (ground[:, 1::2] == 7).all()
    same(ground[1::2, ::2], hawkeye.matmul(a, b))


def test_out_refusals() -> None:
    a, b = random("f16", (4, 8), 1), random("f16", (8, 4), 2)
    with pytest.raises(ShapeError, match="out is 4x5 and the result 4x4"):
        hawkeye.matmul(a, b, out=np.zeros((4, 5), np.float16))
    with pytest.raises(FormatError, match="out holds f16 and out_dtype asks for f32"):
        hawkeye.matmul(a, b, out=np.zeros((4, 4), np.float16), out_dtype="f32")
    square = random("f16", (4, 4))
    with pytest.raises(OverlapError):
        hawkeye.matmul(square, square, out=square)
    with pytest.raises(OverlapError):
        hawkeye.matmul(a, b, out=np.lib.stride_tricks.as_strided(np.zeros(4, np.float16), (4, 4), (0, 2)))


# ---- linear, scales -------------------------------------------------------------------------------------------------


def test_linear_is_a_product_with_the_transposed_weight(torch: Any) -> None:
    x, w = torch.randn(2, 7, 64).bfloat16(), torch.randn(5, 64).bfloat16()
    got = hawkeye.linear(x, w)
    assert got.shape == torch.nn.functional.linear(x, w).shape
    assert torch.equal(got, hawkeye.matmul(x, w.t()))


@pytest.mark.parametrize("shape", [(64,), (3, 64), (2, 3, 64), (0, 64)])
def test_linear_adds_the_bias_before_the_one_rounding(shape: tuple[int, ...]) -> None:
    x, w, bias = random("bf16", shape, 1), random("bf16", (5, 64), 2), random("bf16", (5,), 3)
    acc = np.asarray(hawkeye.matmul(x, w.T, out_dtype="f32"))
    # rne(acc + b): the sum in f64 is exact enough not to round twice for these exponents.
    wanted = (acc.astype(np.float64) + bias.astype(np.float64)).astype(dtype("bf16"))
    got = np.asarray(hawkeye.linear(x, w, bias))
    assert got.shape == wanted.shape
    assert np.mean(bits(got) == bits(wanted)) == 1.0 if got.size else True
    assert not got.size or (bits(got) != bits(np.asarray(hawkeye.matmul(x, w.T)))).any()


def test_linear_refusals() -> None:
    x, w = random("bf16", (3, 8)), random("bf16", (5, 8))
    with pytest.raises(ShapeError, match="n = 5"):
        hawkeye.linear(x, w, random("bf16", (4,)))
    with pytest.raises(ShapeError, match="n x k"):
        hawkeye.linear(x, w[0])


def test_scales() -> None:
    a, b = random("e4m3", (3, 64), 1), random("e4m3", (64, 4), 2)
    acc = hawkeye.matmul(a, b, out_dtype="f32")
    one = hawkeye.matmul(a, b, out_dtype="f32", scale_a=0.013, scale_b=2.0)
    same(one, acc * (np.float32(0.013) * np.float32(2.0)))
    rows, columns = random("f32", (3,), 5), random("f32", (4,), 6)
    each = hawkeye.matmul(a, b, out_dtype="f32", scale_a=rows[:, None], scale_b=columns[None, :])
    same(each, acc * columns * rows[:, None])  # (acc s_b) s_a, docs/arithmetic.md


def test_scale_refusals() -> None:
    a, b = random("e4m3", (3, 64)), random("e4m3", (64, 4))
    with pytest.raises(ShapeError, match="scale_a has 2 elements"):
        hawkeye.matmul(a, b, scale_a=[1.0, 2.0])
    with pytest.raises(FormatError, match="scale_b is in f64"):
        hawkeye.matmul(a, b, scale_b=np.ones(1))


# ---- profiles, threads ----------------------------------------------------------------------------------------------


def test_f32_needs_a_profile_that_says_how() -> None:
    a = random("f32", (3, 8))
    with pytest.raises(ProfileError, match=r"tf32.*hopper/f32"):
        hawkeye.matmul(a, a.T)
    assert hawkeye.matmul(a, a.T, profile="hopper/f32").dtype == np.float32
    assert hawkeye.matmul(a, a.T, profile="hopper/tf32").dtype == np.float32


def test_formats_that_do_not_fit_the_profile() -> None:
    a = random("f16", (3, 8))
    with pytest.raises(FormatError, match=r"Operand a is in f16, and profile hopper/bf16 multiplies bf16 by bf16"):
        hawkeye.matmul(a, a.T, profile="hopper/bf16")
    with pytest.raises(FormatError, match=r"f32 need a profile that says tf32 or f32"):
        hawkeye.matmul(random("f32", (3, 8)), random("f32", (8, 3)), profile="hopper/bf16")
    with pytest.raises(ProfileError, match="No default profile multiplies f16 by bf16"):
        hawkeye.matmul(a, random("bf16", (8, 3)))


def test_arithmetic_kept_as_data_is_declined() -> None:
    kept = [p for p in hawkeye.profiles() if not p.runnable and {p.a, p.b} <= {"f16", "bf16"}]
    if not kept:
        pytest.skip("every profile on f16 and bf16 runs")
    with pytest.raises(UnsupportedError):
        hawkeye.matmul(random(kept[0].a, (3, 32)), random(kept[0].b, (32, 3)), profile=kept[0])


@pytest.mark.parametrize("name", ["bf16", "e4m3", "f64", "s8"])
def test_threads_do_not_change_the_bits(name: str) -> None:
    a, b = random(name, (150, 300), 1, "wide"), random(name, (300, 130), 2, "wide")
    one = hawkeye.matmul(a, b, threads=1)
    for count in (2, 3, 7):
        same(hawkeye.matmul(a, b, threads=count), one)


def test_default_threads() -> None:
    before = hawkeye.threads()
    try:
        hawkeye.set_threads(3)
        assert hawkeye.threads() == 3
        hawkeye.set_threads(0)
        assert hawkeye.threads() >= 1
    finally:
        hawkeye.set_threads(before)
    for wrong in (-1, 1 << 20):
        with pytest.raises(ArgumentError, match="threads"):
            hawkeye.set_threads(wrong)
        with pytest.raises(ArgumentError, match="threads"):
            hawkeye.matmul(random("f16", (2, 2)), random("f16", (2, 2)), threads=wrong)


def test_unknown_instruction_set() -> None:
    with pytest.raises(hawkeye.Error, match="portable"):
        hawkeye.set_instruction_set("sse9")

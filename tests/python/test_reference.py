"""The tests' own model against what an H200 answered (docs/arithmetic.md): a model nobody checked proves nothing."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import reference
from hawkeye._formats import BF16, F16, F32, F64
from reference import STEPS, Step

HOPPER = STEPS["hopper/bf16"]
HOPPER_F16_SUMS = Step(F16, F16, 16, 25, -21, result=F16)


def bf16(*values: float) -> list[int]:
    array = np.array(values, np.float64).astype(ml_dtypes.bfloat16)
    assert array.astype(np.float64).tolist() == list(values), "not bf16 numbers"
    return array.view(np.uint16).tolist()


def f32(value: float) -> int:
    assert float(np.float32(value)) == value
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ([0, 2.0**-15], [2.0**127, 2.0**-15], 2.0**-30),
        ([2.0**-76] * 8, [2.0**-76] * 8, 2.0**-149),
        ([2.0**-76] * 16, [2.0**-77] * 16, 2.0**-149),
        # The floor of E is at most -133, and at least that.
        ([255 * 2.0**-80, 2.0**-80, 2.0**-80], [2.0**-77, 2.0**-78, 2.0**-78], 2.0**-149),
        ([255 * 2.0**-80, 2.0**-80, 2.0**-80, 2.0**-80], [2.0**-77, 2.0**-78, 2.0**-79, 2.0**-79], 0.0),
    ],
)
def test_hopper_vectors(a: list[float], b: list[float], answer: float) -> None:
    assert HOPPER.dot(bf16(*a), bf16(*b)) == f32(answer)


def test_hopper_tf32_vector() -> None:
    a, b = [f32(0.0), f32(1.0)], [f32(2.0**127), f32(2.0**-26)]
    assert STEPS["hopper/tf32"].dot(a, b) == f32(2.0**-26)


@pytest.mark.parametrize("exponent", range(-162, -144))
@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_equal_products_truncate(exponent: int, n: int) -> None:
    half = exponent // 2
    got = HOPPER.dot(bf16(*[2.0**half] * n), bf16(*[2.0 ** (exponent - half)] * n))
    # n 2^e truncated to a multiple of 2^-149, which is f32's last subnormal bit.
    assert got == (n << (exponent + 149) if exponent >= -149 else n >> (-149 - exponent))


@pytest.mark.parametrize(("small", "answer"), [(-46, 2.0**-24), (-47, 0.0)])
def test_f16_accumulation_floor(small: int, answer: float) -> None:
    half = int(np.float16(2.0**-13).view(np.uint16)), int(np.float16(2.0**-12).view(np.uint16))
    tiny = int(np.float16(2.0**-23).view(np.uint16)), int(np.float16(2.0 ** (small + 23)).view(np.uint16))
    got = HOPPER_F16_SUMS.dot([half[0], tiny[0]], [half[1], tiny[1]])
    assert got == int(np.float16(answer).view(np.uint16))


def test_sum_that_rounds_to_zero_is_positive() -> None:
    assert HOPPER.dot(bf16(-(2.0**-80)), bf16(2.0**-75)) == 0


def test_overflow_is_infinite_though_rounding_is_toward_zero() -> None:
    assert HOPPER.dot(bf16(2.0**64), bf16(2.0**64)) == 0x7F800000


@pytest.mark.parametrize(
    ("a", "b", "answer"),
    [
        ([0x7F80], [0x0000], 0x7FFFFFFF),  # Inf times 0
        ([0x7F80, 0xFF80], [0x3F80, 0x3F80], 0x7FFFFFFF),  # Inf - Inf
        ([0x7FC1], [0x3F80], 0x7FFFFFFF),
        ([0xFF80, 0x3F80], [0x3F80, 0x3F80], 0xFF800000),
    ],
)
def test_specials(a: list[int], b: list[int], answer: int) -> None:
    assert HOPPER.dot(a, b) == answer


def test_f64_chain_against_exact_products() -> None:
    # 1 + 2^-60 - 1 keeps nothing in a chain that rounds after each product, and 2^-60 the other way round.
    one, tiny = (int(np.float64(x).view(np.uint64)) for x in (1.0, 2.0**-60))
    minus = int(np.float64(-1.0).view(np.uint64))
    assert reference.fma_chain(F64, [one, tiny, minus], [one, one, one]) == 0
    assert reference.fma_chain(F64, [one, minus, tiny], [one, one, one]) == tiny


def test_rounding_against_numpy() -> None:
    random = np.random.default_rng(0)
    bits = random.integers(0, 2**32, 4000, np.uint32)
    numbers = bits.view(np.float32)
    finite = np.isfinite(numbers)
    for fmt, dtype in ((BF16, ml_dtypes.bfloat16), (F16, np.float16)):
        with np.errstate(over="ignore", invalid="ignore"):
            wanted = numbers.astype(dtype).view(np.uint16)
        for b, w in zip(bits[finite].tolist(), wanted[finite].tolist()):
            assert reference.round_to(fmt, F32, b) == w


@pytest.mark.parametrize(("value", "rounded"), [(1024.5, 1024.0), (1025.5, 1026.0), (1024.75, 1025.0)])
def test_tf32_input_rounding(value: float, rounded: float) -> None:
    assert reference.to_tf32(f32(value)) == f32(rounded)

"""Whole products against the tests' own model, bit for bit: every default profile, every kind of input, odd sizes."""

from __future__ import annotations

from typing import Any

import hawkeye
import numpy as np
import pytest
import reference
from hawkeye._formats import BY_NAME, F32, F64, Format
from hypothesis import given, settings
from hypothesis import strategies as st
from operands import KINDS, bits, pair
from reference import CHAINS, STEPS


def expected(profile: str, a: Any, b: Any, out: Format) -> Any:
    """The product of one m x k and one k x n array by the model."""
    rows, columns = bits(a).tolist(), bits(b).T.tolist()
    if profile == "hopper/tf32":
        rows, columns = ([[reference.to_tf32(x) for x in line] for line in lines] for lines in (rows, columns))
    result = np.zeros((a.shape[0], b.shape[1]), np.uint64)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            if profile in CHAINS:
                fmt = CHAINS[profile]
                result[i, j] = reference.fma_chain(fmt, row, column)
            else:
                result[i, j] = reference.round_to(out, F32, STEPS[profile].dot(row, column))
    return result


def formats(profile: str) -> tuple[str, str]:
    if profile in CHAINS:
        return CHAINS[profile].name, CHAINS[profile].name
    step = STEPS[profile]
    return tuple("f32" if f.name == "tf32" else f.name for f in (step.a, step.b))  # type: ignore[return-value]


def check(profile: str, kind: str, seed: int, m: int, n: int, k: int, out: str | None = None) -> None:
    fa, fb = formats(profile)
    a, b = (x[0] for x in pair(fa, fb, kind, seed, 1, m, n, k))
    d = hawkeye.matmul(a, b, profile=profile, out_dtype=out)
    fmt = BY_NAME[out] if out else BY_NAME[hawkeye.profile(profile).out]
    wanted = expected(profile, a, b, fmt)
    got = bits(d).astype(np.uint64)
    if fmt is F64:  # a NaN accumulator keeps its payload: only that it is one is compared
        nan = np.isnan(wanted.view(np.float64))
        assert np.isnan(got.view(np.float64))[nan].all()
        got, wanted = got[~nan], wanted[~nan]
    np.testing.assert_array_equal(got, wanted, err_msg=f"{profile} {kind} seed {seed} {m}x{n}x{k}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("profile", [*STEPS, *CHAINS])
def test_every_profile_on_every_kind(profile: str, kind: str) -> None:
    check(profile, kind, 11, 3, 5, 70)
    check(profile, kind, 12, 2, 3, 33)


@settings(deadline=None, max_examples=60)
@given(
    profile=st.sampled_from([*STEPS, *CHAINS]),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**30),
    m=st.integers(1, 5),
    n=st.integers(1, 5),
    k=st.integers(0, 67),
)
def test_random_problems(profile: str, kind: str, seed: int, m: int, n: int, k: int) -> None:
    check(profile, kind, seed, m, n, k)


@pytest.mark.parametrize("level", ["avx512", "avx2", "portable", "oracle"])
@pytest.mark.parametrize("profile", ["hopper/f16", "hopper/bf16", "hopper/e4m3-fast", "ampere/bf16", "hopper/f32"])
def test_every_instruction_set(profile: str, level: str) -> None:
    if level not in hawkeye.instruction_sets():
        pytest.skip(f"this processor has no {level}")
    hawkeye.set_instruction_set(level)
    assert hawkeye.instruction_set() == level
    for kind in KINDS:
        check(profile, kind, 21, 4, 3, 50)


@pytest.mark.parametrize("out", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("profile", ["hopper/f16", "hopper/bf16", "hopper/e4m3-fast"])
def test_output_formats(profile: str, out: str) -> None:
    for kind in ("normal", "wide", "bits", "cancel"):
        check(profile, kind, 31, 3, 4, 40, out)


def test_integers() -> None:
    a, b = (x[0] for x in pair("s8", "s8", "normal", 3, 1, 7, 5, 1000))
    d = hawkeye.matmul(a, b)
    assert d.dtype == np.int32
    np.testing.assert_array_equal(d, a.astype(np.int64) @ b.astype(np.int64))


def test_a_wrong_group_would_be_seen() -> None:
    """The inputs above tell plans apart: Ampere's groups of 8 give other bits than Hopper's 16."""
    a, b = (x[0] for x in pair("bf16", "bf16", "cancel", 5, 1, 8, 8, 64))
    hopper = hawkeye.matmul(a, b, profile="hopper/bf16", out_dtype="f32")
    ampere = hawkeye.matmul(a, b, profile="ampere/bf16", out_dtype="f32")
    assert hawkeye.compare(hopper, ampere).differing > 0

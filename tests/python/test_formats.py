"""What bits mean, against ml_dtypes; and the names of formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hawkeye import FormatError, _formats
from hawkeye._formats import BY_NUMPY, FORMATS, Format, parse, value


@pytest.mark.parametrize("fmt", [f for f in FORMATS if f.numpy and f.bytes <= 2], ids=str)
def test_every_pattern_means_what_ml_dtypes_says(fmt: Format) -> None:
    width = {10: 4, 11: 6, 12: 6}.get(fmt.code, 8 * fmt.bytes)
    bits = np.arange(1 << width).astype(np.uint8 if fmt.bytes == 1 else np.uint16)
    dtype = np.dtype(fmt.numpy) if fmt.numpy in np.sctypeDict else np.dtype(getattr(ml_dtypes, fmt.numpy))
    with np.errstate(invalid="ignore"):  # signalling NaNs
        wanted = bits.view(dtype).astype(np.float64)
    got = np.array([value(fmt, int(b)) for b in bits])
    np.testing.assert_array_equal(got, wanted)
    zero = wanted == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(wanted[zero]))


@pytest.mark.parametrize("name", ["float32", "float64", "int32"])
def test_wide_patterns(name: str) -> None:
    fmt = BY_NUMPY[name]
    random = np.random.default_rng(1)
    bits = random.integers(0, 2**64, 4000, np.uint64).astype(np.uint64 if fmt.bytes == 8 else np.uint32)
    bits[:4] = [0, 1, (1 << (8 * fmt.bytes - 1)), (1 << (8 * fmt.bytes)) - 1]
    with np.errstate(invalid="ignore"):
        wanted = bits.view(name).astype(np.float64)
    np.testing.assert_array_equal([value(fmt, int(b)) for b in bits], wanted)


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("bf16", "bf16"),
        ("bfloat16", "bf16"),
        ("float8_e4m3fn", "e4m3"),
        ("half", "f16"),
        ("int32", "s32"),
        (np.float32, "f32"),
        (np.dtype("float64"), "f64"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(ml_dtypes.float8_e5m2), "e5m2"),
        (_formats.E4M3, "e4m3"),
    ],
)
def test_parse(spec: Any, name: str) -> None:
    assert parse(spec).name == name


def test_parse_torch(torch: Any) -> None:
    assert parse(torch.bfloat16).name == "bf16"
    assert parse(torch.float8_e4m3fn).name == "e4m3"
    with pytest.raises(FormatError):
        parse(torch.complex64)


@pytest.mark.parametrize("spec", ["f17", "", np.complex64, object(), 3])
def test_parse_refuses(spec: Any) -> None:
    with pytest.raises(FormatError, match=r"bf16.*e4m3"):
        parse(spec)


def test_codes_are_the_headers(checkout: Any) -> None:
    import re

    header = (checkout / "include" / "hawkeye.h").read_text(encoding="utf-8")
    listed = dict(re.findall(r"HAWKEYE_([A-Z0-9]+) = (\d+)", header.partition("hawkeye_format;")[2].partition("};")[0]))
    assert {f.name.upper(): str(f.code) for f in FORMATS} == listed

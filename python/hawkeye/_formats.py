"""Number formats: their codes in the C interface, their names in each framework, and what their bits mean.

Sub-byte formats (e2m1, e3m2, e2m3) hold one element a byte in its low bits, as ml_dtypes does.
"""

from __future__ import annotations

from math import ldexp
from typing import Any, NamedTuple

from ._errors import FormatError


class Format(NamedTuple):
    """One number format. ``exponent_bits`` is 0 for integers; ``bias`` is the exponent's.

    ``specials`` says which patterns are no plain numbers: "ieee" has Inf and NaN, in "ocp" all ones are NaN, in "fnuz"
    the pattern of -0 is NaN, "none" has neither, "scale" is a power of two with all ones for NaN. Integers have
    "signed" or "unsigned" there.
    """

    code: int  # hawkeye_format
    name: str
    bytes: int  # of one element in memory
    exponent_bits: int
    mantissa_bits: int
    bias: int
    specials: str
    numpy: str  # the dtype's name in numpy or ml_dtypes, "" for none
    torch: str  # the dtype's name in torch, "" for none

    def __str__(self) -> str:
        return self.name


F16 = Format(1, "f16", 2, 5, 10, 15, "ieee", "float16", "float16")
BF16 = Format(2, "bf16", 2, 8, 7, 127, "ieee", "bfloat16", "bfloat16")
TF32 = Format(3, "tf32", 4, 8, 10, 127, "ieee", "", "")
F32 = Format(4, "f32", 4, 8, 23, 127, "ieee", "float32", "float32")
F64 = Format(5, "f64", 8, 11, 52, 1023, "ieee", "float64", "float64")
E4M3 = Format(6, "e4m3", 1, 4, 3, 7, "ocp", "float8_e4m3fn", "float8_e4m3fn")
E5M2 = Format(7, "e5m2", 1, 5, 2, 15, "ieee", "float8_e5m2", "float8_e5m2")
E4M3FNUZ = Format(8, "e4m3fnuz", 1, 4, 3, 8, "fnuz", "float8_e4m3fnuz", "float8_e4m3fnuz")
E5M2FNUZ = Format(9, "e5m2fnuz", 1, 5, 2, 16, "fnuz", "float8_e5m2fnuz", "float8_e5m2fnuz")
E2M1 = Format(10, "e2m1", 1, 2, 1, 1, "none", "float4_e2m1fn", "")
E3M2 = Format(11, "e3m2", 1, 3, 2, 3, "none", "float6_e3m2fn", "")
E2M3 = Format(12, "e2m3", 1, 2, 3, 1, "none", "float6_e2m3fn", "")
E8M0 = Format(13, "e8m0", 1, 8, 0, 127, "scale", "float8_e8m0fnu", "float8_e8m0fnu")
UE4M3 = Format(14, "ue4m3", 1, 4, 3, 7, "ocp", "", "")
S8 = Format(15, "s8", 1, 0, 7, 0, "signed", "int8", "int8")
U8 = Format(16, "u8", 1, 0, 8, 0, "unsigned", "uint8", "uint8")
S32 = Format(17, "s32", 4, 0, 31, 0, "signed", "int32", "int32")

FORMATS = (F16, BF16, TF32, F32, F64, E4M3, E5M2, E4M3FNUZ, E5M2FNUZ, E2M1, E3M2, E2M3, E8M0, UE4M3, S8, U8, S32)
BY_CODE = {f.code: f for f in FORMATS}
BY_NAME = {f.name: f for f in FORMATS}
BY_NUMPY = {f.numpy: f for f in FORMATS if f.numpy}
BY_TORCH = {f.torch: f for f in FORMATS if f.torch}

# What people also call them.
_ALIASES = {
    "half": F16,
    "float": F32,
    "double": F64,
    "e4m3fn": E4M3,
    "i8": S8,
    "i32": S32,
    "fp16": F16,
    "fp32": F32,
    "fp64": F64,
}


def parse(spec: Any) -> Format:
    """A format from whatever names one: "bf16", "bfloat16", a torch.dtype, a numpy dtype or scalar type, a Format."""
    if isinstance(spec, Format):
        return spec
    if isinstance(spec, str):
        found = BY_NAME.get(spec) or BY_NUMPY.get(spec) or _ALIASES.get(spec)
        if found is None:
            raise FormatError(f"No number format is called {spec!r}; Hawkeye knows {', '.join(BY_NAME)}.")
        return found
    if type(spec).__module__ == "torch":
        found = BY_TORCH.get(str(spec).rpartition(".")[2])
    else:
        import numpy as np

        try:
            found = BY_NUMPY.get(np.dtype(spec).name)
        except TypeError:
            found = None
    if found is None:
        raise FormatError(f"{spec!r} is not a number format that Hawkeye knows; it knows {', '.join(BY_NAME)}.")
    return found


def value(fmt: Format, bits: int) -> float:
    """What a bit pattern stands for, exactly (every format here fits a Python float)."""
    if fmt.specials == "signed":
        width = 8 * fmt.bytes
        return float(bits - (1 << width) if bits >> (width - 1) else bits)
    if fmt.specials == "unsigned":
        return float(bits)
    if fmt.specials == "scale":
        return float("nan") if bits == 0xFF else 2.0 ** (bits - fmt.bias)
    if fmt is TF32:  # kept in the high bits of a 32-bit word
        bits >>= 13
    e, m = fmt.exponent_bits, fmt.mantissa_bits
    negative = bits >> (e + m) & 1 == 1 and fmt is not UE4M3
    field = bits >> m & ((1 << e) - 1)
    mantissa = bits & ((1 << m) - 1)
    top = (1 << e) - 1
    if fmt.specials == "ieee" and field == top:
        return float("nan") if mantissa else float("-inf") if negative else float("inf")
    if fmt.specials == "ocp" and field == top and mantissa == (1 << m) - 1:
        return float("nan")
    if fmt.specials == "fnuz" and negative and not field and not mantissa:
        return float("nan")
    significand = mantissa if field == 0 else mantissa | 1 << m
    # ldexp rather than a power: the smallest f64 subnormal has no representable 2**exponent of its parts.
    magnitude = ldexp(significand, max(field, 1) - fmt.bias - m)
    return -magnitude if negative else magnitude

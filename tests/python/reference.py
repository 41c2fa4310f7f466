"""A second model of the arithmetic, written apart from the library's and only for small problems: Python's unlimited
integers and fractions, straight from docs/arithmetic.md. The library is tested against it, and it against recorded
answers of an H200.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, isinf, isnan, nan

from hawkeye._formats import BF16, E4M3, E5M2, F16, F32, F64, TF32, Format

CANONICAL_NAN = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF}


@dataclass(frozen=True)
class Number:
    """An element: ``exact`` where finite (None: NaN or Inf, then ``special``); its format's own exponent; its sign."""

    exact: Fraction | None
    special: float
    exponent: int
    negative: bool


def decode(fmt: Format, bits: int) -> Number:
    e, m = fmt.exponent_bits, fmt.mantissa_bits
    if fmt is TF32:
        bits >>= 13
    negative = bool(bits >> (e + m) & 1)
    field, mantissa = bits >> m & (1 << e) - 1, bits & (1 << m) - 1
    exponent = max(field, 1) - fmt.bias
    if fmt is E4M3:
        special = nan if field == 15 and mantissa == 7 else 0.0
    else:
        special = (nan if mantissa else -inf if negative else inf) if field == (1 << e) - 1 else 0.0
    if special:
        return Number(None, special, exponent, negative)
    significand = mantissa + (1 << m if field else 0)
    exact = Fraction(significand) * Fraction(2) ** (exponent - m)
    return Number(-exact if negative else exact, 0.0, exponent, negative)


def floor_log2(x: Fraction) -> int:
    """The exponent of the leading bit of x > 0."""
    n, d = x.numerator, x.denominator
    guess = n.bit_length() - d.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def encode(fmt: Format, x: Fraction, *, nearest: bool, fraction: int | None = None, zero_negative: bool = False) -> int:
    """x rounded to nearest even or toward zero, to ``fraction`` bits after the point (the format's own without);
    2^(emax+1) and more is Inf in both roundings."""
    e, m = fmt.exponent_bits, fmt.mantissa_bits
    kept = m if fraction is None else fraction
    sign = 1 << (e + m)
    if x == 0:
        return sign if zero_negative else 0
    negative, size = x < 0, abs(x)
    least = 1 - fmt.bias
    ulp = Fraction(2) ** (max(floor_log2(size), least) - kept)
    steps = size / ulp
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if nearest and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1)):
        whole += 1
    rounded = whole * ulp
    bits = sign if negative else 0
    if rounded == 0:
        return bits if nearest or zero_negative else 0
    exponent = max(floor_log2(rounded), least)
    if exponent > (1 << e) - 2 - fmt.bias:
        return bits | ((1 << e) - 1) << m
    significand = rounded / Fraction(2) ** (exponent - m)
    assert significand.denominator == 1
    field = 0 if significand < 1 << m else exponent + fmt.bias
    return bits | field << m | int(significand) & (1 << m) - 1


@dataclass(frozen=True)
class Step:
    """One fused dot-product-add."""

    a: Format
    b: Format
    group: int
    fraction: int
    floor: int | None = None
    result: Format = F32
    kept: int | None = None  # fraction bits of the result; None: all of its format's

    def dot(self, a: list[int], b: list[int], c: int = 0) -> int:
        """Bits of the accumulator after all of k."""
        for i in range(0, len(a), self.group):
            c = self.step(a[i : i + self.group], b[i : i + self.group], c)
        return c

    def step(self, a: list[int], b: list[int], c: int) -> int:
        pairs = [(decode(self.a, x), decode(self.b, y)) for x, y in zip(a, b)]
        acc = decode(self.result, c)
        terms = [(acc.exact, acc.exponent)]
        infinities = set()
        if acc.exact is None:
            if isnan(acc.special):
                return CANONICAL_NAN[self.result.name]
            infinities.add(acc.special)
        for x, y in pairs:
            if x.exact is not None and y.exact is not None:
                terms.append((x.exact * y.exact, x.exponent + y.exponent))
            elif isnan(x.special) or isnan(y.special) or x.exact == 0 or y.exact == 0:
                return CANONICAL_NAN[self.result.name]
            else:
                infinities.add(-inf if x.negative != y.negative else inf)
        if len(infinities) == 2:
            return CANONICAL_NAN[self.result.name]
        mantissa, width = self.result.mantissa_bits, self.result.exponent_bits
        if infinities:
            return ((1 << width) - 1) << mantissa | (1 << (width + mantissa) if infinities.pop() < 0 else 0)
        live = [(x, e) for x, e in terms if x]
        if not live:
            return 0
        top = max(e for _, e in live)
        if self.floor is not None:
            top = max(top, self.floor)
        unit = Fraction(2) ** (top - self.fraction)
        total = Fraction(0)
        for x, _ in live:
            steps = abs(x) / unit
            total += (steps.numerator // steps.denominator) * (unit if x > 0 else -unit)
        bits = encode(self.result, total, nearest=self.result is F16, fraction=self.kept)
        return 0 if bits & ~(1 << (width + mantissa)) == 0 else bits


def fma_chain(fmt: Format, a: list[int], b: list[int], c: int = 0) -> int:
    """c + a_0 b_0, then + a_1 b_1, ..., each one fused multiply-add to nearest even in f32 or f64."""
    for i, j in zip(a, b):
        x, y, z = decode(fmt, i), decode(fmt, j), decode(fmt, c)
        if x.exact is None or y.exact is None or z.exact is None:
            product = nan if x.exact == 0 or y.exact == 0 else _inf_product(x, y)
            total = product + z.special if z.exact is None else product
            c = _special(fmt, total)
            continue
        exact = x.exact * y.exact + z.exact
        minus = x.negative != y.negative
        both = minus and z.negative and z.exact == 0 and (x.exact == 0 or y.exact == 0)
        c = encode(fmt, exact, nearest=True, zero_negative=both)
    return c


def _inf_product(x: Number, y: Number) -> float:
    if x.exact is not None and y.exact is not None:
        return 0.0
    if isnan(x.special) or isnan(y.special):
        return nan
    return -inf if x.negative != y.negative else inf


def _special(fmt: Format, x: float) -> int:
    if isnan(x):
        return CANONICAL_NAN.get(fmt.name, 0x7FF8000000000000)
    assert isinf(x)
    e, m = fmt.exponent_bits, fmt.mantissa_bits
    return ((1 << e) - 1) << m | (1 << (e + m) if x < 0 else 0)


def round_to(out: Format, fmt: Format, bits: int) -> int:
    """An accumulator's bits rounded to nearest even into the output's format."""
    x = decode(fmt, bits)
    if x.exact is not None:
        return encode(out, x.exact, nearest=True, zero_negative=x.negative)
    if isnan(x.special):
        return CANONICAL_NAN[out.name]
    e, m = out.exponent_bits, out.mantissa_bits
    return ((1 << e) - 1) << m | (1 << (e + m) if x.special < 0 else 0)


def to_tf32(bits: int) -> int:
    """f32 bits rounded to nearest even to tf32, as cuBLAS does before the step; in a 32-bit word."""
    x = decode(F32, bits)
    if x.exact is None:
        return 0x7FFFFFFF if isnan(x.special) else bits
    narrow = encode(Format(0, "tf32", 4, 8, 10, 127, "ieee", "", ""), x.exact, nearest=True, zero_negative=x.negative)
    return narrow << 13


# Constants: docs/arithmetic.md, measured on an H200 (Hopper) or checked against recorded A100 results (Ampere).
STEPS = {
    "hopper/f16": Step(F16, F16, 16, 25, -133),
    "hopper/bf16": Step(BF16, BF16, 16, 25, -133),
    "hopper/tf32": Step(TF32, TF32, 8, 25, -133),
    "hopper/e4m3-fast": Step(E4M3, E4M3, 32, 13, kept=13),
    "hopper/e5m2-fast": Step(E5M2, E5M2, 32, 13, kept=13),
    "hopper/e4m3-e5m2-fast": Step(E4M3, E5M2, 32, 13, kept=13),
    "hopper/e5m2-e4m3-fast": Step(E5M2, E4M3, 32, 13, kept=13),
    "ampere/f16": Step(F16, F16, 8, 24, -132),
    "ampere/bf16": Step(BF16, BF16, 8, 24, -132),
}
CHAINS = {"hopper/f32": F32, "hopper/f64": F64}

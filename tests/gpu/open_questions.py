"""Ask the GPU of this machine what docs/arithmetic.md had to leave open, and record what it answers.

    python tests/gpu/open_questions.py OUT [--only empty scalars ...] [--limit SECONDS]

Needs torch with CUDA and numpy; Hawkeye is not used. OUT.jsonl gets a line an observation: what was asked, the kernels
with their launches ([grid x, y, z, block x, y, z]; names are numbers of earlier "name" lines), and bits of operands and
outputs in hexadecimal, little endian. OUT-vectors and OUT-residue are golden sets (docs/cases.md). The questions:

    empty      products with K = 0, of torch and of cublasGemmEx itself
    scalars    alpha = 0 and beta = 0, with NaN and Inf in what they multiply, and the sign of zeros
    forms      alpha·acc + beta·c where the order of its roundings shows, for every kernel torch chooses
    residue    tf32 sums that cancel, K no multiple of 8, by every kernel of cublasLt
    library    the same for the kernels that cublasLt's heuristic offers beside its first choice
    algorithms the same for every configuration that cublasLt accepts
    nans       f64: which NaN of several survives
    launches   the launches of a few thousand shapes, without regard to values
    tails      products of ones: which drop the rest of K
    golden     vector products and tf32 products whose K is no multiple of 8

Where a sum would hide what is asked, every row of A has one element that is not zero: the sum is then one product,
whatever the order.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import json
import math
import pathlib
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import record_golden
import torch

Row = dict[str, Any]
Call = Callable[[], dict[str, torch.Tensor]]

DEVICE = "cuda"
DTYPES = record_golden.DTYPES
CHUNK = 300  # calls profiled together
MATMUL = torch.backends.cuda.matmul


class Log:
    """Lines of OUT.jsonl, written as they come."""

    def __init__(self, path: pathlib.Path) -> None:
        self.file = path.open("w")
        self.names: dict[str, int] = {}

    def write(self, line: Row) -> None:
        self.file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def name(self, text: str) -> int:
        if text not in self.names:
            self.names[text] = len(self.names)
            self.write({"name": self.names[text], "text": text})
        return self.names[text]


class Deadline:
    def __init__(self, seconds: float) -> None:
        self.end = time.time() + seconds

    def over(self) -> bool:
        return time.time() > self.end


def hexadecimal(values: torch.Tensor) -> str:
    return str(record_golden.bits_of(values).tobytes().hex())


def profiled(calls: list[Call]) -> tuple[list[dict[str, torch.Tensor]], list[list[Row]]]:
    """What the calls return, and the kernels of each. A spinning kernel before each call marks where it begins."""
    if DEVICE == "cpu":  # to try this program out
        return [call() for call in calls], [[] for _ in calls]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        results = []
        for call in calls:
            torch.cuda._sleep(1000)
            results.append(call())
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        groups = record_golden.launches_of(json.loads(path.read_text()))
    if len(groups) != len(calls):
        raise RuntimeError(f"the profiler saw {len(groups)} of {len(calls)} markers")
    return results, groups


def observe(log: Log, rows: list[tuple[Row, Call]]) -> list[Row]:
    """Run calls once to see whether they are refused, once to see their kernels; write and return their rows."""
    accepted: list[tuple[Row, Call]] = []
    for row, call in rows:
        try:
            call()
            accepted.append((row, call))
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            log.write(row | {"refused": str(error).partition("\n")[0][:200]})
    for start in range(0, len(accepted), CHUNK):
        part = accepted[start : start + CHUNK]
        results, groups = profiled([call for _, call in part])
        for (row, _), result, kernels in zip(part, results, groups, strict=True):
            row["kernels"] = [log.name(k["name"]) for k in kernels]
            row["launches"] = [[*k["args"]["grid"], *k["args"]["block"]] for k in kernels]
            row |= {name: hexadecimal(values) for name, values in result.items()}
            log.write(row)
    return [row for row, _ in accepted]


def flags(spec: Row) -> None:
    MATMUL.allow_tf32 = bool(spec.get("tf32"))
    MATMUL.allow_fp16_accumulation = bool(spec.get("f16acc"))


def laid_out(values: torch.Tensor, letter: str) -> torch.Tensor:
    return values.mT.contiguous().mT if letter == "T" else values.contiguous()


class Single:
    """Operands whose sums are single products, and an addend."""

    def __init__(self, spec: Row, cancel: bool = False) -> None:
        self.spec = spec
        batch, m, n, k = spec["batch"], spec["m"], spec["n"], spec["k"]
        self.generator = torch.Generator(DEVICE).manual_seed(spec["seed"])
        self.out = DTYPES[spec["a"]]
        at = torch.randint(k, (batch, m, 1), device=DEVICE, generator=self.generator)
        a = torch.zeros((batch, m, k), dtype=self.out, device=DEVICE)
        self.a_one = self.values(batch, m, 1)
        a.scatter_(2, at, self.a_one)
        b = self.values(batch, k, n)
        self.at = at.expand(batch, m, n)
        self.b_one = b.gather(1, self.at)
        self.a, self.b = laid_out(a, spec["layout"][0]), laid_out(b, spec["layout"][1])
        self.c = self.opposite() if cancel else self.values(batch, m, n)
        if spec["op"] == "bias":
            self.c = self.c[:1, :1].expand(batch, m, n)

    def values(self, *shape: int) -> torch.Tensor:
        """Signed numbers of magnitudes in [1, 2), which tf32 holds too where it is asked for."""
        wide = torch.float64 if self.out == torch.float64 else torch.float32
        v = 1 + torch.rand(shape, device=DEVICE, dtype=wide, generator=self.generator)
        v = torch.where(torch.rand(shape, device=DEVICE, generator=self.generator) < 0.5, -v, v)
        if self.out == torch.float32 and self.spec.get("tf32"):
            v = v.half().float()
        return v.to(self.out)

    def scalars(self) -> tuple[float, float]:
        alpha, beta = float(self.spec["alpha"]), float(self.spec["beta"])
        return (alpha, beta) if self.out == torch.float64 else (float(np.float32(alpha)), float(np.float32(beta)))

    def accumulated(self) -> torch.Tensor:
        product = self.a_one.double() * self.b_one.double()
        if self.out == torch.float64:
            return product
        return product.to(torch.float16 if self.spec.get("f16acc") else torch.float32).double()

    def opposite(self) -> torch.Tensor:
        """An addend that nearly cancels the product."""
        alpha, beta = self.scalars()
        return (-(alpha / beta) * self.accumulated()).to(self.out)

    def telling(self) -> torch.Tensor:
        """Indices of elements in which the two orders of rounding differ, as far as there are, and of others."""
        alpha, beta = self.scalars()
        acc, c = self.accumulated(), self.c.double()
        between = torch.float16 if self.spec.get("f16acc") else torch.float32
        order = torch.randperm(acc.numel(), device=DEVICE, generator=self.generator)
        if self.out == torch.float64:
            return order[:24]
        x = ((alpha * acc).to(between).double() + beta * c).to(between).to(self.out)
        y = (alpha * acc + (beta * c).to(between).double()).to(between).to(self.out)
        differ = torch.nonzero((x != y).flatten()).flatten()[:20]
        return torch.cat([differ, order[:6]])

    def run(self) -> torch.Tensor:
        spec, a, b, c = self.spec, self.a, self.b, self.c
        flags(spec)
        scalars = {"alpha": spec["alpha"], "beta": spec["beta"]}
        if spec.get("filled"):  # an output that holds NaN before
            scalars["out"] = torch.full_like(c[0] if spec["op"] == "addmm" else c, math.nan)
        if spec["op"] == "addmm":
            return torch.addmm(c[0], a[0], b[0], **scalars)[None]
        if spec["op"] == "bias":
            return torch.addmm(c[0, 0], a[0], b[0], **scalars)[None]
        if spec["op"] == "addmv":
            return torch.addmv(c[0, :, 0], a[0], b[0, :, 0], **scalars)[None, :, None]
        return torch.baddbmm(c, a, b, **scalars)

    def call(self, indices: torch.Tensor) -> Call:
        fixed = {
            "x": self.a_one.expand_as(self.c).flatten()[indices],
            "y": self.b_one.flatten()[indices],
            "z": self.c.flatten()[indices],
            "at": self.at.flatten()[indices].int(),
        }
        return lambda: fixed | {"d": self.run().flatten()[indices]}


def without_products(names: list[str]) -> str:
    """Kernel names with the sizes of their tiles taken out, to tell kinds apart."""
    return " ".join(re.sub(r"\d+x\d+", "", name.partition("(")[0][-200:]) for name in names)


def size(choose: random.Random, most: int, step: int) -> int:
    return max(1, round(most ** choose.random()) // step) * step


def some_spec(choose: random.Random, narrow: bool = False) -> Row:
    """A product with alpha, beta and an addend; narrow: with few rows or columns, or K = 1."""
    while True:
        op = choose.choices(["addmm", "baddbmm", "addmv", "bias"], [50, 28, 10, 12])[0]
        dtype = choose.choices(["bf16", "f16", "f32", "f64"], [28, 30, 27, 15])[0]
        step = choose.choice([1, 1, 1, 2, 4, 8, 8])
        most = choose.choices([700, 12, 2200], [70, 20, 10])[0]
        m, n = size(choose, most, step), size(choose, 700, step)
        k = size(choose, choose.choices([6000, 40, 40000], [70, 15, 15])[0], step)
        one = choose.random()
        m, n = (m, 1) if op == "addmv" else (1, n) if one < 0.07 else (m, 1) if one < 0.14 else (m, n)
        if narrow and choose.random() < 0.25:
            k = 1
        elif narrow:
            few = choose.choice([1, 1, 2, 4, 8, 12])
            m, n = (m, 1) if op == "addmv" else choose.choice([(few, n), (m, few)])
        spec: Row = {"op": op, "m": m, "n": n, "k": k, "batch": 1, "a": dtype, "layout": choose.choice(LAYOUTS)}
        if op == "baddbmm":
            spec["batch"] = choose.choice([2, 3, 8])
        if dtype == "f32" and choose.random() < 0.6:
            spec["tf32"] = True
        if dtype == "f16" and choose.random() < 0.25:
            spec["f16acc"] = True
        spec["seed"] = choose.randrange(1 << 30)
        if spec["batch"] * (m * k + k * n + m * n) <= 1 << 21:
            return spec


LAYOUTS = ["NN", "NT", "TN", "TT"]
SCALARS = [(0.75, -1.5), (1.7, 0.3), (-0.3, 1.0), (1.0, 0.3)]


def batches(items: Iterator[Any], count: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    for item in items:
        part.append(item)
        if len(part) == count:
            yield part
            part = []
    yield part


# ---- forms -----------------------------------------------------------------------------------------------------------


def ask_forms(log: Log, deadline: Deadline) -> None:
    choose = random.Random(11)
    for number in range(36):
        if deadline.over():
            return
        rows = []
        for _ in range(60):
            spec = some_spec(choose, narrow=number >= 12)
            spec["alpha"], spec["beta"] = choose.choice(SCALARS)
            if spec["op"] == "bias":
                spec["alpha"] = spec["beta"] = 1.0
            case = Single(spec, cancel=spec["op"] != "bias")
            rows.append(({"q": "forms", **spec}, case.call(case.telling())))
        observe(log, rows)


# ---- alpha = 0, beta = 0 ---------------------------------------------------------------------------------------------

# Name: alpha, beta, what stands in a column of A, what in the addend.
VARIANTS: dict[str, tuple[float, float, str, str]] = {
    "alpha 0, NaN in A": (0.0, 1.0, "nan", ""),
    "alpha 0, Inf in A": (0.0, 1.0, "inf", ""),
    "alpha 0, zeros in C": (0.0, 0.3, "", "zeros"),
    "both 0, NaN everywhere": (0.0, 0.0, "nan", "nan"),
    "both 0": (0.0, 0.0, "", ""),
    "alpha 0, beta 0.3, NaN in A": (0.0, 0.3, "nan", ""),
    "alpha 0, beta 0.3, Inf in A": (0.0, 0.3, "inf", ""),
    "alpha 0, minus zeros in C": (0.0, 0.3, "", "minus zeros"),
    "beta 0, NaN in C": (1.0, 0.0, "", "nan"),
    "beta 0, Inf in C": (1.7, 0.0, "", "inf"),
    "beta 0": (1.7, 0.0, "", ""),
    "beta 0, products of zeros": (-1.0, 0.0, "zeros", ""),
    "beta 0, alpha 1, products of zeros": (1.0, 0.0, "zeros", ""),
    "beta 0, products that underflow": (1.0, 0.0, "tiny", ""),
    "beta 1, minus zeros": (-1.0, 1.0, "zeros", "minus zeros"),
}


def variant(spec: Row, name: str) -> tuple[Row, Call]:
    alpha, beta, in_a, in_c = VARIANTS[name]
    spec = spec | {"alpha": alpha, "beta": beta}
    case = Single(spec)
    if in_a in ("nan", "inf"):
        case.a[:, :, spec["k"] // 2] = math.inf if in_a == "inf" else math.nan
    if in_a == "zeros":
        case.a.zero_()
        case.a_one.zero_()
    if in_a == "tiny" and case.out in (torch.float32, torch.float64):
        scale = 2.0 ** (-100 if case.out == torch.float32 else -700)
        for values in (case.a, case.b, case.a_one, case.b_one):
            values *= scale
    if in_c:
        other = {"nan": math.nan, "inf": math.inf, "zeros": 0.0, "minus zeros": -0.0}[in_c]
        c = torch.full_like(case.c, other)
        if in_c == "zeros":  # of both signs, and finite numbers between them
            c = torch.where(case.c > 1.5, case.c, torch.copysign(c, case.c))
        case.c = c[:1, :1].expand_as(case.c) if spec["op"] == "bias" else c
    indices = torch.randperm(case.c.numel(), device=DEVICE, generator=case.generator)[:12]
    return {"q": "scalars", "variant": name, **spec}, case.call(indices)


def ask_scalars(log: Log, deadline: Deadline) -> None:
    choose = random.Random(12)
    seen: Counter[str] = Counter()
    for number in range(28):
        if deadline.over():
            return
        trials = []
        for _ in range(60):
            spec = some_spec(choose, narrow=number >= 16) | {"alpha": 0.75, "beta": -1.5}
            case = Single(spec)
            trials.append(({"q": "scalars", "variant": "", **spec}, case.call(torch.arange(1, device=DEVICE))))
        rows = []
        for row in observe(log, trials):
            names = {number: text for text, number in log.names.items()}
            kind = f"{row['op']} {row['a']} " + without_products([names[i] for i in row["kernels"]])
            seen[kind] += 1
            if seen[kind] > 2:
                continue
            spec = {key: row[key] for key in SPEC if key in row}
            for name in VARIANTS:
                rows.append(variant(spec, name))
            if spec["op"] != "bias" and spec["op"] != "addmv":
                rows.append(variant(spec | {"filled": True}, "beta 0, NaN in C"))
        observe(log, rows)


SPEC = ["op", "m", "n", "k", "batch", "a", "layout", "tf32", "f16acc", "seed"]


# ---- K = 0 -----------------------------------------------------------------------------------------------------------


def ask_empty(log: Log, deadline: Deadline) -> None:
    rows: list[tuple[Row, Call]] = []

    def add(row: Row, call: Callable[[], torch.Tensor], **fixed: torch.Tensor) -> None:
        def run() -> dict[str, torch.Tensor]:
            flags(row)
            return fixed | {"d": call()}

        rows.append(({"q": "empty", **row}, run))

    m, n = 3, 4
    for dtype in ("f16", "bf16", "f32", "f64"):
        torch_type = DTYPES[dtype]
        a = torch.empty((2, m, 0), dtype=torch_type, device=DEVICE)
        b = torch.empty((2, 0, n), dtype=torch_type, device=DEVICE)
        c = torch.tensor([1.7, -0.3, 0.0, -0.0, math.nan, math.inf, -math.inf, 1e-7, -1e-7, 3.1, 2.9, -1.1] * 2)
        c = c.to(DEVICE, torch_type).reshape(2, m, n)
        linear = functools.partial(torch.nn.functional.linear, a[0], b[0].mT)
        add({"op": "mm", "a": dtype}, functools.partial(torch.mm, a[0], b[0]))
        add({"op": "bmm", "a": dtype}, functools.partial(torch.bmm, a, b))
        add({"op": "mv", "a": dtype}, functools.partial(torch.mv, a[0], b[0, :, 0]))
        add({"op": "linear", "a": dtype}, linear)
        for name, addend in (("ordinary", c[1, 2].clone()), ("special", c[0, 1].clone())):
            add({"op": "linear", "a": dtype, "c": name}, functools.partial(linear, addend), z=addend)
        for alpha, beta in ((1.0, 1.0), (1.0, 0.3), (0.0, 0.3), (1.7, 0.0), (2.0, -1.5), (math.nan, 1.0)):
            row = {"a": dtype, "alpha": alpha, "beta": beta}
            scalars = {"alpha": alpha, "beta": beta}
            for op, function, operands in (
                ("addmm", torch.addmm, (c[0], a[0], b[0])),
                ("bias", torch.addmm, (c[0, 2], a[0], b[0])),
                ("baddbmm", torch.baddbmm, (c, a, b)),
                ("addbmm", torch.addbmm, (c[0], a, b)),
                ("addmv", torch.addmv, (c[0, :, 3], a[0], b[0, :, 0])),
            ):
                add({"op": op, **row}, functools.partial(function, *operands, **scalars), z=operands[0])
            if DEVICE == "cuda":
                add({"op": "cublasGemmEx", **row}, gemm_ex(dtype, m, n, c[0], alpha, beta), z=c[0])

    def empty(rows: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.empty((rows, 0), device=DEVICE).to(dtype)

    half, eight, whole = empty(16, torch.float16), empty(16, torch.float8_e4m3fn), empty(32, torch.int8)
    one = torch.ones((), device=DEVICE)
    scaled = functools.partial(torch._scaled_mm, eight, eight.mT, one, one, out_dtype=torch.bfloat16)
    add({"op": "mm", "a": "f16", "out": "f32"}, functools.partial(torch.mm, half, half.mT, out_dtype=torch.float32))
    add({"op": "scaled_mm", "a": "e4m3"}, scaled)
    add({"op": "int_mm", "a": "i8"}, functools.partial(torch._int_mm, whole, whole.mT))
    observe(log, rows)


def library(name: str) -> ctypes.CDLL:
    """The library that torch has loaded."""
    found = re.search(rf"\S*/lib{name}\.so\S*", pathlib.Path("/proc/self/maps").read_text())
    if found is None:
        raise RuntimeError(f"lib{name} is not loaded")
    return ctypes.CDLL(found.group())


CUDA_TYPE = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}


def scalar(dtype: str, value: float, half: bool = False) -> Any:
    """A host number of the type that a kernel scales in."""
    if half:
        return ctypes.c_uint16(int(np.array(value, np.float16).view(np.uint16)))
    return ctypes.c_double(value) if dtype == "f64" else ctypes.c_float(value)


def gemm_ex(dtype: str, m: int, n: int, c: torch.Tensor, alpha: float, beta: float) -> Callable[[], torch.Tensor]:
    """cublasGemmEx with K = 0, which torch does not ask for."""
    function = library("cublas").cublasGemmEx
    memory = torch.empty(64, dtype=DTYPES[dtype], device=DEVICE)
    kind, compute = CUDA_TYPE[dtype], 70 if dtype == "f64" else 68

    def run() -> torch.Tensor:
        d = c.clone()
        pointer = ctypes.c_void_p
        handle = pointer(torch.cuda.current_blas_handle())
        a, b = scalar(dtype, alpha), scalar(dtype, beta)
        at = pointer(memory.data_ptr())
        operands = (ctypes.byref(a), at, kind, n, at, kind, 1)
        status = function(
            handle, 0, 0, n, m, 0, *operands, ctypes.byref(b), pointer(d.data_ptr()), kind, n, compute, -1
        )
        if status:
            raise RuntimeError(f"cublasGemmEx: {status}")
        return d

    return run


# ---- cublasLt --------------------------------------------------------------------------------------------------------


class Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


WORKSPACE = 1 << 25  # bytes


class Lt:
    """A product of cublasLt, D = alpha·A·B + beta·D, whose algorithm is ours to choose."""

    lib: ctypes.CDLL | None = None
    handle = ctypes.c_void_p()
    memory: torch.Tensor | None = None

    def __init__(self, case: Single | Cancelled) -> None:
        if Lt.lib is None:
            Lt.lib = library("cublasLt")
            self.check("cublasLtCreate", ctypes.byref(Lt.handle))
            Lt.memory = torch.empty(WORKSPACE, dtype=torch.int8, device=DEVICE)
        self.case, spec = case, case.spec
        self.dtype, half = spec["a"], bool(spec.get("f16acc"))
        kind = CUDA_TYPE[self.dtype]
        self.compute = 64 if half else {"f64": 70, "f32": 77 if spec.get("tf32") else 68}.get(self.dtype, 68)
        self.scale = CUDA_TYPE["f16"] if half else CUDA_TYPE["f64" if self.dtype == "f64" else "f32"]
        self.kinds = [self.compute, self.scale, kind, kind, kind, kind]
        self.alpha, self.beta = scalar(self.dtype, spec["alpha"], half), scalar(self.dtype, spec["beta"], half)
        m, n, k, batch = spec["m"], spec["n"], spec["k"], spec["batch"]
        self.descriptor = ctypes.c_void_p()
        self.check("cublasLtMatmulDescCreate", ctypes.byref(self.descriptor), self.compute, self.scale)
        # Column-major: the first operand is B transposed, the second A transposed.
        turns = [int(letter == "T") for letter in (spec["layout"][1], spec["layout"][0])]
        for attribute, turned in zip((3, 4), turns):
            self.set("cublasLtMatmulDescSetAttribute", self.descriptor, attribute, ctypes.c_int32(turned))
        first = (k, n) if turns[0] else (n, k)
        second = (m, k) if turns[1] else (k, m)
        self.layouts = [self.layout(kind, *shape, batch) for shape in (first, second, (n, m), (n, m))]

    def check(self, function: str, *arguments: Any) -> None:
        status = getattr(Lt.lib, function)(*arguments)
        if status:
            raise RuntimeError(f"{function}: status {status}")

    def set(self, function: str, what: Any, attribute: int, value: Any) -> None:
        self.check(function, what, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))

    def layout(self, kind: int, rows: int, columns: int, batch: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        sizes = ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
        self.check("cublasLtMatrixLayoutCreate", ctypes.byref(made), kind, *sizes)
        self.set("cublasLtMatrixLayoutSetAttribute", made, 5, ctypes.c_int32(batch))
        self.set("cublasLtMatrixLayoutSetAttribute", made, 6, ctypes.c_int64(rows * columns))
        return made

    def offered(self, count: int) -> list[Any]:
        """The algorithms that the heuristic proposes."""
        preference, found = ctypes.c_void_p(), ctypes.c_int()
        self.check("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        self.set("cublasLtMatmulPreferenceSetAttribute", preference, 1, ctypes.c_uint64(WORKSPACE))
        results = (Heuristic * count)()
        function = "cublasLtMatmulAlgoGetHeuristic"
        self.check(function, Lt.handle, self.descriptor, *self.layouts, preference, count, results, ctypes.byref(found))
        return [results[i].algorithm for i in range(found.value) if results[i].state == 0]

    def accepted(self, choose: random.Random, most: int) -> list[Any]:
        """Algorithms of every number, tile and count of stages, without a split, as far as the library accepts them."""
        ids, found = (ctypes.c_int * 100)(), ctypes.c_int()
        assert Lt.lib is not None
        self.check("cublasLtMatmulAlgoGetIds", Lt.handle, *self.kinds, 100, ids, ctypes.byref(found))
        result = []
        for number in ids[: found.value]:
            fitting = []
            for tile in self.able(number, 6):
                for stages in self.able(number, 13):
                    made, answer = (ctypes.c_uint64 * 8)(), Heuristic()
                    Lt.lib.cublasLtMatmulAlgoInit(Lt.handle, *self.kinds, number, made)
                    for attribute, value in ((1, tile), (2, 1), (6, stages)):
                        setting, width = ctypes.c_uint32(value), ctypes.c_size_t(4)
                        Lt.lib.cublasLtMatmulAlgoConfigSetAttribute(made, attribute, ctypes.byref(setting), width)
                    arguments = (Lt.handle, self.descriptor, *self.layouts, made, ctypes.byref(answer))
                    if not Lt.lib.cublasLtMatmulAlgoCheck(*arguments) and answer.workspace <= WORKSPACE:
                        fitting.append(made)
            result += choose.sample(fitting, min(len(fitting), most))
        return result

    def able(self, number: int, capability: int) -> list[int]:
        """The tiles (6) or stages (13) that an algorithm can have."""
        assert Lt.lib is not None
        made, values, written = (ctypes.c_uint64 * 8)(), (ctypes.c_uint32 * 1000)(), ctypes.c_size_t()
        if Lt.lib.cublasLtMatmulAlgoInit(Lt.handle, *self.kinds, number, made):
            return []
        function, width = Lt.lib.cublasLtMatmulAlgoCapGetAttribute, ctypes.c_size_t(4000)
        if function(made, capability, values, width, ctypes.byref(written)) or written.value == 0:
            return [0]
        return list(values[: written.value // 4])

    def call(self, algorithm: Any, indices: torch.Tensor) -> Call:
        case = self.case
        d = torch.empty_like(case.c, memory_format=torch.contiguous_format)
        assert Lt.memory is not None
        fixed = case.call(indices)()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # Base addresses: a transposed view begins where its memory begins.
        at = [ctypes.c_void_p(t.data_ptr()) for t in (case.b, case.a, d, d, Lt.memory)]

        def run() -> dict[str, torch.Tensor]:
            d.copy_(case.c)
            arguments = [Lt.handle, self.descriptor, ctypes.byref(self.alpha), at[0], self.layouts[0], at[1]]
            arguments += [self.layouts[1], ctypes.byref(self.beta), at[2], self.layouts[2], at[3], self.layouts[3]]
            self.check("cublasLtMatmul", *arguments, algorithm, at[4], ctypes.c_size_t(WORKSPACE), stream)
            return fixed | {"d": d.flatten()[indices]}

        return run


KINDS: list[Row] = [{"a": "f16"}, {"a": "bf16"}, {"a": "f32"}, {"a": "f64"}]
KINDS += [{"a": "f16", "f16acc": True}, {"a": "f32", "tf32": True}]


def library_specs() -> Iterator[Row]:
    choose = random.Random(13)
    sizes = [(67, 131, 77), (66, 130, 202), (68, 132, 100), (128, 256, 64), (264, 520, 328), (1027, 771, 129)]
    for batch in (1, 3):
        for m, n, k in sizes:
            for kind in KINDS:
                for layout in LAYOUTS:
                    alpha, beta = choose.choice(SCALARS)
                    spec: Row = {"op": "addmm" if batch == 1 else "baddbmm", "m": m, "n": n, "k": k, "batch": batch}
                    spec |= kind | {"layout": layout, "alpha": alpha, "beta": beta}
                    yield spec | {"seed": choose.randrange(1 << 30)}


def ask_library(log: Log, deadline: Deadline, every: bool = False) -> None:
    choose = random.Random(14)
    specs = list(library_specs())
    if every:
        choose.shuffle(specs)
    for part in batches(iter(specs), 6 if every else 12):
        rows = []
        for spec in part:
            if deadline.over():
                return
            case = Single(spec, cancel=True)
            indices = case.telling()
            problem = Lt(case)
            algorithms = problem.accepted(choose, 12) if every else problem.offered(40)
            for algorithm in algorithms:
                rows.append(({"q": "library", **spec}, problem.call(algorithm, indices)))
        observe(log, rows)
        torch.cuda.synchronize()


class Cancelled:
    """Operands whose sums cancel, as of a golden case, with what Lt asks for."""

    def __init__(self, spec: Row) -> None:
        self.spec, self.out = spec, DTYPES[spec["a"]]
        sizes = (spec["batch"], spec["m"], spec["n"], spec["k"])
        operands = record_golden.inputs.operands(spec["a"], spec["a"], spec["kind"], spec["seed"], *sizes)
        tensors = [record_golden.tensor(x, spec["a"], y == "T") for x, y in zip(operands, spec["layout"])]
        self.a, self.b = tensors
        self.c = torch.zeros((spec["batch"], spec["m"], spec["n"]), dtype=self.out, device=DEVICE)

    def call(self, indices: torch.Tensor) -> Call:
        return dict


def ask_residue(log: Log, deadline: Deadline) -> None:
    choose, number = random.Random(20), 0
    for m, n in ((64, 128), (128, 256), (512, 384)):
        for layout, lengths in (
            ("NT", (12, 20, 36, 100, 132)),
            ("TN", (9, 12, 13, 37, 77, 100, 131)),
            ("NN", (20, 52)),
        ):
            for k in lengths:
                if deadline.over():
                    return
                spec: Row = {"op": "mm", "m": m, "n": n, "k": k, "batch": 1, "a": "f32", "tf32": True}
                spec |= {"layout": layout, "kind": "cancel", "seed": 92000 + number, "alpha": 1.0, "beta": 0.0}
                number += 1
                case = Cancelled(spec)
                problem = Lt(case)
                indices = torch.arange(0, m * n, m * n // 40, device=DEVICE)
                algorithms = problem.offered(40) + problem.accepted(choose, 3)
                observe(log, [({"q": "residue", **spec}, problem.call(x, indices)) for x in algorithms])


def ask_algorithms(log: Log, deadline: Deadline) -> None:
    ask_library(log, deadline, every=True)


# ---- NaNs of f64 -----------------------------------------------------------------------------------------------------


def nan_bits(choose: random.Random, source: int, k: int) -> int:
    """A NaN that says where it stood: in A (1), B (2) or C (3), at which k; of either sign, signalling or quiet."""
    return choose.getrandbits(1) << 63 | 0x7FF << 52 | choose.getrandbits(1) << 51 | source << 40 | 1 << 36 | k


def nan_case(spec: Row, name: str) -> tuple[Row, Call]:
    batch, m, n, k = spec["batch"], spec["m"], spec["n"], spec["k"]
    choose = random.Random(spec["seed"])
    places = sorted({p for p in (0, 1, 2, 3, 4, 5, 8, 9, 16, 17, k // 2, k // 2 + 1, k - 2, k - 1) if 0 <= p < k})
    numbers = np.random.default_rng(spec["seed"])
    a, b = numbers.standard_normal((batch, m, k)), numbers.standard_normal((batch, k, n))
    c = numbers.standard_normal((batch, m, n))
    rows: list[list[Any]] = [[] for _ in range(m)]
    columns: list[list[Any]] = [[] for _ in range(n)]
    invalid = places[len(places) // 2]
    if name == "invalid":
        b[:, invalid, :] = 0  # where A holds Inf the product is invalid
    for i in range(m):
        for p in choose.sample(places, min(len(places), choose.choice([0, 1, 1, 2, 2, 3]))):
            bits = nan_bits(choose, 1, p)
            if name == "invalid" and p == invalid:
                bits = 0x7FF0 << 48
            rows[i].append([p, f"{bits:016x}"])
            a[:, i, p] = np.array(bits, np.uint64).view(np.float64)
    for j in range(n):
        for p in choose.sample(places, min(len(places), choose.choice([0, 0, 1, 1, 2]))) if name != "invalid" else []:
            bits = nan_bits(choose, 2, p)
            columns[j].append([p, f"{bits:016x}"])
            b[:, p, j] = np.array(bits, np.uint64).view(np.float64)
    with_c = name in ("addend", "scaled addend", "negated")
    if with_c:
        for i in range(m):
            for j in range(n):
                if choose.random() < 0.5:
                    c[:, i, j] = np.array(nan_bits(choose, 3, 0), np.uint64).view(np.float64)
    left, right = (laid_out(torch.from_numpy(x).to(DEVICE), y) for x, y in zip((a, b), spec["layout"]))
    addend = torch.from_numpy(c).to(DEVICE)
    count = batch * m * n
    kept = sorted(choose.sample(range(count), min(count, 120)))
    at = torch.tensor(kept, device=DEVICE)
    rows_used = {i: rows[i] for i in sorted({x // n % m for x in kept})}
    columns_used = {j: columns[j] for j in sorted({x % n for x in kept})}
    alpha, beta = {"scaled addend": (0.7, 0.3), "negated": (-1.0, -1.0), "alpha": (0.7, 0.0)}.get(name, (1.0, 1.0))
    row = {"q": "nans", "variant": name, **spec, "alpha": alpha, "beta": beta}
    row |= {"rows": rows_used, "columns": columns_used, "kept": kept}

    def run() -> dict[str, torch.Tensor]:
        if spec["op"] == "dot":
            return {"d": torch.dot(left[0, 0], right[0, :, 0])[None]}
        if with_c or name == "alpha":
            if spec["op"] == "mv":
                d = torch.addmv(addend[0, :, 0], left[0], right[0, :, 0], alpha=alpha, beta=beta)
            elif batch == 1:
                d = torch.addmm(addend[0], left[0], right[0], alpha=alpha, beta=beta)
            else:
                d = torch.baddbmm(addend, left, right, alpha=alpha, beta=beta)
            return {"z": addend.flatten()[at], "d": d.flatten()[at]}
        if spec["op"] == "mv":
            return {"d": torch.mv(left[0], right[0, :, 0]).flatten()[at]}
        return {"d": (torch.mm(left[0], right[0]) if batch == 1 else torch.bmm(left, right)).flatten()[at]}

    return row, run


def ask_nans(log: Log, deadline: Deadline) -> None:
    choose = random.Random(15)
    seen: Counter[str] = Counter()
    for _ in range(8):
        trials = []
        for _ in range(70):
            op = choose.choices(["mm", "mv", "bmm", "dot"], [60, 15, 20, 5])[0]
            step = choose.choice([1, 1, 2, 8])
            m, n = size(choose, 160, step), size(choose, 160, step)
            k = size(choose, choose.choice([40, 700, 5000]), step)
            one = choose.random()
            m, n = (m, 1) if op == "mv" else (1, n) if one < 0.15 else (m, 1) if one < 0.3 else (m, n)
            m, n = (1, 1) if op == "dot" else (m, n)
            spec: Row = {"op": op, "m": m, "n": n, "k": k, "batch": 2 if op == "bmm" else 1, "a": "f64"}
            spec |= {"layout": choose.choice(LAYOUTS), "seed": choose.randrange(1 << 30)}
            if spec["batch"] * k * max(m, n) <= 1 << 19:
                trials.append(nan_case(spec, "plain"))
        rows = []
        for row in observe(log, trials):
            names = {number: text for text, number in log.names.items()}
            kind = without_products([names[i] for i in row["kernels"]])
            seen[kind] += 1
            if seen[kind] > 3 or row["op"] == "dot":
                continue
            spec = {key: row[key] for key in SPEC if key in row}
            rows += [nan_case(spec, name) for name in ("invalid", "addend", "scaled addend", "negated", "alpha")]
        observe(log, rows)
        if deadline.over():
            return


# ---- launches --------------------------------------------------------------------------------------------------------


class Views:
    """Operands of any shape over one piece of memory."""

    def __init__(self, fill: float) -> None:
        names = ("bf16", "f16", "f32", "f64")
        self.memory = {name: torch.full((1 << 25,), fill, dtype=DTYPES[name], device=DEVICE) for name in names}

    def operand(self, dtype: str, batch: int, rows: int, columns: int, letter: str) -> torch.Tensor:
        strides = (rows * columns, 1, rows) if letter == "T" else (rows * columns, columns, 1)
        return self.memory[dtype].as_strided((batch, rows, columns), strides)

    def product(self, spec: Row) -> torch.Tensor:
        flags(spec)
        a = self.operand(spec["a"], spec["batch"], spec["m"], spec["k"], spec["layout"][0])
        b = self.operand(spec["a"], spec["batch"], spec["k"], spec["n"], spec["layout"][1])
        if spec["op"] == "mv":
            return torch.mv(a[0], b[0, :, 0])
        if spec["op"] == "bmm":
            return torch.bmm(a, b)
        if spec.get("out", spec["a"]) != spec["a"]:
            return torch.mm(a[0], b[0], out_dtype=DTYPES[spec["out"]])
        return torch.mm(a[0], b[0])


def launch_specs() -> Iterator[Row]:
    choose = random.Random(16)
    plain = {"op": "mm", "batch": 1}
    # nvjet: a lattice of few rows, some columns, long sums.
    for a, layout in (("bf16", "NT"), ("f16", "NN")):
        for m in (1, 8, 16, 33, 64, 96, 128, 256):
            for n in (16, 64, 128, 256, 384, 512, 1024, 2048, 4096):
                for k in (512, 1024, 2048, 3072, 4096, 6144, 8192, 11008, 16384, 28672, 65536):
                    if m * k <= 1 << 24 and n * k <= 1 << 25:
                        yield plain | {"a": a, "layout": layout, "m": m, "n": n, "k": k}
    # CUTLASS and xmma: any shapes.
    for _ in range(1500):
        a = choose.choice(["bf16", "f16", "f32", "f32", "f64"])
        m, n, k = (size(choose, most, choose.choice([1, 4])) for most in (600, 600, 12000))
        spec = plain | {"a": a, "layout": choose.choice(LAYOUTS), "m": m, "n": n, "k": k}
        yield spec | {"tf32": choose.random() < 0.5}
    # The same shape with one size changed at a time.
    for a, layout, tf32 in (("bf16", "NN", 0), ("f16", "NT", 0), ("f32", "NN", 0), ("f32", "TN", 1), ("f64", "NN", 0)):
        for m, n in ((33, 65), (65, 129), (129, 33)):
            for k in [65 * i + 2 for i in range(1, 40)]:
                yield plain | {"a": a, "tf32": bool(tf32), "layout": layout, "m": m, "n": n, "k": k}
    # dot: every length; gemv with long sums.
    for a in ("bf16", "f16", "f32", "f64"):
        for k in sorted({size(choose, 1 << 22, 1) for _ in range(90)}):
            yield plain | {"a": a, "layout": "NN", "m": 1, "n": 1, "k": k}
        for _ in range(150):
            m, k = size(choose, 4000, 1), size(choose, 60000, choose.choice([1, 8]))
            if m * k <= 1 << 23:
                spec = plain | {"a": a, "layout": choose.choice(LAYOUTS), "k": k}
                yield spec | ({"m": m, "n": 1} if choose.random() < 0.5 else {"m": 1, "n": m})


def ask_launches(log: Log, deadline: Deadline) -> None:
    views = Views(0.0)
    for part in batches(launch_specs(), CHUNK):
        if deadline.over():
            return

        def call(spec: Row) -> Call:
            def run() -> dict[str, torch.Tensor]:
                views.product(spec)
                return {}

            return run

        observe(log, [({"q": "launches", **spec}, call(spec)) for spec in part])


def ask_tails(log: Log, deadline: Deadline) -> None:
    views, choose = Views(1.0), random.Random(17)
    for _ in range(10):
        if deadline.over():
            return
        rows: list[tuple[Row, Call]] = []
        while len(rows) < CHUNK:
            a, layout = choose.choice(["f16", "bf16"]), choose.choice(LAYOUTS)
            m, n = choose.choice([1, 2, 4, 8, 16, 24, 32, 64, 128]), 8 * choose.randint(1, 64)
            units, rest = size(choose, 800, 1), 8 * choose.randint(1, 7)
            if layout[0] == "T":
                m = max(8, m)
            k = 64 * (units + 20) + rest
            if k * max(m, n) > 1 << 25:
                continue
            spec = {"op": "mm", "batch": 1, "a": a, "out": "f32", "layout": layout, "m": m, "n": n, "k": k}

            def run(spec: Row = spec) -> dict[str, torch.Tensor]:
                d = views.product(spec)
                return {"d": torch.stack([d.min(), d.max()])}

            rows.append(({"q": "tails", **spec}, run))
        observe(log, rows)


# ---- golden sets -----------------------------------------------------------------------------------------------------


def vector_specs() -> list[Row]:
    choose = random.Random(18)
    specs: list[Row] = []
    while len(specs) < 1600:
        a = choose.choices(["f32", "f64", "bf16", "f16"], [40, 40, 12, 8])[0]
        other, k = size(choose, 1500, 1), size(choose, 4000, choose.choice([1, 1, 4]))
        if len(specs) > 500:  # the lanes of long sums
            other, k = size(choose, 60, 1), choose.randint(100, 3000)
        spec = {"op": "mm", "m": 1, "n": other} if choose.random() < 0.6 else {"op": "mv", "m": other, "n": 1}
        if choose.random() < 0.15:
            spec |= {"op": "bmm", "batch": choose.choice([2, 5])}
        if other * k * spec.get("batch", 1) <= 200_000 and k > 1:
            spec |= {"k": k, "a": a, "layout": choose.choice(LAYOUTS)}
            specs.append(spec | {"kind": "cancel", "seed": 90000 + len(specs)})
    return specs


def residue_specs() -> list[Row]:
    choose = random.Random(19)
    specs: list[Row] = []
    while len(specs) < 160:
        m, n = (choose.choice([16, 32, 64, 96, 128, 192, 256, 384, 512]) for _ in "mn")
        k = choose.choice([4, 12, 20, 28, 36, 44, 52, 60, 68, 76, 100, 132, 156, 260, 500, 516, 1028, 1540])
        if k * max(m, n) <= 400_000:
            spec = {"op": "mm", "m": m, "n": n, "k": k, "a": "f32", "tf32": True, "layout": choose.choice(LAYOUTS)}
            specs.append(spec | {"kind": "cancel", "seed": 91000 + len(specs)})
    return specs


def ask_golden(log: Log, deadline: Deadline) -> None:
    for name, specs in (("residue", residue_specs()), ("vectors", vector_specs())):
        recorder = record_golden.Recorder(pathlib.Path(f"{log.file.name.removesuffix('.jsonl')}-{name}"), name)
        for part in batches(iter(specs), record_golden.CHUNK):
            if deadline.over():
                break
            record_golden.record(recorder, part, len(specs))
        recorder.close()


QUESTIONS: dict[str, tuple[Callable[[Log, Deadline], None], float]] = {
    "empty": (ask_empty, 15),
    "scalars": (ask_scalars, 45),
    "forms": (ask_forms, 30),
    "library": (ask_library, 40),
    "nans": (ask_nans, 40),
    "golden": (ask_golden, 45),
    "launches": (ask_launches, 40),
    "tails": (ask_tails, 20),
    "residue": (ask_residue, 20),
    "algorithms": (ask_algorithms, 40),
}


def main() -> int:
    global DEVICE
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--only", nargs="+", choices=QUESTIONS, default=list(QUESTIONS))
    parser.add_argument("--limit", type=float, default=240, help="seconds for all questions together")
    parser.add_argument("--device", default="cuda", help="cpu tries the program out, without kernels")
    options = parser.parse_args()
    DEVICE = options.device
    log = Log(options.out.with_suffix(".jsonl"))
    if DEVICE == "cuda":
        log.write({"about": record_golden.about()})
        torch.mm(torch.ones(8, 8, device=DEVICE), torch.ones(8, 8, device=DEVICE))  # makes the library's handle
    whole, failures = Deadline(options.limit), 0
    for name in options.only:
        ask, seconds = QUESTIONS[name]
        start = time.time()
        try:
            ask(log, Deadline(min(seconds, whole.end - start)))
        except Exception as error:
            failures += 1
            log.write({"q": name, "failed": repr(error)[:500]})
            print(f"{name}: {error!r}", file=sys.stderr)
        log.file.flush()
        print(f"{name}: {time.time() - start:.1f} s", file=sys.stderr, flush=True)
    log.file.close()
    return failures


if __name__ == "__main__":
    sys.exit(main())

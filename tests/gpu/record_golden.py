"""Record matrix products of torch on the GPU of this machine as a golden set (docs/cases.md says what the files hold).

    python tests/gpu/record_golden.py OUT --random 300 --seed 7    300 random products, to OUT.jsonl and OUT.bin
    python tests/gpu/record_golden.py OUT --specs cases.jsonl      the products a file lists, one JSON object a line
    python tests/gpu/record_golden.py OUT --tails                  products of ones that show a dropped rest of K

Needs torch with CUDA and numpy, nothing else: Hawkeye itself is not used, so that a recording owes nothing to it.
Operands are made from seeds by tests/goldens/inputs.py; of each output its sha256 and up to 8192 elements are kept (all
of them, or 512 drawn ones), with the names, grids and blocks of the kernels that the profiler saw. A spec has the
fields op, m, n, k and whichever of batch, a, b, out, layout, kind, seed, c, c_lower, alpha, beta, tf32, f16acc, fast,
scaling, scale_a, scale_b differ from their defaults.

Random sizes are log-uniform: m and n from 1 to 4096, k from 1 to 16384; half of the cases have sizes that are multiples
of 16. A product that torch refuses is replaced by another. Verify the set anywhere, without a GPU:
hawkeye golden OUT.jsonl
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import pathlib
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "goldens"))
import inputs

Spec = dict[str, Any]

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "i32": torch.int32,
}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
DEVICE = "cuda"  # another one only to try what uses this module where there is no GPU
MAX_ELEMENTS = 1 << 25  # of one operand, so that the seeds stay quick to expand
CHUNK = 24  # cases profiled together
CHUNK_ELEMENTS = 1 << 27


def log_uniform(choose: random.Random, high: int, aligned: bool) -> int:
    """A size from 1 to high, or a multiple of 16."""
    size = round(2 ** choose.uniform(0, math.log2(high)))
    return max(16, size // 16 * 16) if aligned else max(1, size)


def weighted(choose: random.Random, table: Mapping[Any, float]) -> Any:
    return choose.choices(list(table), list(table.values()))[0]


OPS = {"mm": 40, "linear": 19, "scaled_mm": 13, "addmm": 9, "bmm": 7, "mv": 5, "baddbmm": 5, "int_mm": 2}
F8_PAIRS = [("e4m3", "e4m3"), ("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")]
SCALARS = [(1.0, 1.0), (1.0, 0.3), (0.125, 1.0), (0.75, -1.5), (1.7, 0.3)]
KINDS = {"cancel": 76, "normal": 8, "wide": 6, "sparse": 4, "tiny": 3, "bits": 3}


def random_spec(choose: random.Random) -> Spec:
    """One product of any kind torch offers."""
    while True:
        op = weighted(choose, OPS)
        aligned = choose.random() < 0.5
        m, n = (log_uniform(choose, 4096, aligned) for _ in "mn")
        spec: Spec = {"op": op, "m": m, "n": n, "k": log_uniform(choose, 16384, aligned), "batch": 1}
        spec["seed"] = choose.randrange(1 << 24)
        spec["kind"] = weighted(choose, KINDS)
        spec["layout"] = choose.choice(["NN", "NT", "TN", "TT"])
        dtype = weighted(choose, {"bf16": 42, "f16": 26, "f32": 24, "f64": 8})
        spec["a"] = spec["b"] = spec["out"] = dtype
        if op == "scaled_mm":
            spec |= {"k": -(-spec["k"] // 16) * 16, "n": -(-n // 16) * 16, "layout": "NT"}
            spec["a"], spec["b"] = choose.choice(
                [("e4m3", "e4m3"), ("e4m3", "e4m3"), ("e4m3", "e5m2"), ("e5m2", "e4m3")]
            )
            spec["fast"], spec["scaling"] = choose.random() < 0.5, choose.choice(["tensor", "tensor", "row"])
            spec["out"] = "bf16" if spec["scaling"] == "row" else choose.choice(["bf16", "bf16", "f16", "f32"])
            spec["scale_a"], spec["scale_b"] = choose.choice([(1.0, 1.0), (0.013, 2.0), (0.37, 1.9)])
        if op == "int_mm":
            spec |= {
                "m": max(m, 17),
                "k": -(-spec["k"] // 8) * 8,
                "n": -(-n // 8) * 8,
                "a": "i8",
                "b": "i8",
                "out": "i32",
            }
        if op == "linear":
            spec["layout"] = "NT"
        if op == "mv":
            spec |= {"n": 1, "layout": choose.choice(["NN", "TN"])}
        if op in ("bmm", "baddbmm"):
            spec["batch"] = choose.choice([2, 3, 8, 12, 32])
        if op in ("addmm", "baddbmm"):
            spec |= {"c": "full", "c_lower": 7}
            spec["alpha"], spec["beta"] = choose.choice(
                [(1.0, 1.0), (1.0, 0.3), (0.125, 1.0), (0.75, -1.5), (1.7, 0.3)]
            )
        if op == "linear" and choose.random() < 0.5:
            spec |= {"c": "bias", "c_lower": 7}
        if op == "mm" and dtype in ("bf16", "f16") and choose.random() < 0.3:
            spec["out"] = "f32"
        if dtype == "f32" and spec["a"] == "f32" and choose.random() < 0.6:
            spec["tf32"] = True
        if dtype == "f16" and op in ("mm", "linear", "addmm") and spec["out"] == "f16" and choose.random() < 0.15:
            spec["f16acc"] = True
        if spec["batch"] * spec["k"] * max(spec["m"], spec["n"]) <= MAX_ELEMENTS:
            return spec


def tail_specs() -> list[Spec]:
    """Ones, whose sums count the products: split-K drops the last K mod 64 of them for such shapes."""
    shapes = [(11528, "f16"), (11528, "f32"), (57608, "f16"), (57608, "f32")]
    common = {"op": "mm", "m": 1, "n": 8, "batch": 1, "kind": "ones", "layout": "NN", "a": "f16", "b": "f16", "seed": 0}
    return [common | {"k": k, "out": out} for k, out in shapes]


def tensor(bits: Any, name: str, transposed: bool = False) -> torch.Tensor:
    """Bit patterns as a tensor on the GPU, the last two axes transposed in memory where asked for."""
    if transposed:
        bits = np.ascontiguousarray(np.swapaxes(bits, -1, -2))
    signed = np.ascontiguousarray(bits).view(SIGNED[bits.dtype.itemsize])
    result = torch.from_numpy(signed).to(DEVICE).view(DTYPES[name])
    return result.mT if transposed else result


def scales(count: int, seed: int) -> torch.Tensor:
    return tensor(inputs.elements("f32", "normal", seed, count), "f32").abs()


class Product:
    """A spec with its operands on the GPU."""

    def __init__(self, spec: Spec) -> None:
        defaults: Spec = {"batch": 1, "kind": "normal", "layout": "NN", "a": "bf16", "seed": 0}
        self.spec = s = defaults | spec
        s.setdefault("b", s["a"])
        s.setdefault("out", s["a"])
        batch, m, n, k, seed = s["batch"], s["m"], s["n"], s["k"], s["seed"]
        a, b = inputs.operands(s["a"], s["b"], s["kind"], seed, batch, m, n, k)
        self.a = tensor(a, s["a"], s["layout"][0] == "T")
        self.b = tensor(b, s["b"], s["layout"][1] == "T")
        self.c = None
        if s.get("c"):
            count = n if s["c"] == "bias" else batch * m * n
            bits = inputs.elements(s["out"], "normal", (seed * 3 << 20) + 7, count, s["c_lower"])
            self.c = tensor(bits if s["c"] == "bias" else bits.reshape(batch, m, n), s["out"])
        if s["op"] == "scaled_mm":
            if s["scaling"] == "row":
                self.scale_a = scales(m, (seed * 3 + 1) << 21)[:, None]
                self.scale_b = scales(n, (seed * 3 + 2) << 21)[None, :]
            else:
                self.scale_a, self.scale_b = (torch.tensor(s[x], device=DEVICE) for x in ("scale_a", "scale_b"))

    def run(self) -> torch.Tensor:
        """The product itself, as a program would ask for it."""
        s, a, b, c = self.spec, self.a, self.b, self.c
        matmul = torch.backends.cuda.matmul
        matmul.allow_tf32 = bool(s.get("tf32"))
        matmul.allow_fp16_accumulation = bool(s.get("f16acc"))
        scalars = {"alpha": s.get("alpha", 1.0), "beta": s.get("beta", 1.0)}
        out = DTYPES[s["out"]]
        if s["op"] == "mm":
            return torch.mm(a[0], b[0]) if s["out"] == s["a"] else torch.mm(a[0], b[0], out_dtype=out)
        if s["op"] == "linear":
            return torch.nn.functional.linear(a[0], b[0].mT, c)
        if s["op"] == "addmm":
            assert c is not None
            return torch.addmm(c[0], a[0], b[0], **scalars)
        if s["op"] == "bmm":
            return torch.bmm(a, b)
        if s["op"] == "baddbmm":
            assert c is not None
            return torch.baddbmm(c, a, b, **scalars)
        if s["op"] == "mv":
            return torch.mv(a[0], b[0, :, 0])
        if s["op"] == "int_mm":
            return torch._int_mm(a[0], b[0])
        if s["op"] == "scaled_mm":
            fast = bool(s.get("fast"))
            return torch._scaled_mm(a[0], b[0], self.scale_a, self.scale_b, out_dtype=out, use_fast_accum=fast)
        raise ValueError(f"no op is called {s['op']!r}")


def launches_of(trace: Any) -> list[list[dict[str, Any]]]:
    """The kernels between one marker and the next, in the order of their start."""
    kernels = [e for e in trace["traceEvents"] if e.get("cat") == "kernel"]
    kernels.sort(key=lambda e: e["ts"])
    groups: list[list[dict[str, Any]]] = []
    for event in kernels:
        if "spin_kernel" in event["name"]:
            groups.append([])
        elif groups:
            groups[-1].append(event)
    return groups


def profiled(products: list[Product]) -> list[tuple[torch.Tensor, list[dict[str, Any]]]]:
    """Each product's output and kernels. A spinning kernel before each product marks where it begins."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        outputs = []
        for product in products:
            torch.cuda._sleep(1000)
            outputs.append(product.run())
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        groups = launches_of(json.loads(path.read_text()))
    if len(groups) != len(products):
        raise RuntimeError(f"the profiler saw {len(groups)} of {len(products)} markers")
    return list(zip(outputs, groups, strict=True))


def bits_of(output: torch.Tensor) -> Any:
    """The output's bit patterns, dense and row-major."""
    dense = output.detach().contiguous()
    width = dense.element_size()
    integer = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[width]
    return dense.view(integer).cpu().numpy().view(inputs.UINT[8 * width]).reshape(-1)


class Recorder:
    """Writes cases to OUT.jsonl and their stored elements to OUT.bin."""

    def __init__(self, out: pathlib.Path, prefix: str) -> None:
        self.lines = out.with_suffix(".jsonl").open("w")
        self.stored = out.with_suffix(".bin").open("wb")
        self.prefix, self.count, self.offset = prefix, 0, 0
        self.write({"about": about()})

    def write(self, line: dict[str, Any]) -> None:
        self.lines.write(json.dumps(line) + "\n")

    def record(self, product: Product, output: torch.Tensor, kernels: list[dict[str, Any]]) -> None:
        bits = bits_of(output)
        kept = bits[inputs.sample_indices(len(bits))].tobytes()
        self.stored.write(kept)
        line = dict(product.spec)
        line["kernels"] = [event["name"] for event in kernels]
        line["launches"] = [{"grid": event["args"]["grid"], "block": event["args"]["block"]} for event in kernels]
        line["sha256"] = hashlib.sha256(bits.tobytes()).hexdigest()
        line["id"] = f"{self.prefix}-{self.count:04d}"
        line |= {"offset": self.offset, "elements": len(kept) // bits.itemsize, "bytes": len(kept)}
        self.write(line)
        self.offset += len(kept)
        self.count += 1

    def close(self) -> None:
        self.lines.close()
        self.stored.close()


def about() -> dict[str, str]:
    """What the results depend on besides the specs."""
    from importlib.metadata import PackageNotFoundError, version

    facts = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": str(torch.version.cuda)}
    for package in ("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-runtime"):
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    return facts


def chunks(specs: list[Spec]) -> list[list[Spec]]:
    """Cases that are profiled together and fit in memory."""
    result: list[list[Spec]] = [[]]
    elements = 0
    for spec in specs:
        size = spec.get("batch", 1) * (spec["m"] * spec["k"] + spec["k"] * spec["n"] + spec["m"] * spec["n"])
        if result[-1] and (len(result[-1]) == CHUNK or elements + size > CHUNK_ELEMENTS):
            result.append([])
            elements = 0
        result[-1].append(spec)
        elements += size
    return result


def record(recorder: Recorder, specs: list[Spec], wanted: int) -> int:
    """Run and record the products; how many of them torch refused."""
    refused, start = 0, time.time()
    for chunk in chunks(specs):
        products = []
        for spec in chunk:
            try:
                product = Product(spec)
                product.run()
                torch.cuda.synchronize()
                products.append(product)
            except (RuntimeError, ValueError) as error:
                refused += 1
                print(f"refused: {json.dumps(spec)}: {str(error).splitlines()[0]}", file=sys.stderr)
        for product, (output, kernels) in zip(products, profiled(products), strict=True):
            recorder.record(product, output, kernels)
        print(f"{recorder.count} of {wanted} recorded, {time.time() - start:.0f} s", file=sys.stderr, flush=True)
    return refused


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, help="OUT.jsonl and OUT.bin are written")
    parser.add_argument("--random", type=int, metavar="N", help="record N random products")
    parser.add_argument("--seed", type=int, default=0, help="of the random products (default 0)")
    parser.add_argument("--specs", type=pathlib.Path, metavar="FILE", help="record the products listed in FILE")
    parser.add_argument("--tails", action="store_true", help="record the products of ones")
    parser.add_argument("--prefix", default="gpu", help="of the ids (default gpu)")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here; recording needs one")
    specs: list[Spec] = []
    choose = random.Random(options.seed)
    if options.random:
        specs += [random_spec(choose) for _ in range(options.random)]
    if options.specs:
        specs += [json.loads(line) for line in options.specs.read_text().splitlines() if line.strip()]
    if options.tails:
        specs += tail_specs()
    if not specs:
        parser.error("nothing to record: give --random, --specs or --tails")
    recorder = Recorder(options.out, options.prefix)
    torch.mm(torch.ones(8, 8, device="cuda"), torch.ones(8, 8, device="cuda"))  # makes the library's handle
    wanted = len(specs)
    refused = record(recorder, specs, wanted)
    while options.random and recorder.count < wanted:
        refused += record(recorder, [random_spec(choose) for _ in range(wanted - recorder.count)], wanted)
    recorder.close()
    print(f"{recorder.count} cases recorded, {refused} refused by torch")
    return 0


if __name__ == "__main__":
    sys.exit(main())

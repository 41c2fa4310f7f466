"""Discover the profiles of 40 of torch's products on the GPU of this machine, and record fresh cases of each.

    python tests/gpu/discover_signatures.py STATE                       as many as 9 minutes allow; again for the others
    python tests/gpu/discover_signatures.py STATE --only mm-bf16-NN     of those alone whose names begin so
    python tests/gpu/discover_signatures.py STATE --device cpu --only int_mm --elements 4096      a try without a GPU

STATE is a folder of four files. found.jsonl has a line a signature: what was asked, the kernels that a profiler saw in
one call, the profile, the certificate, what it took, and the reason where there is none. cases.jsonl with cases.bin is
a golden set (docs/cases.md) of 20 products of each certified signature, of other operands than the discovery's.
about.json names the machine. A signature that found.jsonl has is not asked again; what a run that was cut off left half
done is. Then, on any machine: python tests/gpu/verify_discovered.py STATE

Needs torch, numpy and Hawkeye's library (python setup.py build_library makes it in a checkout), and no command-line
packages.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import common
import record_golden
import torch

Spec = dict[str, Any]

CASES = 20
#: of the fresh operands: mostly sums that cancel, which show every rounding
KINDS = ["cancel"] * 8 + ["normal"] * 3 + ["wide"] * 3 + ["sparse"] * 2 + ["tiny"] * 2 + ["bits"] * 2


def _mm(dtype: str, layout: str, m: int, n: int, k: int, **more: Any) -> Spec:
    tf32 = {"tf32": True} if dtype == "tf32" else {}
    dtype = "f32" if dtype == "tf32" else dtype
    return {"op": "mm", "a": dtype, "b": dtype, "out": dtype, "layout": layout, "m": m, "n": n, "k": k} | tf32 | more


def _scaled(a: str, b: str, m: int, n: int, k: int, *, fast: bool, scaling: str = "tensor", out: str = "bf16") -> Spec:
    spec = _mm(a, "NT", m, n, k, op="scaled_mm", fast=fast, scaling=scaling, out=out, b=b)
    return spec | {"scale_a": 0.37, "scale_b": 1.9}


def specs() -> list[Spec]:
    """The 40 signatures, in the fields of a golden line."""
    layouts = ("NN", "NT", "TN", "TT")
    listed = [_mm("bf16", layout, 128, 256, 1024) for layout in layouts]
    listed += [_mm("f16", layout, 96, 160, 768) for layout in layouts]
    listed += [_mm("tf32", layout, 128, 128, 512) for layout in layouts]
    listed += [
        _mm("f32", "NN", 256, 256, 256),
        _mm("f32", "NN", 512, 512, 512),
        _mm("f32", "NT", 64, 96, 320),
        _mm("f64", "NN", 64, 64, 256),
        _mm("f64", "TN", 48, 80, 192),
        # odd sizes
        _mm("bf16", "NN", 33, 65, 127),
        _mm("f16", "NT", 17, 13, 1001),
        _mm("f32", "NN", 31, 29, 257),
        _mm("tf32", "NN", 63, 61, 255),
        # few rows or columns, long sums
        _mm("bf16", "NN", 16, 64, 16384),
        _mm("f16", "NT", 1, 512, 2048),
        _mm("bf16", "NN", 1, 1024, 1024),
        _mm("bf16", "NN", 512, 1, 1024),
        _mm("f32", "NN", 256, 1, 512),
        # batches
        _mm("bf16", "NN", 64, 64, 256, op="bmm", batch=8),
        _mm("f16", "NT", 33, 27, 129, op="bmm", batch=3),
        _mm("f32", "NN", 32, 48, 96, op="bmm", batch=4),
        # addends
        _mm("bf16", "NT", 64, 512, 512, op="linear", c="bias", c_lower=7),
        _mm("f16", "NT", 32, 128, 256, op="linear", c="bias", c_lower=7),
        _mm("bf16", "NN", 64, 96, 320, op="addmm", c="full", c_lower=7, alpha=0.75, beta=-1.5),
        _mm("f32", "NN", 64, 64, 128, op="addmm", c="full", c_lower=7, alpha=1.0, beta=1.0),
        # f8, by both ways of accumulating
        _scaled("e4m3", "e4m3", 64, 128, 1024, fast=True),
        _scaled("e4m3", "e4m3", 64, 128, 1024, fast=False),
        _scaled("e4m3", "e5m2", 32, 64, 512, fast=True, scaling="row"),
        # other outputs
        _mm("f16", "NN", 64, 64, 512, out="f32"),
        _mm("bf16", "NT", 64, 64, 512, out="f32"),
        _mm("f16", "NN", 64, 64, 512, f16acc=True),
        _mm("i8", "NN", 64, 64, 256, op="int_mm", out="i32"),
    ]
    return listed


def name_of(spec: Spec) -> str:
    """Such as mm-bf16-NN-128x256x1024."""
    formats = "tf32" if spec.get("tf32") else spec["a"] if spec["a"] == spec["b"] else f"{spec['a']}_{spec['b']}"
    words = [spec["op"], formats, spec["layout"], f"{spec['m']}x{spec['n']}x{spec['k']}"]
    words += [f"b{spec['batch']}"] if "batch" in spec else []
    words += [f"to_{spec['out']}"] if spec["out"] != spec["a"] else []
    words += [str(spec["c"])] if "c" in spec else []
    words += [str(spec["scaling"])] if "scaling" in spec else []
    words += ["fast"] if spec.get("fast") else []
    words += ["f16acc"] if spec.get("f16acc") else []
    return "-".join(words)


def arguments(spec: Spec) -> dict[str, Any]:
    """A signature as hawkeye.discover takes it."""
    flags = {"allow_tf32": bool(spec.get("tf32"))} if spec["a"] == "f32" else {}
    flags |= {"allow_fp16_accumulation": bool(spec.get("f16acc"))} if spec["a"] == "f16" else {}
    return {
        "m": spec["m"],
        "n": spec["n"],
        "k": spec["k"],
        "batch": spec.get("batch"),
        "dtype": (spec["a"].replace("i8", "s8"), spec["b"].replace("i8", "s8")),
        "out_dtype": spec["out"].replace("i32", "s32"),
        "layout": spec["layout"],
        "bias": spec.get("c") == "bias",
        "addend": "full" if spec.get("c") == "full" else None,
        "alpha": spec.get("alpha", 1.0),
        "beta": spec.get("beta", 1.0),
        "scaling": spec.get("scaling"),
        "use_fast_accum": bool(spec.get("fast")),
        "flags": flags,
    }


class State:
    """The folder. A line of found.jsonl is written last, and is what makes a signature done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.found, self.cases, self.stored = (folder / name for name in ("found.jsonl", "cases.jsonl", "cases.bin"))
        whole = [json.loads(line) for line in _lines(self.found)]
        self.done = {line["name"] for line in whole}
        kept = [line for line in map(json.loads, _lines(self.cases)) if line.get("signature") in self.done]
        _write(self.found, whole)
        about = {**record_golden.about()} if torch.cuda.is_available() else common.machine("cpu")
        _write(self.cases, [{"about": about}, *kept])
        self.size = max((line["offset"] + line["bytes"] for line in kept), default=0)
        with self.stored.open("ab") as stored:
            stored.truncate(self.size)

    def add(self, line: dict[str, Any], cases: list[tuple[dict[str, Any], bytes]]) -> None:
        """A signature with its cases."""
        with self.stored.open("ab") as stored, self.cases.open("a", encoding="utf-8") as index:
            for case, elements in cases:
                stored.write(elements)
                index.write(json.dumps(case | {"offset": self.size}) + "\n")
                self.size += len(elements)
            for file in (stored, index):
                file.flush()
                os.fsync(file.fileno())
        with self.found.open("a", encoding="utf-8") as found:
            found.write(json.dumps(line) + "\n")
        self.done.add(line["name"])


def _lines(path: Path) -> list[str]:
    """The whole lines of a file; the last one may have been cut off."""
    if not path.exists():
        return []
    return [line for line in path.read_text(encoding="utf-8").split("\n")[:-1] if line]


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    temporary.replace(path)


def fresh_cases(name: str, spec: Spec, number: int) -> list[tuple[dict[str, Any], bytes]]:
    """Products of other operands, as record_golden.py writes them."""
    import hashlib

    products = [
        record_golden.Product(spec | {"kind": kind, "seed": (number + 1) * 1000 + i, "batch": spec.get("batch", 1)})
        for i, kind in enumerate(KINDS[:CASES])
    ]
    if record_golden.DEVICE == "cuda":
        computed = record_golden.profiled(products)
    else:
        computed = [(product.run(), []) for product in products]
    cases = []
    for i, (product, (output, kernels)) in enumerate(zip(products, computed)):
        bits = record_golden.bits_of(output)
        kept = bits[record_golden.inputs.sample_indices(len(bits))].tobytes()
        case = dict(product.spec) | {
            "id": f"{name}-{i:02d}",
            "signature": name,
            "kernels": [event["name"] for event in kernels],
            "launches": [{"grid": e["args"]["grid"], "block": e["args"]["block"]} for e in kernels],
            "sha256": hashlib.sha256(bits.tobytes()).hexdigest(),
            "elements": len(kept) // bits.itemsize,
            "bytes": len(kept),
        }
        cases.append((case, kept))
    return cases


def ask(
    name: str, spec: Spec, number: int, options: argparse.Namespace, end: float
) -> tuple[dict[str, Any], Any] | None:
    """A signature's line and its cases; None where the time is up."""
    import hawkeye

    asked = arguments(spec)
    try:
        found = hawkeye.discover(
            spec["op"],
            **asked,
            device=options.device,
            elements=options.elements,
            seed=options.seed,
            suspects=() if options.without_rules else None,
            cache=False,
            progress=lambda p: time.monotonic() < end,
        )
    except hawkeye.Cancelled:
        return None
    except (RuntimeError, NotImplementedError, hawkeye.Error) as error:
        return {"name": name, "spec": spec, "refused": str(error).splitlines()[0].partition(". ")[0]}, []
    cases = fresh_cases(name, spec, number) if found else []
    kernels = cases[0][0]["kernels"] if cases else one_call(spec)
    line = {
        "name": name,
        "spec": spec,
        "signature": found.signature,
        "kernels": kernels,
        "certified": bool(found),
        **{
            field: found.details.get(field)
            for field in ("profile", "certificate", "best", "broken", "reason", "findings")
        },
        **{field: found.details.get(field) for field in ("calls", "questions", "tried", "seconds")},
    }
    return line, cases


def one_call(spec: Spec) -> list[str]:
    """The kernels of one call, by the profiler."""
    if record_golden.DEVICE != "cuda":
        return []
    product = record_golden.Product(spec | {"batch": spec.get("batch", 1)})
    return [event["name"] for event in record_golden.profiled([product])[0][1]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("state", type=Path, help="the folder; made where it is not there")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu for a try")
    parser.add_argument("--only", action="append", metavar="NAME", help="only signatures whose names begin so")
    parser.add_argument("--elements", type=int, default=None, help="of a certificate (default 65536)")
    parser.add_argument("--seed", type=int, default=0, help="of the discoveries' inputs")
    parser.add_argument(
        "--without-rules", action="store_true", help="try no profile of the rule table beside what the answers suggest"
    )
    parser.add_argument("--limit-seconds", type=float, default=540, help="end after so long (default 540)")
    parser.add_argument("--list", action="store_true", help="list the signatures and stop")
    options = parser.parse_args()
    listed = [(name_of(spec), spec) for spec in specs()]
    if options.list:
        print("\n".join(name for name, _ in listed))
        return 0
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch sees no CUDA device here; --device cpu is for a try without one")
    record_golden.DEVICE = options.device
    end = time.monotonic() + options.limit_seconds
    state = State(options.state)
    common.write_json(options.state / "about.json", common.machine(options.device))
    rows, left = [], 0
    for number, (name, spec) in enumerate(listed):
        if (options.only and not name.startswith(tuple(options.only))) or name in state.done:
            continue
        asked = ask(name, spec, number, options, end) if time.monotonic() < end else None
        if asked is None:
            left += 1
            continue
        line, cases = asked
        state.add(line, cases)
        what = "refused" if "refused" in line else "certified" if line["certified"] else "declined"
        seconds, calls = line.get("seconds") or 0.0, line.get("calls") or 0
        rows.append([name, what, calls, line.get("questions") or 0, line.get("tried") or 0, f"{seconds:.1f}"])
        print(f"{name}: {what} {line.get('refused') or line.get('reason') or ''}", flush=True)
    print(common.table(["signature", "outcome", "calls", "questions", "tried", "s"], rows))
    print(f"{len(state.done)} of {len(listed)} done, {left} left{': run it again' if left else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes traces by hand, as docs/trace.md says, from golden cases, whose operands are rebuilt from their seeds."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import inputs
import numpy as np
from conftest import GOLDENS

DTYPES = {"f16": "F16", "bf16": "BF16", "f32": "F32", "f64": "F64", "e4m3": "F8_E4M3", "e5m2": "F8_E5M2", "i8": "I8"}
FORMATS = {"i8": "s8", "i32": "s32"}
ZEROS = "0" * 64


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def golden(*ids: str) -> list[dict[str, Any]]:
    """Lines of the golden set."""
    lines = (GOLDENS / "h200-torch2.11.jsonl").read_text(encoding="utf-8").splitlines()
    cases = {case.get("id"): case for case in map(json.loads, lines)}
    return [cases[name] for name in ids]


def tensor(folder: Path, form: str, bits: np.ndarray, transposed: bool = False, **more: Any) -> dict[str, Any]:
    """Writes an operand and gives its record."""
    batch, rows, columns = bits.shape
    stored = np.ascontiguousarray(bits.transpose(0, 2, 1) if transposed else bits)
    data = stored.tobytes()
    layout = {"dtype": DTYPES[form], "shape": list(stored.shape), "data_offsets": [0, len(data)]}
    header = json.dumps({"t": layout}).encode()
    file = len(header).to_bytes(8, "little") + header + data
    name = sha(file)
    place = folder / "tensors" / name[:2]
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.safetensors").write_bytes(file)
    strides = [rows * columns, 1, rows] if transposed else [rows * columns, columns, 1]
    record = {"format": FORMATS.get(form, form), "shape": [batch, rows, columns], "strides": strides, "offset": 0}
    record |= {"file": name, "sha256": sha(np.ascontiguousarray(bits).tobytes())}
    return record | ({"stored": "transposed"} if transposed else {}) | more


def line(folder: Path, case: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A golden case without scales as a line, but for its place in the chain."""
    batch, m, n, k = case.get("batch", 1), case["m"], case["n"], case["k"]
    a, b = inputs.operands(case["a"], case["b"], case["kind"], case["seed"], batch, m, n, k)
    record: dict[str, Any] = {
        "record_version": "1.0",
        "op": case["op"],
        "a": tensor(folder, case["a"], a, case["layout"][0] == "T"),
        "b": tensor(folder, case["b"], b, case["layout"][1] == "T"),
        "out": {"format": FORMATS.get(case["out"], case["out"]), "shape": [batch, m, n], "sha256": case["sha256"]},
        "flags": {"allow_tf32": case.get("tf32", False), "allow_fp16_accumulation": case.get("f16acc", False)},
        "kernels": case["kernels"],
        "launches": case.get("launches", []),
    }
    if case.get("c"):
        bias, form = case["c"] == "bias", case["out"]
        count = n if bias else batch * m * n
        c = inputs.elements(form, "normal", (case["seed"] * 3 << 20) + 7, count, case.get("c_lower", 0))
        c = np.broadcast_to(c.reshape(1, 1, n) if bias else c.reshape(batch, m, n), (batch, m, n))
        record["c"] = tensor(folder, form, c, **({"strides": [0, 0, 1]} if bias else {}))
    return record | {"step": 0, "call": 0, "module": "", "pass": "forward", "sampled": True} | more


def root(hashes: list[str]) -> str:
    """The Merkle root."""
    level = [hashlib.sha256(b"\x00" + bytes.fromhex(h)).digest() for h in hashes]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [hashlib.sha256(b"\x01" + p[0] + p[1]).digest() if len(p) == 2 else p[0] for p in pairs]
    return level[0].hex() if level else sha(b"")


def chained(lines: list[dict[str, Any]], rank: int = 0) -> list[bytes]:
    """The lines of an index, each with its number and the hash of the one before."""
    texts: list[bytes] = []
    for seq, record in enumerate(lines):
        prev = sha(texts[-1]) if texts else ZEROS
        texts.append(json.dumps({"id": f"r{rank}-{seq:06d}", "seq": seq, "prev": prev} | record).encode())
    return texts


def write(folder: Path, ranks: list[list[dict[str, Any]]], sealed: bool = True) -> str:
    """Writes indices and manifest, and gives the root."""
    folder.mkdir(exist_ok=True)
    entries = []
    for rank, lines in enumerate(ranks):
        texts = chained(lines, rank)
        hashes = [sha(text) for text in texts]
        name = f"rank-{rank:04d}.jsonl"
        (folder / name).write_bytes(b"".join(text + b"\n" for text in texts))
        last = hashes[-1] if hashes else ZEROS
        entries.append({"rank": rank, "file": name, "lines": len(lines), "last": last, "root": root(hashes)})
    manifest: dict[str, Any] = {
        "trace_version": "1.0",
        "created": "2026-01-02T03:04:05Z",
        "torch": "2.11.0",
        "device": {"gpu": "NVIDIA H200"},
        "settings": {"every": 1, "fraction": 1.0, "seed": 0, "outputs": "hash", "kernels": True, "modules": None},
        "coverage": {"recorded": sum(map(len, ranks)), "skipped": {}, "dropped": 0, "missed": "not measured"},
    }
    return seal(folder, manifest, entries, sealed)


def seal(folder: Path, manifest: dict[str, Any], ranks: list[dict[str, Any]], sealed: bool = True) -> str:
    """Writes a manifest of these facts, and gives the root."""
    told = {name: value for name, value in manifest.items() if name not in ("facts", "root", "sealed", "ranks")}
    facts = sha(json.dumps(told, separators=(",", ":")).encode())
    top = root([facts, *(rank["root"] for rank in ranks)])
    whole = told | {"facts": facts, "root": top, "sealed": sealed, "ranks": ranks}
    (folder / "manifest.json").write_text(json.dumps(whole), encoding="utf-8")
    return top


def reseal(folder: Path, **facts: Any) -> str:
    """Seals a trace again with other facts in its manifest, and gives the new root."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return seal(folder, manifest | facts, manifest["ranks"])

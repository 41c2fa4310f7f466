"""Reads and checks a trace with nothing of Hawkeye's: the tests' own statement of docs/trace.md."""

from __future__ import annotations

import json
import stat
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

DTYPES = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I8": "int8",
    "U8": "uint8",
    "I32": "int32",
}
FORMATS = {
    "f16": "F16",
    "bf16": "BF16",
    "f32": "F32",
    "f64": "F64",
    "e4m3": "F8_E4M3",
    "e5m2": "F8_E5M2",
    "s8": "I8",
    "u8": "U8",
    "s32": "I32",
}


def merkle(hashes: list[bytes]) -> str:
    """Level by level, as the text says it."""
    if not hashes:
        return sha256(b"").hexdigest()
    level = [sha256(b"\0" + h).digest() for h in hashes]
    while len(level) > 1:
        pairs = [sha256(b"\1" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        level = pairs + ([level[-1]] if len(level) % 2 else [])
    return level[0].hex()


def tensor(folder: Path, name: str) -> Any:
    """The tensor of a file, which is what its name says."""
    import torch

    path = folder / "tensors" / name[:2] / f"{name}.safetensors"
    data = path.read_bytes()
    assert sha256(data).hexdigest() == name
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (length,) = struct.unpack_from("<Q", data)
    assert length % 8 == 0
    about = json.loads(data[8 : 8 + length])
    assert set(about) == {"t"}
    entry = about["t"]
    begin, end = entry["data_offsets"]
    assert (begin, end) == (0, len(data) - 8 - length)
    dtype = getattr(torch, DTYPES[entry["dtype"]])
    return torch.frombuffer(bytearray(data[8 + length :]), dtype=torch.uint8).view(dtype).reshape(entry["shape"])


def bits(t: Any) -> bytes:
    """Dense, row-major, little endian."""
    import torch

    return bytes(t.detach().contiguous().reshape(-1).view(torch.uint8).numpy())


def operand(folder: Path, entry: dict[str, Any]) -> Any:
    """An operand as its record names it, in its logical shape."""
    t = tensor(folder, entry["file"])
    stored = entry.get("stored", "")
    assert stored in ("", "transposed", "once", "once-transposed")
    if stored.endswith("transposed"):
        t = t.mT
    assert len(entry["strides"]) == len(entry["shape"])
    assert sha256(bits(t)).hexdigest() == entry["sha256"]
    if stored.startswith("once"):
        once = [1 if stride == 0 and size > 1 else size for size, stride in zip(entry["shape"], entry["strides"])]
        assert list(t.shape) == once != entry["shape"]
        t = t.expand(entry["shape"])
    assert list(t.shape) == entry["shape"]
    assert DTYPES[FORMATS[entry["format"]]] == str(t.dtype).rpartition(".")[2]
    return t


class Trace:
    """A trace that is whole: everything in it was checked."""

    def __init__(self, folder: Path, *, sealed: bool = True) -> None:
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        assert self.manifest["trace_version"] == "1.0"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        self.torn = 0
        self.ranks = {p.name: self._rank(p) for p in sorted(folder.glob("rank-*.jsonl"))}
        self.lines = [line for lines in self.ranks.values() for line in lines]
        assert self.manifest["sealed"] is sealed
        if sealed:
            assert self.torn == 0
            assert not list(folder.rglob(".*"))
            roots = []
            assert sorted(r["file"] for r in self.manifest["ranks"]) == list(self.ranks)
            for rank in self.manifest["ranks"]:
                hashes = [sha256(t).digest() for t in self._texts(folder / rank["file"])]
                assert rank["lines"] == len(hashes)
                assert rank["last"] == (hashes[-1].hex() if hashes else "0" * 64)
                assert rank["root"] == merkle(hashes)
                roots.append(bytes.fromhex(rank["root"]))
            told = {n: v for n, v in self.manifest.items() if n not in ("facts", "ranks", "root", "sealed")}
            facts = sha256(json.dumps(told, separators=(",", ":")).encode()).digest()
            assert self.manifest["facts"] == facts.hex()
            assert self.manifest["root"] == merkle([facts, *roots])
            assert self.manifest["coverage"]["recorded"] == len(self.lines)
            used = {e["file"] for line in self.lines for e in line.values() if isinstance(e, dict) and "file" in e}
            assert used == {p.stem for p in folder.glob("tensors/*/*")}

    @staticmethod
    def _texts(path: Path) -> list[bytes]:
        return path.read_bytes().split(b"\n")[:-1]

    def _rank(self, path: Path) -> list[dict[str, Any]]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        self.torn += not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
        lines, prev = [], "0" * 64
        for number, text in enumerate(self._texts(path)):
            line = json.loads(text)
            assert line["seq"] == number
            assert line["prev"] == prev
            prev = sha256(text).hexdigest()
            self._line(line)
            lines.append(line)
        assert len({line["id"] for line in lines}) == len(lines)
        return lines

    def _line(self, line: dict[str, Any]) -> None:
        assert line["record_version"] == "1.0"
        (batch, m, k), (batch_b, k_b, n) = line["a"]["shape"], line["b"]["shape"]
        assert (batch, k) == (batch_b, k_b)
        assert line["out"]["shape"] == [batch, m, n]
        assert line["pass"] in ("forward", "backward")
        for name, shape in (("a", [batch, m, k]), ("b", [batch, k, n]), ("c", [batch, m, n])):
            if name in line:
                assert line[name]["shape"] == shape
                operand(self.folder, line[name])
        for name, size in (("scale_a", m), ("scale_b", n)):
            if name in line:
                assert line[name]["shape"] == [size]
                operand(self.folder, line[name])
        if "file" in line["out"]:
            assert sha256(bits(tensor(self.folder, line["out"]["file"]))).hexdigest() == line["out"]["sha256"]

    def get(self, line: dict[str, Any], name: str) -> Any:
        """A tensor of a line."""
        return operand(self.folder, line[name])


def strided(t: Any, strides: list[int]) -> Any:
    """A copy of t with the same strides as the operand had."""
    import torch

    if t.numel() == 0:
        return t
    size = 1 + sum((n - 1) * s for n, s in zip(t.shape, strides))
    copy = torch.zeros(size, dtype=t.dtype).as_strided(tuple(t.shape), tuple(strides))
    if 0 in [s for n, s in zip(t.shape, strides) if n > 1]:
        flat = [slice(0, 1) if s == 0 else slice(None) for s in strides]
        copy[tuple(flat)].copy_(t[tuple(flat)])
    else:
        copy.copy_(t)
    return copy

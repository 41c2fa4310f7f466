"""From calls to lines of the index: what the writing process does. Without torch."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ._answer import TraceFiller
from ._part import Hashes, Part
from ._profile import Kernel, Taken, read
from ._sampling import sample_indices
from ._trace import TensorFile, TraceWriter

RECORD_VERSION = "1.0"
TENSORS = ("a", "b", "c", "scale_a", "scale_b", "ends", "out")
# Of a line whose kernels are not known yet, so many bytes are set aside for them under max_bytes.
_KERNELS_BYTES = 8192


class Whole(NamedTuple):
    """A call whose tensors are in the CPU's memory."""

    number: int  # of the mark in a profile
    op: str
    scalars: dict[str, float]
    ragged: str
    fields: dict[str, Any]
    tensors: list[Part | None]  # in the order of TENSORS


class StepEnd(NamedTuple):
    """Comes behind the calls of a step whose lines wait for the names of kernels."""

    profile: Taken | None


class About(NamedTuple):
    """What is known now of the trace as a whole, for the manifest."""

    facts: dict[str, Any]


class Tally(NamedTuple):
    """What has become of the calls until now."""

    recorded: int
    named: int  # with kernels
    missed: int  # kernels that multiply, of no call
    profiled: int  # steps
    skipped: dict[str, int]
    bytes: int
    full: bool  # max_bytes was reached


class Lines:
    """Writes calls into a trace. Counts what it wrote, and what it had to leave out."""

    def __init__(
        self,
        trace: TraceWriter | TraceFiller,
        *,
        outputs: str,
        kernels: bool,
        max_bytes: int | None,
        keep: Callable[[int, int], bool],
    ) -> None:
        self._recorded = self._named = self._missed = self._profiled = 0
        self._full = False
        self._skipped: Counter[str] = Counter()
        self._trace, self._outputs, self._kernels, self._max_bytes = trace, outputs, kernels, max_bytes
        self._keep = keep
        self._hashes = Hashes()
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._set_aside = 0

    def write(self, item: Whole | StepEnd | About) -> None:
        """One call, or the end of a step."""
        if isinstance(item, About):
            self._trace.describe(item.facts)
        elif isinstance(item, StepEnd):
            self._name(item.profile)
        else:
            self._call(item)

    def finish(self) -> None:
        """Write lines that still wait; without kernels."""
        self._name(None)

    def tally(self) -> Tally:
        """What has become of the calls until now."""
        return Tally(
            self._recorded,
            self._named,
            self._missed,
            self._profiled,
            dict(self._skipped),
            self._trace.bytes,
            self._full,
        )

    def _call(self, call: Whole) -> None:
        parts: dict[str, Part | None] = dict(zip(TENSORS, call.tensors))
        listed = parts.pop("ends")
        if listed is None:
            self._line(call, parts, {})
            return
        ends = [int(end) for end in listed.flat().numbers(np.int32)]
        start = 0
        sizes = [part.shape for n, part in parts.items() if n in ("a", "b") and part is not None]
        for group, end in enumerate(ends):
            if min(end - start, *(size for shape in sizes for size in shape)) > 0:
                cut = _group(call.ragged, parts, group, start, end)
                self._line(call, cut, {"group": group, "groups": len(ends)})
            else:
                self._skipped["empty group"] += 1
            start = end

    def _line(self, call: Whole, parts: Mapping[str, Part | None], more: dict[str, Any]) -> None:
        files: list[TensorFile] = []
        record: dict[str, Any] = {"record_version": RECORD_VERSION, "id": "", "op": call.op}

        def entry(part: Part) -> dict[str, Any]:
            fields, file = part.record(self._hashes)
            files.append(file)
            return fields

        for operand in ("a", "b", "c"):
            part = parts[operand]
            if part is not None:
                record[operand] = entry(part)
        out = parts["out"]
        assert out is not None
        record["out"] = self._output(out, files)
        scalars = {n: _scalar(v, out.dtype == "float64") for n, v in call.scalars.items()}
        scales = {n: p for n in ("scale_a", "scale_b") if (p := parts[n]) is not None}
        for side, scale in scales.items():
            if all(s.bits.size == 1 for s in scales.values()):
                scalars[side] = f"f32:0x{int(scale.bits.reshape(-1)[0]):08x}"
            else:
                record[side] = entry(scale.flat())
        if scalars:
            record["scalars"] = scalars
        record.update(call.fields)
        record.update(more)
        if not self._keep(record["step"], record["call"]):
            files.clear()
        if self._max_bytes is not None and not self._fits(record, files):
            self._full = True
            self._skipped["max_bytes"] += 1
            return
        for file in files:
            self._trace.store(file)
        if self._kernels:
            self._waiting.append((call.number, record))
        else:
            self._append(record)

    def _fits(self, record: dict[str, Any], files: list[TensorFile]) -> bool:
        """Whether max_bytes allows for a line and its files."""
        assert self._max_bytes is not None
        new = {f.name: f.size for f in files if self._trace.is_new(f)}
        line = len(self._trace.line(record)) + (_KERNELS_BYTES if self._kernels else 0)
        if self._trace.bytes + self._set_aside + sum(new.values()) + line > self._max_bytes:
            return False
        if self._kernels:
            self._set_aside += line
        return True

    def _name(self, profile: Taken | None) -> None:
        """Write the lines that wait, with the kernels that the profile saw."""
        waiting, self._waiting, self._set_aside = self._waiting, [], 0
        calls: dict[int, list[Kernel]] = {}
        if profile is not None:
            found = read(profile)
            profile.path.unlink()
            calls = found.calls
            self._missed += found.missed
            self._profiled += found.whole
        for number, record in waiting:
            more: dict[str, Any] = {}
            if calls.get(number):
                more["kernels"] = [k.name for k in calls[number]]
                more["launches"] = [{"grid": k.grid, "block": k.block} for k in calls[number]]
                if self._max_bytes is not None and len(str(more)) > _KERNELS_BYTES:
                    more = {}
            self._named += bool(more)
            self._append({**record, **more})

    def _append(self, record: dict[str, Any]) -> None:
        record["id"] = f"r{self._trace.rank}-{self._trace.lines:06d}"
        self._trace.append(record)
        self._recorded += 1

    def _output(self, out: Part, files: list[TensorFile]) -> dict[str, Any]:
        record: dict[str, Any] = {"format": out.format, "shape": list(out.shape)}
        record["sha256"] = sha256(out.data()).hexdigest()
        if self._outputs == "full":
            files.append(Part(out.bits, out.dtype, out.shape, out.strides, out.offset, False).file())
            record["file"] = files[-1].name
        elif self._outputs == "samples":
            chosen = out.bits.reshape(-1)[sample_indices(out.bits.size)]
            record["samples"] = {"indices": "default", "data": chosen.tobytes().hex()}
        return record


def _group(ragged: str, parts: Mapping[str, Part | None], group: int, start: int, end: int) -> dict[str, Part | None]:
    """One group of a grouped product: along the ragged size from start to end, else the group's own matrix."""
    axes = {"m": {"a": 1, "out": 1}, "n": {"b": 2, "out": 2}, "k": {"a": 2, "b": 1}}[ragged]
    cut = dict(parts)
    for operand in ("a", "b", "out"):
        part = parts[operand]
        assert part is not None
        cut[operand] = part.slice(axes[operand], start, end) if operand in axes else part.slice(0, group, group + 1)
    return cut


def _scalar(value: float, wide: bool) -> str:
    """A number by its bits, rounded as torch rounds alpha and beta: to f64 for f64 results, else to f32."""
    if wide:
        return f"f64:0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return f"f32:0x{struct.unpack('<I', packed)[0]:08x}"

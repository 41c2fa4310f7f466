"""From calls to lines of the index: what the writing process does. Without torch."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from ._answer import TraceFiller
from ._ops import Product, Skip, product
from ._part import Hashes, Part
from ._profile import Kernel, Taken, read
from ._sampling import sample_indices
from ._trace import TensorFile, TraceWriter

RECORD_VERSION = "1.0"
# Of a line whose kernels are not known yet, so many bytes are set aside for them under max_bytes.
_KERNELS_BYTES = 8192
# Calls of fewer bytes are hashed by one thread.
_ALONE = 1 << 16


class Whole(NamedTuple):
    """A call whose tensors are in the CPU's memory."""

    number: int  # of its marks in a profile
    op: str  # torch's
    arguments: dict[str, Any]  # by name; tensors as Parts
    out: Part
    fields: dict[str, Any]


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


NOTHING_YET = Tally(0, 0, 0, 0, {}, 0, False)


class Lines:
    """Writes calls into a trace. Counts what it wrote, and what it had to leave out."""

    def __init__(
        self,
        trace: TraceWriter | TraceFiller,
        *,
        outputs: str,
        kernels: bool,
        max_bytes: int | None,
        keep: Callable[[int], bool],
    ) -> None:
        self._recorded = self._named = self._missed = self._profiled = 0
        self._full = False
        self._skipped: Counter[str] = Counter()
        self._trace, self._outputs, self._kernels, self._max_bytes = trace, outputs, kernels, max_bytes
        self._keep = keep
        self._hashes = Hashes()
        self._pool = ThreadPoolExecutor(4, "hawkeye-hash")
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
        try:
            p = product(call.op, call.arguments)
        except Skip as reason:
            self._skipped[str(reason)] += 1
            return
        out = p.view(call.out)
        if p.ends is None:
            self._line(call, p, out, {})
            return
        ends = [int(end) for end in p.ends.flat().numbers(np.int32)]
        start = 0
        for group, end in enumerate(ends):
            if min(end - start, *p.a.shape, *p.b.shape) > 0:
                self._line(call, *_group(p, out, group, start, end), {"group": group, "groups": len(ends)})
            else:
                self._skipped["empty group"] += 1
            start = end

    def _line(self, call: Whole, p: Product, out: Part, more: dict[str, Any]) -> None:
        record: dict[str, Any] = {"record_version": RECORD_VERSION, "id": "", "op": p.op}
        parts = [part for part in (p.a, p.b, p.c) if part is not None]
        large = sum(part.bits.nbytes for part in (*parts, out)) > _ALONE
        apply: Any = self._pool.map if large else map  # hashing many bytes leaves Python's lock alone
        *kept, made = apply(
            lambda work: work(), [*(partial(part.record, self._hashes) for part in parts), partial(self._output, out)]
        )
        files: list[TensorFile] = []
        for name, (fields, file) in zip(("a", "b", "c"), kept):
            record[name] = fields
            files.append(file)
        record["out"], file = made
        if file is not None:
            files.append(file)
        scalars = {n: _scalar(v, out.dtype == "float64") for n, v in p.scalars.items()}
        if p.scale_a is not None and p.scale_b is not None:
            for side, scale in (("scale_a", p.scale_a), ("scale_b", p.scale_b)):
                if p.scale_a.size == p.scale_b.size == 1:
                    scalars[side] = f"f32:0x{int(scale.bits.reshape(-1)[0]):08x}"
                else:
                    record[side], file = scale.record(self._hashes)
                    files.append(file)
        if scalars:
            record["scalars"] = scalars
        record.update(call.fields)
        record.update(more)
        if not self._keep(self._trace.lines + len(self._waiting)):
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

    def _output(self, out: Part) -> tuple[dict[str, Any], TensorFile | None]:
        file = None
        record: dict[str, Any] = {"format": out.format, "shape": list(out.shape)}
        record["sha256"] = sha256(out.data()).hexdigest()
        if self._outputs == "full":
            file = out.file(False)
            record["file"] = file.name
        elif self._outputs == "samples":
            chosen = out.bits.reshape(-1)[sample_indices(out.bits.size)]
            record["samples"] = {"indices": "default", "data": chosen.tobytes().hex()}
        return record, file


def _group(p: Product, out: Part, group: int, start: int, end: int) -> tuple[Product, Part]:
    """One group of a grouped product: along the ragged size from start to end, else the group's own matrix."""
    axes = {"m": {"a": 1, "out": 1}, "n": {"b": 2, "out": 2}, "k": {"a": 2, "b": 1}}[p.ragged]

    def cut(name: str, part: Part) -> Part:
        return part.slice(axes[name], start, end) if name in axes else part.slice(0, group, group + 1)

    return replace(p, a=cut("a", p.a), b=cut("b", p.b)), cut("out", out)


def _scalar(value: float, wide: bool) -> str:
    """A number by its bits, rounded as torch rounds alpha and beta: to f64 for f64 results, else to f32."""
    if wide:
        return f"f64:0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return f"f32:0x{struct.unpack('<I', packed)[0]:08x}"

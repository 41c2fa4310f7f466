"""Many discoveries in one go: every multiplication of a trace, every instruction of a GPU."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Optional

from . import _boxes as boxes
from . import _cache as caches
from . import _errors as errors
from ._discover import ELEMENTS, Asked, Discovery, Progress, kept_of, prepared, run
from ._formats import BY_NAME
from ._sets import RecordedSet, open_set

CERTIFIED, DECLINED, REFUSED, LEFT = "certified", "declined", "refused", "left"


class Step(NamedTuple):
    """How far many discoveries are."""

    number: int  #: of the one that is asked, from 1
    total: int  #: of all
    what: str  #: it, in words
    progress: Progress


ManyProgress = Callable[[Step], Optional[bool]]


@dataclass(frozen=True)
class Row:
    """What came of one multiplication, or instruction."""

    what: str  #: in words
    outcome: str  #: "certified", "declined" (no profile fits), "refused" (it cannot be asked here), "left" (no time)
    reason: str  #: why it is not certified; "" where it is
    lines: int = 1  #: of the trace that have this signature
    discovery: Discovery | None = None
    comparison: dict[str, Any] | None = None  #: with the catalogue's profile, of an instruction

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = self.discovery
        told: dict[str, Any] = {"what": self.what, "outcome": self.outcome, "reason": self.reason, "lines": self.lines}
        if self.comparison is not None:
            told["comparison"] = self.comparison
        if found is not None:
            told |= {"name": found.name, "cached": found.cached, "discovery": found.details}
        return told


@dataclass(frozen=True)
class Discoveries:
    """What came of many. ``str`` is a summary."""

    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many came to what."""
        return {name: sum(r.outcome == name for r in self.rows) for name in (CERTIFIED, DECLINED, REFUSED, LEFT)}

    @property
    def ok(self) -> bool:
        """Whether all were certified, of which there is at least one."""
        return bool(self.rows) and all(r.outcome == CERTIFIED for r in self.rows)

    @property
    def status(self) -> int:
        """The exit status of ``hawkeye discover``: 0 all certified, 2 something not."""
        return 0 if self.ok else 2

    @property
    def finished(self) -> bool:
        """Whether none is left for want of time."""
        return not any(r.outcome == LEFT for r in self.rows)

    def to_json(self) -> str:
        """All of it as one JSON object."""
        fields = {"counts": self.counts, "status": self.status, "notes": self.notes}
        return json.dumps({**fields, "rows": [r.to_dict() for r in self.rows]})

    def summary(self) -> str:
        """How many came to what, in a sentence."""
        told = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count) or "nothing was asked"
        fresh = sum(r.discovery is not None and not r.discovery.cached for r in self.rows)
        return f"{len(self.rows)} signatures: {told}; {fresh} asked now, the others known from before or not asked."

    def __str__(self) -> str:
        lines = []
        for r in self.rows:
            name = r.discovery.name if r.discovery is not None else ""
            lines.append(f"{r.what}: {r.outcome}{' ' + name if name else ''}{': ' + r.reason if r.reason else ''}")
        return "\n".join([*lines, self.summary(), *self.notes])


# ---- traces ----------------------------------------------------------------------------------------------------------


def discover_trace(
    path: str | os.PathLike[str] | RecordedSet,
    *,
    device: Any = None,
    elements: int | None = None,
    seed: int = 0,
    max_calls: int | None = None,
    threads: int | None = None,
    limit_seconds: float | None = None,
    cache: bool | str | os.PathLike[str] = True,
    again: bool = False,
    progress: ManyProgress | None = None,
) -> Discoveries:
    """Discovers the profile of every different multiplication of a trace, or a golden set, on this device.

    Two lines are the same multiplication where operation, formats, sizes, strides, addend, factors, scales and
    settings agree. What the cache holds is not asked again, so a call that was stopped, or ended by
    ``limit_seconds``, goes on where it was: also what could not be certified is kept, and asked once more only
    ``again`` or by another release. Those of the most lines come first. ``cache``: the folder, True for the user's;
    ``hawkeye.verify`` then finds the profiles there. ``progress`` gets a ``Step``, and stops by returning False.
    The other arguments are those of ``hawkeye.discover``.
    """
    if cache is False:
        raise errors.ArgumentError("The profiles of a trace are kept in a folder: leave out cache, or name one.")
    if limit_seconds is not None and not limit_seconds > 0:
        raise errors.ArgumentError(f"limit_seconds is {limit_seconds}: it must be more than 0.")
    recorded = path if isinstance(path, RecordedSet) else open_set(path)
    return ask_all(
        signatures_of(recorded),
        device=device,
        elements=elements,
        seed=seed,
        max_calls=max_calls,
        threads=threads,
        limit_seconds=limit_seconds,
        cache=caches.Cache(None if cache is True else cache),
        again=again,
        progress=progress,
        notes=_other_device(recorded, device),
    )


class Wanted(NamedTuple):
    """A multiplication to ask torch for, or why it cannot be asked."""

    what: str
    product: boxes.Product | None
    flags: dict[str, bool]
    lines: int
    reason: str = ""


def signatures_of(recorded: RecordedSet) -> list[Wanted]:
    """The different multiplications of a trace or set, those of the most lines first."""
    found: dict[str, Wanted] = {}
    for line in recorded._each():
        if "instruction" in line:
            raise errors.ArgumentError(
                f"{recorded.path.name} holds results of single instructions: say --instructions."
            )
        wanted = wanted_of(line)
        if wanted is None:
            continue
        name = wanted.what + caches.canonical(wanted.flags)
        if wanted.product is not None:
            name = caches.canonical([caches.signature(wanted.product.record()), wanted.flags, wanted.product.addend])
        before = found.get(name)
        found[name] = wanted if before is None else before._replace(lines=before.lines + 1)
    return sorted(found.values(), key=lambda w: -w.lines)


def wanted_of(line: Mapping[str, Any]) -> Wanted | None:
    """What a line multiplies; None for a line that is no record."""
    try:
        record = line if isinstance(line.get("a"), Mapping) else caches.of_golden(line)
        told = caches.signature(record)
        op = str(record["op"]).lstrip("_")
        a, b = record["a"], record["b"]
        batch, m, k = (int(size) for size in a["shape"])
        n = int(b["shape"][2])
        form = BY_NAME[a["format"]]
        said = record.get("flags") or {}
        settings: dict[str, bool] = {
            name: bool(said[name])
            for name in ("allow_tf32", "allow_fp16_accumulation", "allow_reduced_precision_reduction", "deterministic")
            if said.get(name) is not None and name in caches.flags({}, form.name)
        }
        addend, strides = _addend(record, batch)
        why = ""
        offsets = {}
        for name in ("a", "b", "c"):
            tensor = record.get(name)
            if tensor and not (name == "c" and addend == "bias"):
                why = why or _askable(name, tensor)
                wide = max(16 // BY_NAME[tensor["format"]].bytes, 1)
                if at := int(tensor.get("offset") or 0) % wide:
                    offsets[name] = at
        product = boxes.Product(
            op=op,
            a=form,
            b=BY_NAME[b["format"]],
            out=BY_NAME[record["out"]["format"]],
            batch=batch if op in ("bmm", "baddbmm") else None,
            m=m,
            n=n,
            k=k,
            a_strides=_three(a),
            b_strides=_three(b),
            c=BY_NAME[record["c"]["format"]] if addend else None,
            addend=addend,
            c_strides=strides,
            alpha=told["alpha"],
            beta=told["beta"],
            scaling="" if told["scaling"] == "none" else told["scaling"],
            fast=bool(said.get("use_fast_accum")),
            offsets=offsets,
        )
    except (LookupError, TypeError, ValueError):
        return None
    if op not in boxes.OPERATIONS:
        why = why or f"{op} is no operation that can be asked"
    elif product.alpha == 0 or (addend and product.beta == 0):
        why = why or "alpha or beta is 0"
    return Wanted(str(product), None if why else product, settings, 1, why)


def _three(tensor: Mapping[str, Any]) -> tuple[int, int, int]:
    batch, rows, columns = (int(step) for step in tensor["strides"])
    return batch, rows, columns


def _addend(record: Mapping[str, Any], batch: int) -> tuple[str, tuple[int, int, int] | None]:
    """Which addend a record has, and the strides of a whole one."""
    c = record.get("c")
    if c is None:
        return "", None
    strides = _three(c)
    row = batch == 1 and strides[1] == 0 and (strides[2] == 1 or int(c["shape"][2]) == 1)
    if row and str(record["op"]).lstrip("_") in ("addmm", "linear", "scaled_mm"):
        return "bias", None
    return "full", strides


def _askable(name: str, tensor: Mapping[str, Any]) -> str:
    """Why an operand cannot be filled with elements of our own; "" where it can."""
    lies = sorted(
        (step, size) for step, size in zip(map(int, tensor["strides"]), map(int, tensor["shape"])) if size > 1
    )
    reach = 1
    for step, size in lies:
        if step < reach:
            return f"elements of {name} share memory"
        reach = step * (size - 1) + reach
    return ""


def _other_device(recorded: RecordedSet, device: Any) -> list[str]:
    """That profiles found here are not those of the device that recorded."""
    about = recorded.about.get("about")
    recorded_on = str(about.get("gpu") or about.get("cpu") or "") if isinstance(about, dict) else ""
    if not recorded_on:
        return []
    from ._discover import _device, _torch, device_facts

    facts = device_facts(_device(_torch(), device))
    here = str(facts.get("gpu") or facts.get("cpu"))
    if here == recorded_on:
        return []
    return [
        f"Note: recorded on {recorded_on}, and asked on {here}: the profiles are of the latter, and explain no line."
    ]


def ask_all(
    wanted: Iterable[Wanted],
    *,
    device: Any,
    elements: int | None,
    seed: int,
    max_calls: int | None,
    threads: int | None,
    limit_seconds: float | None,
    cache: caches.Cache,
    again: bool,
    progress: ManyProgress | None,
    notes: list[str],
) -> Discoveries:
    """Asks for one after another, as far as time allows."""
    rows: list[Row] = []
    wanted = list(wanted)
    end = None if limit_seconds is None else time.monotonic() + limit_seconds
    for number, (w, row) in enumerate(_begun(wanted), 1):
        if row is not None:
            rows.append(row)
            continue
        assert w.product is not None
        try:
            asked = prepared(w.product.op, w.product, "torch", device, w.flags, out=w.product.out)
        except Exception as error:  # torch has many ways to say that it does not multiply this
            if isinstance(error, (errors.DeviceError, errors.ArgumentError)):
                raise
            rows.append(Row(w.what, REFUSED, f"torch refuses it here: {_first(error)}", w.lines))
            continue
        row = _row(
            asked, w, elements, seed, max_calls, threads, cache, again, end, _numbered(progress, number, len(wanted), w)
        )
        rows.append(row)
    if any(r.outcome == LEFT for r in rows):
        notes = [*notes, "Note: the time was up: the same call goes on with those that are left."]
    return Discoveries(rows, notes)


def _first(error: Exception) -> str:
    """What torch says first; it may go on for pages."""
    text = (str(error).strip().splitlines() or [type(error).__name__])[0].partition(". ")[0]
    return text if len(text) <= 200 else f"{text[:200]}…"


def _begun(wanted: list[Wanted]) -> Iterator[tuple[Wanted, Row | None]]:
    for w in wanted:
        yield w, Row(w.what, REFUSED, w.reason, w.lines) if w.product is None else None


def _row(
    asked: Asked,
    w: Wanted,
    elements: int | None,
    seed: int,
    max_calls: int | None,
    threads: int | None,
    cache: caches.Cache,
    again: bool,
    end: float | None,
    progress: Callable[[Progress], bool | None],
) -> Row:
    key = asked.key()
    kept = None if key is None or again else kept_of(cache, key, elements or ELEMENTS, True)
    over = False

    def within(p: Progress) -> bool | None:
        nonlocal over
        over = end is not None and time.monotonic() > end
        return False if over else progress(p)

    if kept is None and end is not None and time.monotonic() > end:
        return Row(w.what, LEFT, "there was no time for it", w.lines)
    try:
        found = run(
            asked,
            elements=elements,
            seed=seed,
            max_calls=max_calls,
            threads=threads,
            progress=within,
            cache=cache,
            declined=True,
            again=again,
        )
    except errors.Cancelled:
        if over:
            return Row(w.what, LEFT, "there was no time for it", w.lines)
        raise
    return Row(w.what, CERTIFIED if found else DECLINED, found.reason, w.lines, found)


def _numbered(progress: ManyProgress | None, number: int, count: int, w: Wanted) -> Callable[[Progress], bool | None]:
    def report(p: Progress) -> bool | None:
        return None if progress is None else progress(Step(number, count, w.what, p))

    return report


# ---- instructions ----------------------------------------------------------------------------------------------------


def discover_instructions(
    names: Iterable[str] | None = None,
    *,
    device: int = 0,
    elements: int | None = None,
    seed: int = 0,
    max_calls: int | None = None,
    threads: int | None = None,
    limit_seconds: float | None = None,
    progress: ManyProgress | None = None,
) -> Discoveries:
    """Discovers the profiles of a GPU's single matrix instructions, and holds them against the catalogue's.

    ``names``: which of them, as docs/instructions.md calls them; all without. Needs a GPU and its
    driver, and neither torch nor a CUDA toolkit.
    """
    from importlib import import_module

    try:
        cuda: Any = import_module(f"{__package__}._cuda")
    except ImportError as error:
        raise errors.UnsupportedError("This build of Hawkeye has no instruction probes.") from error
    known = [str(i["name"]) for i in cuda.about(device)["instructions"]]
    chosen = known if names is None else list(names)
    for name in chosen:
        if name not in known:
            raise errors.ArgumentError(f"The GPU has no instruction {name}; it has {', '.join(known)}.")
    rows: list[Row] = []
    end = None if limit_seconds is None else time.monotonic() + limit_seconds
    for number, name in enumerate(chosen, 1):
        if end is not None and time.monotonic() > end:
            rows.append(Row(name, LEFT, "there was no time for it"))
            continue
        report = _numbered(progress, number, len(chosen), Wanted(name, None, {}, 1))
        found: Discovery = cuda.discover(
            name,
            device=device,
            elements=elements,
            seed=seed,
            max_calls=max_calls,
            threads=threads,
            progress=report,
        )
        comparison = found.details.get("comparison")
        rows.append(Row(name, CERTIFIED if found else DECLINED, found.reason, 1, found, comparison))
    return Discoveries(rows)

"""Sets of recorded cases: matrix multiplications with the results a GPU gave, replayed one by one.

A set is FILE.jsonl with FILE.bin beside it: whole multiplications (tests/goldens) or results of single instructions.
FILE.expected, where it exists, names the cases whose replay must be exact, one id a line ('#' begins a comment).
A trace is a folder that ``hawkeye.record`` wrote (docs/trace.md); it is opened and replayed in the same way.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import itertools
import json
import os
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from . import _native
from ._native import Progress

if TYPE_CHECKING:
    from ._profiles import Profile, ProfileLike


@dataclass(frozen=True)
class Verdict:
    """What replaying one case showed.

    ``verdict`` is "exact" (every recorded bit reproduced), "wrong", or "undecided", with the reason.
    """

    id: str
    verdict: str
    plan: str  #: the order of summation that was found, for a person
    reason: str  #: why it is wrong or undecided, or what an exact one leaves open; "" where there is nothing to say
    op: str
    dtype: str
    out: str
    family: str  #: the kind of GPU kernel
    multiply_adds: int
    seconds: float
    details: dict[str, Any] = field(repr=False)  #: everything the library said: docs/verdicts.md, "Fields"

    @property
    def notes(self) -> list[str]:
        """What an exact verdict cannot show of this output, for a person; mostly empty."""
        return [str(note) for note in self.details.get("notes") or ()]

    @property
    def profile(self) -> Profile | None:
        """The profile that was found, or that the kernel's name determines; None where none is known."""
        from ._profiles import profile

        found = self.details.get("profile")
        return profile(found) if found else None

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """A verdict as the library writes it."""
        got: dict[str, Any] = json.loads(text)
        return cls(
            id=str(got.get("id", "")),
            verdict=str(got["verdict"]),
            plan=str(got.get("plan") or ""),
            reason=str(got.get("reason") or ""),
            op=str(got.get("op") or ""),
            dtype=str(got.get("dtype") or ""),
            out=str(got.get("out") or ""),
            family=str(got.get("family") or "other"),
            multiply_adds=int(got.get("multiply_adds") or 0),
            seconds=float(got.get("seconds") or 0.0),
            details=got,
        )


def _free(handle: int, owner: int) -> None:
    if os.getpid() == owner and _native.loaded():
        with contextlib.suppress(errors.Error):
            _native.call("hawkeye_set_free", handle)


class RecordedSet:
    """An open set; ``len`` is its number of cases. Made by ``hawkeye.open_set``."""

    def __init__(self, path: Path, handle: int, count: int) -> None:
        self.path = path
        self._handle = handle
        self._count = count
        self._ids: dict[str, int] | None = None
        weakref.finalize(self, _free, handle, os.getpid()).atexit = False
        #: what was known of the last case whose replay was stopped, by Ctrl-C or its progress callback; else None
        self.unfinished: Verdict | None = None
        #: {"kind", "about", "multiply_adds", "cases", ...}, of a trace also "trace" (see ``trace``)
        self.about: dict[str, Any] = json.loads(_native.text("hawkeye_set_about", handle, size=1 << 16))

    def __len__(self) -> int:
        return self._count

    def cases(self) -> list[dict[str, Any]]:
        """The set's own lines, decoded, in the order of the cases' indices; "id" is as verdicts have it.

        A trace's lines have the sizes "batch", "m", "n", "k" beside their own fields; of a line that is no record there
        is its "id" alone.
        """
        return list(self._each())

    def _each(self) -> Iterator[dict[str, Any]]:
        """What ``cases`` lists, one by one: a long trace's lines need not be in memory together."""
        if self.trace is not None:
            yield from self._lines(self.trace)
            return
        with self.path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip() and not (case := json.loads(line)).get("about"):
                    yield case | {"id": _identity(case, number)}

    @property
    def trace(self) -> dict[str, Any] | None:
        """What is known of the trace as a whole: "sealed", "root", "ranks", "problems", …; None for a set of a file."""
        found: dict[str, Any] | None = self.about.get("trace")
        return found

    def _lines(self, trace: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for rank in trace["ranks"]:
            with (self.path / rank["file"]).open("rb") as lines:
                for number, line in enumerate(itertools.islice(lines, rank["lines"])):
                    yield _line(line) | {"id": f"r{rank['rank']}-{number:06d}"}

    def index(self, case: int | str) -> int:
        """The index of a case given by its id (or by its index). Raises ArgumentError for an id that no case has."""
        if not isinstance(case, str):
            if not 0 <= case < self._count:
                raise IndexError(f"{self.path.name} has {self._count} cases, and case {case} was asked for.")
            return case
        if self._ids is None:
            self._ids = {line["id"]: index for index, line in enumerate(self.cases())}
        if case not in self._ids:
            raise errors.ArgumentError(
                f"{self.path.name} has no case {case}; its ids look like {next(iter(self._ids), '(none)')}."
            )
        return self._ids[case]

    def replay(
        self,
        case: int | str,
        *,
        threads: int | None = None,
        blind: bool = False,
        profile: ProfileLike | None = None,
        rows: int | None = None,
        suspects: Iterable[ProfileLike] | None = None,
        progress: Progress | None = None,
    ) -> Verdict:
        """Replays a case, named by its id or its index, counted from 0 in the file's order.

        The recorded kernel names and launches say which profiles to try; ``blind=True`` leaves them unread and searches
        by operation, formats and sizes. ``profile`` is the only one to try. Of an output of more than ``rows`` rows
        only so many are computed, and the stored elements in them compared, never the hash. ``suspects`` are profiles
        that ``hawkeye.discover`` found for such a multiplication on such a device: they are tried where the rules' own
        leave the case wrong or undecided. A replay that is stopped, by Ctrl-C or by ``progress`` returning False,
        leaves what it knows in ``unfinished``.
        """
        from ._profiles import profile as find

        index = self.index(case)
        only = None if profile is None else find(profile)
        others = [find(p) for p in suspects or ()]
        options = _native.ReplayOptions(
            struct_size=c.sizeof(_native.ReplayOptions),
            profile=0 if only is None else only._handle,
            threads=_native.thread_count(threads),
            blind=blind,
            rows=_native.row_count(rows),
            suspects=_native.handles(others),
            suspect_count=len(others),
        )
        # The library says that 64 KiB always suffice; it does not keep a verdict that did not fit.
        buffer, needed = c.create_string_buffer(1 << 16), c.c_size_t()
        finished = False
        try:
            with _native.Watched(progress) as watched:
                options.progress = watched.function
                finished = watched.call(
                    "hawkeye_set_replay_with",
                    self._handle,
                    index,
                    c.byref(options),
                    buffer,
                    len(buffer),
                    c.byref(needed),
                )
        finally:
            if not finished and buffer.value:
                self.unfinished = Verdict.from_json(buffer.value.decode("utf-8"))
        if not finished:  # the program's own handler of SIGINT let it pass
            raise errors.Cancelled("The replay was stopped by a signal.")
        return Verdict.from_json(buffer.value.decode("utf-8"))

    def __iter__(self) -> Iterator[Verdict]:
        for index in range(self._count):
            yield self.replay(index)

    def expected(self) -> frozenset[str] | None:
        """The ids of the cases whose replay must be exact; None where the set does not say."""
        beside = self.path.with_suffix(".expected")
        try:
            lines = beside.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise errors.FileError(
                f"The list {beside} of cases expected to be exact cannot be read: {error}."
            ) from error
        names = (line.partition("#")[0].strip() for line in lines)
        return frozenset(name for name in names if name)


def _identity(case: dict[str, Any], line: int) -> str:
    """A case's id as verdicts have it: its own, or one made of what it is."""
    if "instruction" in case:
        return "{gpu}-{format}-{out}-k{k}-{instruction}".format(**case)
    return str(case.get("id") or f"line-{line}")


def _line(text: bytes) -> dict[str, Any]:
    """A line of a trace with its sizes; nothing where it is no record, which its verdict says."""
    try:
        line = json.loads(text)
        batch, m, k = line["a"]["shape"]
        return {**line, "batch": int(batch), "m": int(m), "k": int(k), "n": int(line["b"]["shape"][2])}
    except (ValueError, TypeError, LookupError, RecursionError):
        return {}


def open_set(path: str | os.PathLike[str]) -> RecordedSet:
    """Opens FILE.jsonl, or a trace's folder.

    Raises FileError where a file cannot be read, ArgumentError where it is no recorded set. A trace that is not as it
    was written is opened: its ``trace`` says what is broken, and so do the verdicts on those lines.
    """
    where = Path(path)
    handle, count = c.c_uint64(), c.c_int64()
    _native.call("hawkeye_set_open", os.fsencode(where), c.byref(handle), c.byref(count))
    return RecordedSet(where, handle.value, count.value)

"""Verifying a trace or a set as a whole: ``hawkeye.verify``, and what the command ``hawkeye verify`` runs on."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from . import _native
from ._cache import Cache, Known
from ._journal import Journal, header
from ._native import Progress
from ._sample import Place, chosen, key_of, place_of, sample_of
from ._sentences import (
    VERDICTS,
    about_line,
    device_of,
    devices,
    in_common,
    inexact,
    own_notes,
    problems,
    remarks,
    story,
    tried,
    unrevealed,
)
from ._sets import RecordedSet, Verdict, open_set

if TYPE_CHECKING:
    from ._profiles import Profile

OK = 0
WRONG = 1
UNDECIDED = 2
#: of cases that are not exact, so many are told one by one
MOST_TOLD = 50


@dataclass(frozen=True)
class Report:
    """What verifying a trace or a set came to. ``str`` is the summary that ``hawkeye verify`` prints."""

    path: Path
    verdicts: list[Verdict]  #: in the order of the lines
    total: int  #: lines of the trace, or cases of the set
    chosen: int  #: how many of them were to be verified; of the others nothing is said
    sample: float | int | None  #: the fraction, or number of lines, that a key chose; None: all, or those named
    key: str | None  #: the key
    problems: list[str]  #: what is broken of the trace as a whole, a sentence each
    notes: list[str]  #: what else there is to say of it
    root: str | None  #: of the trace, as computed from its lines; None for a set of a file
    about: str  #: where it comes from
    named: bool = False  #: cases were named: each is told
    _cases: dict[int, dict[str, Any]] = field(default_factory=dict, repr=False)  # lines of those told, by place

    @property
    def counts(self) -> dict[str, int]:
        """How many verdicts are "exact", "undecided", "wrong"."""
        return {name: sum(v.verdict == name for v in self.verdicts) for name in VERDICTS}

    @property
    def exact(self) -> list[Verdict]:
        """The exact ones."""
        return [v for v in self.verdicts if v.verdict == "exact"]

    @property
    def wrong(self) -> list[Verdict]:
        """The wrong ones."""
        return [v for v in self.verdicts if v.verdict == "wrong"]

    @property
    def undecided(self) -> list[Verdict]:
        """The undecided ones."""
        return [v for v in self.verdicts if v.verdict == "undecided"]

    @property
    def ok(self) -> bool:
        """Whether all that were chosen are exact, of which there is at least one, and nothing is broken."""
        return self.status == OK

    @property
    def status(self) -> int:
        """The exit status of ``hawkeye verify``: 0 all exact, 1 wrong or broken, 2 undecided, or nothing verified."""
        if self.problems or any(v.verdict == "wrong" or v.details.get("broken") for v in self.verdicts):
            return WRONG
        finished = self.verdicts and len(self.verdicts) == self.chosen
        return OK if finished and all(v.verdict == "exact" for v in self.verdicts) else UNDECIDED

    def lines(self) -> list[str]:
        """The summary, line by line: cases that are not exact, how many are what, and what is broken."""
        places = {id(v): place for place, v in enumerate(self.verdicts)}
        few = [v for v in self.exact if self.named or own_notes(v)]
        rest, lacking = unrevealed(inexact(self.verdicts))
        told = [*few, *rest[:MOST_TOLD]]
        text = [story(v, self._cases.get(places[id(v)], {})) + tried(v) for v in told]
        if len(rest) > MOST_TOLD:
            text.append(f"… and {len(rest) - MOST_TOLD} more that are not exact: --json has all of them.")
        text += lacking
        if not (self.named and self.chosen == 1 and len(self.verdicts) == 1):
            if text:
                text.append("")
            counts = ", ".join(f"{count} {name}" for name, count in self.counts.items() if count)
            text.append(f"{self.about}: {counts or 'nothing was verified'}.")
        return [*text, *self.closing()]

    def closing(self) -> list[str]:
        """The last lines of the summary: of the choice, and of the trace as a whole."""
        return [*self.choice(), *self.problems, *self.notes, *in_common(self.verdicts)]

    def choice(self) -> list[str]:
        """Which lines a key chose, in a sentence; nothing where none did."""
        if self.sample is None:
            return []
        what = "lines" if self.root is not None else "cases"
        choice = f"Chosen: {self.chosen} of {self.total} {what}, by sample {self.sample} and key {self.key}."
        return [f"{choice} Nothing is claimed of the others."]

    def to_json(self) -> str:
        """All of it as one JSON object, the verdicts as ``Verdict.details``."""
        fields = {
            "path": str(self.path),
            "root": self.root,
            "total": self.total,
            "chosen": self.chosen,
            "sample": self.sample,
            "key": self.key,
            "counts": self.counts,
            "ok": self.ok,
            "status": self.status,
            "problems": self.problems,
            "notes": [*self.notes, *in_common(self.verdicts)],
            "verdicts": [v.details for v in self.verdicts],
        }
        return json.dumps(fields, ensure_ascii=False)

    def __str__(self) -> str:
        return "\n".join(self.lines())


def verify(
    path: str | os.PathLike[str] | RecordedSet,
    *,
    sample: float | None = None,
    key: str | None = None,
    only: Iterable[str] | None = None,
    blind: bool = False,
    root: str | None = None,
    threads: int | None = None,
    rows: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    profiles: str | os.PathLike[str] | bool = True,
    progress: Progress | None = None,
) -> Report:
    """Replays a trace's lines, or a set's cases, and reports what came of them. Needs neither torch nor a GPU.

    ``sample`` verifies a part: a float is a fraction of the lines, an int a number of them; ``key`` chooses which
    (None: a fresh random key, which the report has). ``only`` names ids instead. ``blind`` leaves kernel names
    unread. ``root`` is the trace's root as it was kept elsewhere. ``rows`` computes only so many rows of a larger
    output, and compares the stored elements in them, never the hash. ``resume`` names a file in which verdicts are
    kept, so that a call that was stopped goes on where it was. ``profiles`` is a folder of profiles that
    ``hawkeye.discover`` found: those of a line's own signature, settings, device and library are tried where the
    rules leave the line wrong or undecided. True is the user's cache; False is none. ``progress`` gets (done,
    total), roughly in multiply-adds of all that is verified; False stops, which raises Cancelled.

    Raises ArgumentError for arguments that do not go together, FileError where the set cannot be read.
    """
    recorded = path if isinstance(path, RecordedSet) else open_set(path)
    with Verification(
        recorded,
        sample=sample,
        key=key,
        only=only,
        blind=blind,
        root=root,
        threads=threads,
        rows=rows,
        resume=resume,
        profiles=profiles,
    ) as work:
        total, done = int(sum(work.weights)), work.known_weight

        def within(weight: float) -> Progress | None:
            if progress is None:
                return None
            begun = done

            def report(part: int, whole: int) -> bool | None:
                return progress(int(begun + weight * min(part / whole, 1.0) if whole else begun), total)

            return report

        for _, weight in work.run(within):
            done += weight
            if progress is not None and progress(int(done), total) is False:
                raise errors.Cancelled("The verification was stopped by its progress callback.")
        return work.report()


@dataclass
class Verification:
    """One verification while it runs. The arguments are those of ``verify``."""

    recorded: RecordedSet
    sample: float | None = None
    key: str | None = None
    only: Iterable[str] | None = None
    blind: bool = False
    root: str | None = None
    threads: int | None = None
    rows: int | None = None
    resume: str | os.PathLike[str] | None = None
    profiles: str | os.PathLike[str] | bool = True

    def __post_init__(self) -> None:
        self.only = list(self.only or ())
        if self.key is not None and self.sample is None:
            raise errors.ArgumentError("A key chooses among what is sampled: say also how much (sample).")
        if self.only and self.sample is not None:
            raise errors.ArgumentError("Cases are named, or chosen by a key: leave out one of only and sample.")
        if self.sample is not None:
            self.sample = sample_of(self.sample)
        if self.key is not None:
            self.key = key_of(self.key)
        _native.row_count(self.rows)
        self.trouble = check_root(self.recorded, self.root)
        #: verdicts of the chosen lines so far, in order
        self.verdicts: list[Verdict] = []
        #: discovered profiles of lines, by index
        self._suspects = self._look()
        self._journal: Journal | None = None
        if self.resume is not None:
            of = header(
                self.recorded,
                version=_native.version(),
                blind=self.blind,
                rows=self.rows,
                profiles=sorted({p.id for found in self._suspects.values() for p in found}),
            )
            self._journal = Journal(Path(self.resume), of, count=len(self.recorded), key=self.key)
        try:
            self._choose()
        except BaseException:
            self.close()
            raise

    def _look(self) -> dict[int, list[Profile]]:
        """Which lines a discovered profile is known for."""
        if self.profiles is False:
            return {}
        cache = Cache(None if self.profiles is True else self.profiles)
        if self.profiles is not True and not cache.folder.is_dir():
            raise errors.FileError(f"profiles: {cache.folder} is no folder.")
        known = Known(cache)
        about = self.recorded.about.get("about")
        if not known or not isinstance(about, dict):
            return {}
        found = ((index, known.suspects(case, about)) for index, case in enumerate(self.recorded._each()))
        return {index: suspects for index, suspects in found if suspects}

    def _choose(self) -> None:
        places: list[Place] = []
        weights: list[float] = []
        #: lines that name a device of their own, by what it is called
        self._devices: Counter[str] = Counter()
        for index, case in enumerate(self.recorded._each()):
            if self.recorded.trace is not None and (device := device_of(case)):
                self._devices[device] += 1
            places.append(place_of(case, index, trace=self.recorded.trace is not None))
            weights.append(work(case, self.rows))
        if self.sample is not None:
            if self.key is None and self._journal is not None:
                self.key = self._journal.key
            self.key = key_of(self.key)
            self.indices = chosen(places, self.sample, self.key)
        elif self.only:
            self.indices = sorted({self.recorded.index(name) for name in self.only})
        else:
            self.indices = list(range(len(self.recorded)))
        #: how long each chosen line takes in comparison with others
        self.weights = [weights[index] for index in self.indices]
        known = self._journal.known if self._journal is not None else {}
        self._known = {index: known[index] for index in self.indices if index in known}
        #: of the lines whose verdicts are known from before
        self.known_weight = sum(weights[index] for index in self._known)
        self.known_count = len(self._known)

    def __enter__(self) -> Verification:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the use of the file of verdicts."""
        if self._journal is not None:
            self._journal.close()

    def run(self, within: Callable[[float], Progress | None]) -> Iterator[tuple[Verdict, float]]:
        """Gives each verdict as it comes, with the weight of the work that it took: 0 for one from before.

        ``within`` makes the progress callback of a line from its weight.
        """
        if self._journal is not None:
            self._journal.begin(self.sample, self.key)
        for index, weight in zip(self.indices, self.weights):
            verdict = self._known.get(index)
            if verdict is None:
                verdict = self.recorded.replay(
                    index,
                    threads=self.threads,
                    blind=self.blind,
                    rows=self.rows,
                    suspects=self._suspects.get(index),
                    progress=within(weight),
                )
                if self._journal is not None:
                    self._journal.add(index, verdict)
            else:
                weight = 0.0
            self.verdicts.append(verdict)
            yield verdict, weight

    def _notes(self) -> list[str]:
        notes = [*devices(self._devices), *_root_note(self.recorded, self.root)]
        if self.known_count and self.recorded.trace is not None:
            notes.append(
                f"Note: {self.known_count} verdicts are from {self.resume}: the tensor files of their lines were not "
                "read again."
            )
        return notes

    def report(self) -> Report:
        """What came of it so far."""
        recorded = self.recorded
        told = {place for place, v in enumerate(self.verdicts) if self.only or v.verdict != "exact" or v.notes}
        wanted = {self.indices[place]: place for place in told}
        cases: dict[int, dict[str, Any]] = {}
        if wanted:
            for index, case in enumerate(recorded._each()):
                if index in wanted:
                    cases[wanted[index]] = {n: case[n] for n in ("m", "n", "k", "batch", "launches") if n in case}
        return Report(
            path=recorded.path,
            verdicts=self.verdicts,
            total=len(recorded),
            chosen=len(self.indices),
            sample=self.sample,
            key=self.key,
            problems=[*self.trouble, *problems(recorded)],
            notes=[*remarks(recorded), *self._notes()],
            root=None if recorded.trace is None else str(recorded.trace["root"]),
            about=about_line(recorded),
            named=bool(self.only),
            _cases=cases,
        )


def _root_note(recorded: RecordedSet, root: str | None) -> list[str]:
    if recorded.trace is None or root is not None:
        return []
    return ["Note: the root was not compared with one kept elsewhere: none was given, and all may have been made anew."]


def check_root(recorded: RecordedSet, root: str | None) -> list[str]:
    """What speaks against a trace having the root that was kept elsewhere."""
    if root is None:
        return []
    if recorded.trace is None:
        raise errors.ArgumentError(f"--root is of a trace, and {recorded.path.name} is none.")
    root = root.strip().lower()
    if not re.fullmatch("[0-9a-f]{64}", root):
        hint = f' {root} is a file: --root "$(cat {root})".' if Path(root).is_file() else ""
        raise errors.ArgumentError(f"--root: want the 64 hexadecimal digits that recording ended with.{hint}")
    if root == recorded.trace["root"]:
        return []
    return [f"Broken: the root is {recorded.trace['root']}, not {root}: lines were changed, removed or added."]


def work(case: dict[str, Any], rows: int | None = None) -> float:
    """How long a case takes in comparison with others, roughly: its multiply-adds, and what every case costs."""
    sizes = ("rows", "k") if "instruction" in case else ("batch", "m", "n", "k")
    products = 1.0
    for name in sizes:
        products *= max(int(case.get(name, 1)), 0)
    lines = int(case.get("batch", 1)) * int(case.get("m", 1))
    if rows is not None and lines > rows:
        products *= rows / lines
    return products + 2e7

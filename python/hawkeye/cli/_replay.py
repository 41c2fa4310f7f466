"""Replaying a set with a progress bar, and showing what came of it; shared by ``demo``, ``golden`` and ``verify``."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from .._errors import ArgumentError
from .._native import Progress
from .._sentences import VERDICTS, about_line, dtypes, inexact, own_notes, problems, reason, remarks, story, tried
from .._sets import RecordedSet, Verdict
from .._verify import OK, WRONG, work
from ._cases import opened
from ._words import say

if TYPE_CHECKING:
    from rich.table import Table

INTERRUPTED = 130

__all__ = ["about_line", "problems", "remarks", "story", "tried", "work"]  # also for other commands


def run(
    path: Path,
    *,
    as_json: bool,
    only: list[str],
    threads: int,
    blind: bool = False,
    times: bool = False,
    stories: int = 0,
    write_expected: bool = False,
) -> int:
    """Replays the set, shows tables, and returns the exit status of ``golden`` and ``demo``."""
    recorded = opened(path)
    expected = None if blind else recorded.expected()  # it lists what names and launches give
    if write_expected and only:
        raise ArgumentError("--write-expected lists a whole set: leave out --only.")
    if write_expected and blind:
        raise ArgumentError("--write-expected lists what the kernel names give: leave out --blind.")
    done = _replay(recorded, only, threads, blind, as_json=as_json)
    if not as_json:
        told = done.verdicts if only else telling(done.verdicts, stories)
        _show(recorded, done.verdicts, told, listed=not stories, times=times)
    elif times:
        from rich.console import Console

        Console(stderr=True).print(_times(done.verdicts))
    if done.interrupted:
        return _interrupted(done)
    if write_expected:
        _write_expected(recorded, done.verdicts)
        expected = None
    return _conclude(done.verdicts, expected, quiet=as_json)


@dataclass
class _Done:
    """What came of a set: the verdicts, and whether Ctrl-C ended it before its end."""

    verdicts: list[Verdict]
    total: int
    interrupted: bool = False
    unfinished: Verdict | None = None


def _replay(recorded: RecordedSet, only: list[str], threads: int, blind: bool, *, as_json: bool) -> _Done:
    """Replays the chosen cases with a bar on standard error; with ``as_json`` prints each verdict as it comes."""
    indices = sorted({recorded.index(name) for name in only}) if only else list(range(len(recorded)))
    weights = [work(case) for case in recorded.cases()]
    done = _Done([], len(indices))
    with progress_of(f"Replaying {recorded.path.name}", sum(weights[i] for i in indices), len(indices)) as bar:
        for index in indices:
            try:
                verdict = recorded.replay(index, threads=threads, blind=blind, progress=bar.within(weights[index]))
            except KeyboardInterrupt:
                done.interrupted, done.unfinished = True, recorded.unfinished
                break
            done.verdicts.append(verdict)
            bar.finish(weights[index])
            if as_json:
                bar.print(json.dumps(verdict.details, ensure_ascii=False))
    return done


class Bar:
    """A progress bar in units of work; it moves within a case, and never back."""

    def __init__(self, bar: Any, task: Any, count: int) -> None:
        self._bar, self._task, self._count = bar, task, count
        self._finished, self._cases, self._shown = 0.0, 0, 0.0

    def begin(self, done: float, cases: int) -> None:
        """Some of the work was done before."""
        self._finished, self._cases = done, cases
        self._move(done)

    def within(self, weight: float) -> Progress:
        """The progress callback of one case."""

        def report(done: int, total: int) -> None:
            self._move(self._finished + weight * min(done / total, 1.0) if total else self._finished)

        return report

    def finish(self, weight: float) -> None:
        """A case has ended."""
        self._finished, self._cases = self._finished + weight, self._cases + 1
        self._move(self._finished)

    def _move(self, completed: float) -> None:
        self._shown = max(self._shown, completed)
        if self._bar is not None:
            self._bar.update(self._task, completed=self._shown, cases=f"{self._cases}/{self._count}")

    def print(self, line: str) -> None:
        """A line on standard output, which may be the bar's terminal."""
        if self._bar is not None and sys.stdout.isatty():
            self._bar.update(self._task, visible=False, refresh=True)
            print(line, flush=True)
            self._bar.update(self._task, visible=True)
        else:
            print(line, flush=True)


@contextmanager
def progress_of(title: str, total: float, count: int) -> Iterator[Bar]:
    """A bar with an estimate of the time left, where a person is watching."""
    if not sys.stderr.isatty():
        yield Bar(None, None, count)
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Rich

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[cases]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    # On standard error: standard output then holds the tables alone, also when it goes to a file.
    with Rich(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bar:
        yield Bar(bar, bar.add_task(title, total=total, cases=f"0/{count}"), count)


@contextmanager
def progress_bar(title: str) -> Iterator[Progress | None]:
    """The same for one long call: a progress callback, None where nobody watches."""
    if not sys.stderr.isatty():
        yield None
        return
    with progress_of(title, 1.0, 1) as bar:
        yield bar.within(1.0)


# ---- tables -------------------------------------------------------------------------------------------------------


def _show(
    recorded: RecordedSet, verdicts: list[Verdict], told: list[Verdict], *, listed: bool = True, times: bool = False
) -> None:
    """The tables, what there is to say of the cases told one by one, and the others that are not exact."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    console.print(Text(about_line(recorded)))
    if not verdicts:
        return
    console.print()
    console.print(_table("By operation and number formats", ("op", "dtype"), verdicts, lambda v: (v.op, dtypes(v))))
    if any(v.family != "other" for v in verdicts):
        console.print()
        console.print(_table("By kernel family", ("family",), verdicts, lambda v: (v.family,)))
    if times:
        console.print()
        console.print(_times(verdicts))
    lines = {case["id"]: case for case in recorded.cases()} if told else {}
    for v in told:
        console.print()
        console.print(Text(story(v, lines.get(v.id, {})) + tried(v)))
    rest = [v for v in inexact(verdicts) if v not in told and (listed or v.verdict == "wrong")]
    if rest:
        console.print()
        say(f"Not exact, and what was tried ({len(rest)}):" if listed else "Wrong:")
    for v in rest:
        say(f"{v.id} ({v.op} of {dtypes(v)}, {v.family}) {v.verdict}: {reason(v)}.{tried(v)}")


def _times(verdicts: list[Verdict]) -> Table:
    """How long verdicts took with their search, beside one plain replay of the plan that was found."""
    from rich.table import Table

    table = Table(
        title="Search time beside one plain replay", title_justify="left", box=None, pad_edge=False, header_style="bold"
    )
    table.add_column("family")
    for head in ("cases", "replay s", "search s", "median", "worst", "worst case"):
        table.add_column(head, justify="right", no_wrap=True, min_width=len(head))
    groups: dict[str, list[Verdict]] = defaultdict(list)
    for v in verdicts:
        if ratio(v) is not None:
            groups[v.family].append(v)
    timed = [v for name in sorted(groups) for v in groups[name]]
    for name in sorted(groups):
        table.add_row(name, *_time_row(groups[name]))
    table.add_section()
    table.add_row("all", *_time_row(timed), style="bold")
    return table


def ratio(v: Verdict) -> float | None:
    """How many times as long as a plain replay the search took beside it; None where one of the two is not known."""
    search, plain = v.details.get("search_seconds"), v.details.get("replay_seconds")
    return float(search) / float(plain) if search and plain else None


def _time_row(verdicts: list[Verdict]) -> list[str]:
    ratios = [(r, v.id) for v in verdicts if (r := ratio(v)) is not None]
    if not ratios:
        return ["0", *["-"] * 5]
    worst, name = max(ratios)
    return [
        str(len(ratios)),
        f"{sum(float(v.details['replay_seconds']) for v in verdicts):.2f}",
        f"{sum(float(v.details['search_seconds']) for v in verdicts):.2f}",
        f"{median(r for r, _ in ratios):.2f}x",
        f"{worst:.1f}x",
        name,
    ]


def _table(
    title: str, heads: tuple[str, ...], verdicts: list[Verdict], key: Callable[[Verdict], tuple[str, ...]]
) -> Table:
    from rich.table import Table

    groups: dict[tuple[str, ...], list[Verdict]] = defaultdict(list)
    for v in verdicts:
        groups[key(v)].append(v)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=True)
    for head in ("cases", *VERDICTS, "GMAC/s"):
        table.add_column(head, justify="right", no_wrap=True)
    for name in sorted(groups):
        table.add_row(*name, *_counts(groups[name]))
    table.add_section()
    table.add_row("all", *("" for _ in heads[1:]), *_counts(verdicts), style="bold")
    return table


def _counts(verdicts: list[Verdict]) -> list[str]:
    tally = [sum(v.verdict == name for v in verdicts) for name in VERDICTS]
    return [str(len(verdicts)), *(str(n) if n else "-" for n in tally), rate(verdicts)]


def rate(verdicts: Iterable[Verdict]) -> str:
    """Multiply-adds a second over several cases, in their last whole replays: searches for a plan do not count."""
    chosen = [v for v in verdicts if v.seconds > 0]  # an undecided case may not have been run whole
    seconds = sum(v.seconds for v in chosen)
    return f"{sum(v.multiply_adds for v in chosen) / seconds / 1e9:.2f}" if seconds > 0 else "-"


def telling(verdicts: list[Verdict], count: int) -> list[Verdict]:
    """The cases most worth a sentence.

    One that is wrong, one with a note, one reproduced by the plan that its kernel's name says, one whose plan was
    searched for, one that stays open.
    """

    def plans(v: Verdict) -> int:
        return int(v.details.get("plans_tried") or 0)

    exact = sorted((v for v in verdicts if v.verdict == "exact"), key=lambda v: v.multiply_adds)
    pools = (
        [v for v in verdicts if v.verdict == "wrong"],
        [v for v in verdicts if own_notes(v)],
        [v for v in exact if plans(v) <= 1][::-1],
        sorted((v for v in exact if plans(v) > 1), key=plans, reverse=True),
        sorted((v for v in verdicts if v.verdict == "undecided"), key=lambda v: -v.multiply_adds),
        exact[::-1],
    )
    picked: list[Verdict] = []
    for pool in pools:
        fresh = [v for v in pool if v not in picked]
        if fresh and len(picked) < count:
            picked.append(fresh[0])
    return picked


# ---- the end ------------------------------------------------------------------------------------------------------


def _conclude(verdicts: list[Verdict], expected: frozenset[str] | None, *, quiet: bool) -> int:
    wrong = [v.id for v in verdicts if v.verdict == "wrong"]
    missed = [v.id for v in verdicts if expected is not None and v.id in expected and v.verdict != "exact"]
    out = sys.stderr if quiet else sys.stdout
    if wrong:
        print(f"\n{len(wrong)} wrong: {_some(wrong)}", file=out)
    if missed:
        print(f"\n{len(missed)} expected to be exact, and not: {_some(missed)}", file=out)
    if not wrong and not missed and not quiet:
        held = (
            "" if expected is None else f", and all {sum(v.id in expected for v in verdicts)} expected to be exact are"
        )
        print(f"\nNothing is wrong{held}.", file=out)
    return WRONG if wrong or missed else OK


def _interrupted(done: _Done) -> int:
    """Says on standard error how far Ctrl-C let it come."""
    return interrupted(len(done.verdicts), done.total, done.unfinished)


def interrupted(count: int, total: int, v: Verdict | None) -> int:
    """The same of so many cases, and of the one that was not finished."""
    print(f"hawkeye: interrupted after {count} of {total} cases", file=sys.stderr)
    if v is not None:
        print(f"hawkeye: {v.id} was not finished: {reason(v)}.{tried(v)}", file=sys.stderr)
    return INTERRUPTED


def _some(names: list[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _write_expected(recorded: RecordedSet, verdicts: list[Verdict]) -> None:
    exact = sorted(v.id for v in verdicts if v.verdict == "exact")
    where = recorded.path.with_suffix(".expected")
    head = f"# Cases of {recorded.path.name} whose replay must be exact; written by hawkeye golden --write-expected.\n"
    where.write_text(head + "".join(f"{name}\n" for name in exact), encoding="utf-8")
    print(f"\n{len(exact)} cases listed in {where}.")

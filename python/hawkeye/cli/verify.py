"""``hawkeye verify``: verdicts on recorded multiplications, and an exit status that says what they come to."""

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from .._verify import Verification


def verify(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TRACE|SET.jsonl[:ID]", help="A trace's folder or a recorded set with SET.bin, or one of its cases."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a case on standard output.")] = False,
    only: Annotated[
        Optional[list[str]], typer.Option("--only", metavar="ID", help="Verify only this case; may be given often.")
    ] = None,
    sample: Annotated[
        Optional[str],
        typer.Option(
            "--sample",
            metavar="F|N",
            help="Verify only a part: a fraction of the lines (0.05), or a number of them (200; 1 is one line), which "
            "the key chooses.",
        ),
    ] = None,
    key: Annotated[
        Optional[str],
        typer.Option(
            "--key",
            metavar="TEXT",
            help="What chooses the sample; a random one where none is given. It is said again at the end.",
        ),
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Leave recorded kernel names and launches unread: search all plans.")
    ] = False,
    root: Annotated[
        Optional[str],
        typer.Option(
            "--root", metavar="HASH", help="The root of the trace as it was kept elsewhere; any change shows."
        ),
    ] = None,
    rows: Annotated[
        Optional[int],
        typer.Option(
            "--rows",
            metavar="N",
            min=1,
            help="Of larger outputs compute only N rows, and compare the stored elements in them; never the hash.",
        ),
    ] = None,
    resume: Annotated[
        Optional[Path],
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Keep verdicts in FILE as they come; where it is there, go on with those that it lacks.",
        ),
    ] = None,
    profiles: Annotated[
        Optional[Path],
        typer.Option(
            "--profiles",
            metavar="FOLDER",
            help="Profiles that hawkeye discover found, tried where the rules leave a case open; without it those of "
            "the user's cache.",
        ),
    ] = None,
    no_profiles: Annotated[bool, typer.Option("--no-profiles", help="Try no discovered profile.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads a case; 0 for one a processor.")] = 0,
) -> int:
    """Says of recorded multiplications whether their results are the ones their kernels must give.

    Each case is exact, wrong (and why), or undecided (and what is missing). Exact cases are counted; the others are
    listed with what was tried. Of a trace the chain of its lines, its root and every file that a case uses are checked
    too, and what is broken is named.

    With --sample a key chooses what is verified, the same for everybody who has it; nothing is claimed of the rest. The
    groups of a grouped product are one call, and go together. With --rows an exact case says how many elements were
    compared; one of which only the hash is recorded is undecided.

    Profiles that hawkeye discover found are tried where the rules leave a case wrong or undecided: those of its own
    signature, settings, device and library. One that gives every bit makes it exact, and is named.

    Exit status: 0 all are exact, 1 something is wrong or the trace is broken, 2 nothing is wrong and something
    undecided, 3 bad input, 130 interrupted.

    Examples:

      hawkeye verify SET.jsonl

      hawkeye verify SET.jsonl:dev-0017

      hawkeye verify run.hawk --root 0f3a…          a folder that hawkeye.record wrote

      hawkeye verify run.hawk --sample 0.05 --key "what the dice said" --resume verdicts.jsonl

      hawkeye verify run.hawk --rows 16             faster, where elements of outputs are recorded

      hawkeye verify SET.jsonl --json | jq -r 'select(.verdict == "wrong") | .reason'
    """
    from .._errors import ArgumentError
    from .._sample import sample_of
    from .._verify import Verification
    from ._cases import opened, split
    from ._replay import interrupted, progress_of
    from ._words import say

    if profiles is not None and no_profiles:
        raise ArgumentError("--profiles names a folder and --no-profiles none: leave out one.")
    path, name = split(target)
    recorded = opened(path)
    work = Verification(
        recorded,
        sample=None if sample is None else sample_of(sample),
        key=key,
        only=[*(only or []), *([name] if name else [])],
        blind=blind,
        root=root,
        threads=threads,
        rows=rows,
        resume=resume,
        profiles=not no_profiles if profiles is None else profiles,
    )
    stopped = False
    with work:
        bar_of = progress_of(f"Replaying {recorded.path.name}", sum(work.weights), len(work.indices))
        try:
            with bar_of as bar:
                bar.begin(work.known_weight, work.known_count)
                for verdict, weight in work.run(bar.within):
                    if weight:
                        bar.finish(weight)
                    if as_json:
                        bar.print(json.dumps(verdict.details, ensure_ascii=False))
        except KeyboardInterrupt:
            stopped = True
    report = work.report()
    if as_json:
        for line in report.closing():
            print(line, file=sys.stderr)
    else:
        for line in report.lines():
            say(line)
    if stopped:
        status = interrupted(len(report.verdicts), report.chosen, recorded.unfinished)
        if resume is not None:
            print(f"hawkeye: go on with: {_again(target, work, as_json=as_json)}", file=sys.stderr)
        return status
    return report.status


def _again(target: str, work: "Verification", *, as_json: bool) -> str:
    """The command that goes on where this one was interrupted."""
    words = ["hawkeye", "verify", target]
    for option, wanted in (("--json", as_json), ("--blind", work.blind)):
        words += [option] if wanted else []
    name = target.rpartition(":")[2]
    for case in [] if work.only is None else work.only:
        words += ["--only", case] if case != name else []
    for option, value in (("--sample", work.sample), ("--key", work.key), ("--root", work.root), ("--rows", work.rows)):
        words += [option, str(value)] if value is not None else []
    if work.profiles is False:
        words.append("--no-profiles")
    elif work.profiles is not True:
        words += ["--profiles", str(work.profiles)]
    words += ["--threads", str(work.threads)] if work.threads else []
    return shlex.join([*words, "--resume", str(work.resume)])

"""``hawkeye verify``: verdicts on recorded multiplications, and an exit status that says what they come to."""

from typing import Annotated, Optional

import typer

from . import _replay


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
    blind: Annotated[
        bool, typer.Option("--blind", help="Leave recorded kernel names and launches unread: search all plans.")
    ] = False,
    root: Annotated[
        Optional[str],
        typer.Option(
            "--root", metavar="HASH", help="The root of the trace as it was kept elsewhere; any change shows."
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads a case; 0 for one a processor.")] = 0,
) -> int:
    """Says of recorded multiplications whether their results are the ones their kernels must give.

    Each case is exact, wrong (and why), or undecided (and what is missing). Exact cases are counted; the others are
    listed with what was tried. Of a trace the chain of its lines, its root and every file that a case uses are checked
    too, and what is broken is named.

    Exit status: 0 all are exact, 1 something is wrong or the trace is broken, 2 nothing is wrong and something
    undecided, 3 bad input, 130 interrupted.

    Examples:

      hawkeye verify SET.jsonl

      hawkeye verify SET.jsonl:dev-0017

      hawkeye verify run.hawk --root 0f3a…          a folder that hawkeye.record wrote

      hawkeye verify SET.jsonl --json | jq -r 'select(.verdict == "wrong") | .reason'
    """
    return _replay.verify(target, as_json=as_json, only=only or [], threads=threads, blind=blind, root=root)

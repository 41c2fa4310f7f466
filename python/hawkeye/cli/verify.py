"""``hawkeye verify``: verdicts on recorded multiplications, and an exit status that says what they come to."""

from typing import Annotated, Optional

import typer

from . import _replay


def verify(
    target: Annotated[
        str,
        typer.Argument(metavar="SET.jsonl[:ID]", help="A recorded set, or one of its cases; SET.bin lies beside it."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a case on standard output.")] = False,
    only: Annotated[
        Optional[list[str]], typer.Option("--only", metavar="ID", help="Verify only this case; may be given often.")
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Leave recorded kernel names and launches unread: search all plans.")
    ] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads a case; 0 for one a processor.")] = 0,
) -> int:
    """Says of recorded multiplications whether their results are the ones their kernels must give.

    Each case is exact, wrong (and why), or undecided (and what is missing). Exact cases are counted; the others are
    listed with what was tried.

    Exit status: 0 all are exact, 1 something is wrong, 2 nothing is wrong and something undecided, 3 bad input,
    130 interrupted.

    Examples:

      hawkeye verify SET.jsonl

      hawkeye verify SET.jsonl:dev-0017

      hawkeye verify SET.jsonl --json | jq -r 'select(.verdict == "wrong") | .reason'
    """
    return _replay.verify(target, as_json=as_json, only=only or [], threads=threads, blind=blind)

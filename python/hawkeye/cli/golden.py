"""``hawkeye golden``: replays any recorded set."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from . import _replay


def golden(
    path: Annotated[Path, typer.Argument(metavar="SET.jsonl", help="The set; its SET.bin must lie beside it.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON line a case on standard output, no table.")] = False,
    only: Annotated[
        Optional[list[str]], typer.Option("--only", metavar="ID", help="Replay only this case; may be given often.")
    ] = None,
    blind: Annotated[
        bool, typer.Option("--blind", help="Leave recorded kernel names and launches unread: search all plans.")
    ] = False,
    times: Annotated[
        bool, typer.Option("--times", help="Also a table of how long searching takes beside one plain replay.")
    ] = False,
    threads: Annotated[int, typer.Option(min=0, help="Threads a case; 0 for one a processor.")] = 0,
    write_expected: Annotated[
        bool,
        typer.Option(
            "--write-expected", help="Afterwards list the exact cases in SET.expected, which later runs hold to."
        ),
    ] = False,
) -> int:
    """Replays a recorded set: whole matmuls, or results of single instructions.

    Each case is exact (every recorded bit reproduced), wrong, or undecided with the reason; those that are not exact
    are listed with what was tried. The exit status is 0 when nothing is wrong and every case listed in SET.expected
    (where that file exists; not looked at with --blind) is exact, else 1. Ctrl-C shows what was found until then.

    Examples:

      hawkeye golden tests/goldens/h200-torch2.11.jsonl

      hawkeye golden SET.jsonl --blind --times

      hawkeye golden SET.jsonl --only dev-0004 --only dev-0017

      hawkeye golden SET.jsonl --json | jq -r 'select(.verdict != "exact") | [.id, .reason] | @tsv'
    """
    return _replay.run(
        path, as_json=as_json, only=only or [], threads=threads, blind=blind, times=times, write_expected=write_expected
    )

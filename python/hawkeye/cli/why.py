"""``hawkeye why``: why the bits of two recorded cases differ."""

import json
from pathlib import Path
from typing import Annotated

import typer


def why(
    path: Annotated[Path, typer.Argument(metavar="SET.jsonl", help="The set; its SET.bin must lie beside it.")],
    a: Annotated[str, typer.Argument(metavar="A", help="The id of a case.")],
    b: Annotated[str, typer.Argument(metavar="B", help="The id of another.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")] = False,
    blind: Annotated[bool, typer.Option("--blind", help="Leave recorded kernel names and launches unread.")] = False,
    threads: Annotated[int, typer.Option(min=0, help="0 for one a processor.")] = 0,
) -> int:
    """Says why two recorded multiplications gave different bits.

    Both are replayed to find their arithmetic; what is not the same is listed: kernel, step, order, merges, epilogue,
    output. Where they share a row of A and a column of B (as a row that was multiplied alone and in a batch), one
    output element of both is followed to the partial sum where the two orders part. Where they share none, both orders
    are run on the operands of the first.

    Examples:

      hawkeye why SET.jsonl row-alone row-in-batch

      hawkeye why SET.jsonl dev-0099 dev-0140 --json | jq .differences
    """
    from .._explain import why as reasons
    from ._cases import opened
    from ._replay import progress_bar
    from ._words import say

    recorded = opened(path)
    a_index, b_index = recorded.index(a), recorded.index(b)
    with progress_bar("Replaying both") as report:
        found = reasons(recorded, a_index, b_index, blind=blind, threads=threads, progress=report)
    if as_json:
        print(json.dumps(found.details, ensure_ascii=False))
    else:
        say(found.text)
    return 0

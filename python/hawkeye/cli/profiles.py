"""``hawkeye profiles``: the catalogue as a table, or one profile in words or as JSON."""

import json
from typing import TYPE_CHECKING, Annotated, Optional

import typer

if TYPE_CHECKING:
    from .._profiles import Profile


def profiles(
    name: Annotated[
        Optional[str],
        typer.Argument(help="A profile's name, such as hopper/bf16, or a JSON file; all of them without."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Canonical JSON on standard output.")] = False,
) -> int:
    """The arithmetics Hawkeye knows: a table, or one of them in words.

    Examples:

      hawkeye profiles

      hawkeye profiles hopper/e4m3-fast

      hawkeye profiles hopper/bf16 --json > mine.json     a starting point for a profile of your own
    """
    from .._profiles import profile
    from .._profiles import profiles as catalogue

    if name is not None:
        chosen = profile(name)
        typer.echo(chosen.json() if as_json else _words(chosen))
        return 0
    if as_json:
        listed = [
            {
                "name": p.name,
                "id": p.id,
                "a": p.a,
                "b": p.b,
                "accumulator": p.accumulator,
                "out": p.out,
                "runnable": p.runnable,
                "summary": p.summary,
                "source": p.source,
                "doubts": p.doubts,
            }
            for p in catalogue()
        ]
        typer.echo(json.dumps(listed, indent=1, ensure_ascii=False))
        return 0

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # One line a profile at 80 columns too; the whole of what one says is a command away.
    rows = [
        (
            p.name + (" ?" if p.doubts else "") + (" *" if not p.runnable else ""),
            p.a if p.a == p.b else f"{p.a}, {p.b}",
            p.accumulator,
            p.out,
            p.source,
        )
        for p in catalogue()
    ]
    headings = ("name", "operands", "sums", "out", "known from")
    table = Table(pad_edge=False, box=None, header_style="bold")
    for i, heading in enumerate(headings[:-1]):
        table.add_column(heading, no_wrap=True, min_width=max(len(heading), *(len(row[i]) for row in rows)))
    table.add_column(headings[-1], no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console()
    console.print(table)
    console.print(
        "\nH200: measured there. data: agrees with results recorded on these GPUs. pub: from the literature.\n"
        "? in doubt    * data and reference model only, no kernel runs it\n"
        "hawkeye profiles NAME says what one means, how its sums are ordered and what is in doubt."
    )
    return 0


def _words(chosen: "Profile") -> str:
    return f"{chosen.name or '(unnamed)'}\nidentity {chosen.id}\n\n{chosen.describe().strip()}"

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

    table = Table(title="Profiles", title_justify="left", pad_edge=False, box=None, header_style="bold")
    table.add_column("name", no_wrap=True)
    for heading in ("A", "B", "sums", "out"):
        table.add_column(heading, no_wrap=True)
    table.add_column("known from", overflow="fold", max_width=28)
    table.add_column("what it says", overflow="fold", ratio=1)
    for p in catalogue():
        # Text: a summary may hold square brackets, which rich would take for markup.
        said = Text(p.summary)
        if not p.runnable:
            said.append(" (data and reference model only)", style="dim")
        if p.doubts:
            said.append(f" Doubted: {p.doubts}", style="yellow")
        table.add_row(Text(p.name), p.a, p.b, p.accumulator, p.out, Text(p.source), said)
    Console().print(table)
    return 0


def _words(chosen: "Profile") -> str:
    return f"{chosen.name or '(unnamed)'}\nidentity {chosen.id}\n\n{chosen.describe().strip()}"

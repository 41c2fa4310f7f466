"""``hawkeye explain``: a profile, or what was found for a recorded case, in words and as a tree."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from .._profiles import Profile


def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE|SET.jsonl:ID", help="A profile's name or JSON file, or a case of a recorded set."
        ),
    ],
    k: Annotated[int, typer.Option("--k", "-k", min=0, help="K of the multiplication; a case's own without.")] = 0,
    m: Annotated[int, typer.Option("--m", "-m", min=0, help="Its rows, if they are to be named.")] = 0,
    n: Annotated[int, typer.Option("--n", "-n", min=0, help="Its columns.")] = 0,
    tree: Annotated[bool, typer.Option("--tree", help="Draw the summation tree.")] = False,
    full: Annotated[
        bool, typer.Option("--full", help="In the tree, every accumulator, where otherwise alike ones are counted.")
    ] = False,
    dot: Annotated[
        Optional[Path],
        typer.Option("--dot", metavar="FILE", help="Write the tree for Graphviz; - for standard output."),
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="To replay a case; 0 for one a processor.")] = 0,
) -> int:
    """Says in words how an output element is summed and rounded, and draws the summation tree.

    A profile is explained as it is, or for one K. A recorded case is replayed first, to find the profile that gives its
    bits. The exit status is 2 for a case for which none is found.

    Examples:

      hawkeye explain hopper/bf16

      hawkeye explain hopper/e4m3 --k 512 --tree

      hawkeye explain SET.jsonl:dev-0008 --tree            how the sums of that case were ordered

      hawkeye explain mine.json --k 4096 --dot tree.dot    then: dot -Tsvg tree.dot -o tree.svg
    """
    from .._errors import ArgumentError
    from .._explain import explain as words
    from ._cases import names_a_case
    from ._words import say

    if target.endswith(".jsonl"):
        raise ArgumentError(f"Which case of {target} is to be explained? Name it: {target}:ID.")
    if (tree or full or dot) and not k and not names_a_case(target):
        raise ArgumentError("A tree is drawn for one K: say which with --k.")
    family, heading = "", ""
    if names_a_case(target):
        chosen, family, heading, sizes = _found(target, threads)
        if chosen is None:
            say(heading)
            return 2
        m, n, k = m or sizes[0], n or sizes[1], k or sizes[2]
    else:
        from .._profiles import profile

        chosen = profile(target)
    if str(dot) != "-":
        if heading:
            say(heading + "\n")
        say(words(chosen, m=m, n=n, k=k, family=family))
    _trees(chosen, k, tree or (full and dot is None), full, dot)
    return 0


def _found(target: str, threads: int) -> tuple["Optional[Profile]", str, str, tuple[int, int, int]]:
    """The profile found for a case, its kernel's family, the case in a sentence, and its sizes m, n, k."""
    from .._errors import ArgumentError
    from .._sentences import story
    from ._cases import opened, split
    from ._replay import progress_bar

    path, name = split(target)
    assert name is not None
    recorded = opened(path)
    index = recorded.index(name)
    case: dict[str, Any] = recorded.cases()[index]
    if "instruction" in case:
        raise ArgumentError(f"{path.name} holds results of single instructions, and explain takes multiplications.")
    with progress_bar(f"Replaying {name}") as report:
        verdict = recorded.replay(index, threads=threads, progress=report)
    family = "" if verdict.family in ("", "other", "unnamed") else verdict.family
    return verdict.profile, family, story(verdict, case), (int(case["m"]), int(case["n"]), int(case["k"]))


def _trees(chosen: "Profile", k: int, tree: bool, full: bool, dot: Optional[Path]) -> None:
    import shutil
    import sys

    from .._errors import FileError
    from .._explain import explain_tree

    if tree:
        # Cut to the terminal; whole where it goes to a file.
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        typer.echo("\n" + explain_tree(chosen, k, full=full, width=width).rstrip("\n"))
    if dot is None:
        return
    text = explain_tree(chosen, k, style="dot", full=full)
    if str(dot) == "-":
        typer.echo(text, nl=False)
        return
    try:
        dot.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{dot} cannot be written: {error.strerror or error}.") from error
    typer.echo(f"{dot}: the tree for Graphviz; dot -Tsvg {dot} draws it", err=True)

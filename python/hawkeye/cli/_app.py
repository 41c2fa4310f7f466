"""The typer application: what ``hawkeye --help`` says, and which commands there are."""

import inspect
from collections.abc import Callable

import typer

from . import bench, demo, discover, doctor, explain, gemm, golden, profiles, reveal, show, verify, why

app = typer.Typer(
    name="hawkeye",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Re-executes NVIDIA GPU matrix multiplications on a CPU, bit for bit.

    [bold]First steps[/bold]

      hawkeye demo                    replay 517 matmuls recorded on an H200

      hawkeye profiles                the arithmetics Hawkeye knows, by GPU

      hawkeye profiles hopper/bf16    what one of them says, in words

      hawkeye doctor                  whether everything is in place

    [bold]Your own data[/bold]

      hawkeye gemm A.npy B.npy --profile hopper/f16 -o D.npy

      hawkeye verify SET.jsonl              is every recorded result the one its kernel must give?

      hawkeye record -o run.hawk train.py   what a torch program multiplies, into a trace (record --help has more)

      hawkeye verify run.hawk               is each of its results the one that its kernel must give?

      hawkeye show run.hawk                 what is in it

      hawkeye reveal run.hawk -o OUT --sample 0.05 --key TEXT   what an auditor asks for of it

      hawkeye explain SET.jsonl:ID --tree   how one of them was summed, in words and as a tree

      hawkeye why SET.jsonl A B             why the bits of two of them differ

      hawkeye discover --torch --m 64 --n 4096 --k 4096 --dtype bf16   how does torch multiply here? a profile

      hawkeye golden SET.jsonl --json       a verdict a line, for any recorded set

    Exit status: 0 all is well, 1 something is wrong, 2 something is undecided (verify, explain) or not
    certified (discover), 3 bad input, 130
    interrupted.
    """,
)


def _version(wanted: bool) -> None:
    if wanted:
        from .._version import version

        typer.echo(f"hawkeye {version()}")
        raise typer.Exit()


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", help="Print the release and stop.", callback=_version, is_eager=True
    ),
) -> None:
    """Options of every command."""


def _paragraphs(text: str) -> str:
    """A docstring with each paragraph on one line, so that the terminal's width alone decides where lines break."""
    parts = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(part if part.startswith(" ") else " ".join(part.split()) for part in parts)


_commands: list[Callable[..., int]] = [
    demo.demo,
    verify.verify,
    show.show,
    reveal.reveal,
    discover.discover,
    explain.explain,
    why.why,
    golden.golden,
    gemm.gemm,
    profiles.profiles,
    doctor.doctor,
    bench.bench,
]


@app.command("record", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def record() -> int:
    """Runs a torch program and records what it multiplies: hawkeye record -o run.hawk train.py."""
    raise AssertionError("cli.main has taken it")


for command in _commands:
    app.command(command.__name__, help=_paragraphs(command.__doc__ or ""))(command)

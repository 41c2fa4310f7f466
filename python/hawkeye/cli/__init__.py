"""The command ``hawkeye``: one file a command, and the rules common to all of them.

Exit status: 0 when all is well, 1 when something is wrong, 2 when something is undecided (verify, explain), 3 for bad
input (one sentence on standard error, never a traceback), 130 when interrupted.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

BAD_INPUT = 3
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command and returns its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["record"]:  # takes a script's own options too, and leaves everything else as python has it
        from ..record.__main__ import main as record

        record(given[1:], prog="hawkeye record")
        return 0
    from ._app import app

    with warnings.catch_warnings():
        # A sentence is for whoever runs the command; where in the package it was said is not.
        warnings.showwarning = lambda message, *_, **__: print(f"hawkeye: {message}", file=sys.stderr)
        return _run(app, given)


def _run(app: Callable[..., object], given: list[str]) -> int:
    from .._errors import Cancelled, Error

    try:
        result = app(args=given, prog_name="hawkeye", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except Error as error:
        status = INTERRUPTED if isinstance(error, Cancelled) else BAD_INPUT
        print(f"hawkeye: {error}", file=sys.stderr)
        return status
    except KeyboardInterrupt:
        print("hawkeye: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output went away (head, less): not worth a word. Python would still flush at exit.
        import os

        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        # typer's own exceptions, told by what they offer: the class lives in click or in typer, by typer's version.
        if type(error).__name__ == "Abort":
            print("hawkeye: interrupted", file=sys.stderr)
            return INTERRUPTED
        if type(error).__name__ == "Exit":
            return int(getattr(error, "exit_code", 0))
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        context = getattr(error, "ctx", None)
        command = getattr(context, "command_path", "hawkeye")
        text = message().strip()
        if not text:  # no arguments at all: the help was printed
            return 0
        print(
            f"hawkeye: {text}{'' if text.endswith(('.', '!', '?')) else '.'} See '{command} --help'.", file=sys.stderr
        )
        return BAD_INPUT

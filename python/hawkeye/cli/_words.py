"""Paragraphs on standard output."""

from __future__ import annotations

import sys


def say(text: str) -> None:
    """Prints lines of any length: broken between words on a terminal, as they are where output goes to a file."""
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False).print(Text(text))
    else:
        print(text)

"""The release this package is, from the one place that says so: the file VERSION at the root of the repository."""

from __future__ import annotations

from pathlib import Path


def version() -> str:
    """VERSION's where the package lies in a checkout, else the installed distribution's."""
    checkout = Path(__file__).resolve().parents[2] / "VERSION"
    if checkout.is_file() and (checkout.parent / "include" / "hawkeye.h").is_file():
        return checkout.read_text(encoding="utf-8").strip()

    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("hawkeye")
    except PackageNotFoundError:
        return "0+unknown"

"""Where the golden set that ``demo`` replays lies: inside the wheel, or in a checkout's tests."""

from __future__ import annotations

from pathlib import Path

from .._errors import FileError

GOLDEN = "h200-torch2.11.jsonl"


def golden_set() -> Path:
    """The recorded set shipped with Hawkeye."""
    package = Path(__file__).resolve().parents[1]
    places = (package / "_goldens" / GOLDEN, package.parents[1] / "tests" / "goldens" / GOLDEN)
    for place in places:
        if place.is_file():
            return place
    raise FileError(f"The golden set {GOLDEN} is in neither {' nor '.join(str(p.parent) for p in places)}: reinstall.")

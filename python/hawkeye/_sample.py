"""Which lines of a trace, or cases of a set, are verified where a key chooses them (docs/audit.md)."""

from __future__ import annotations

import heapq
import math
import secrets
from collections.abc import Sequence
from typing import Any

from . import _errors as errors
from ._challenge import Challenge

#: a line: its rank, and its number in the rank's index
Place = tuple[int, int]


def sample_of(value: float | str) -> float | int:
    """A sample as it was asked for: a float is a fraction of the lines, an int a number of lines.

    Text is a fraction where it has a "." or is below 1. Raises ArgumentError for anything but a fraction up to 1 and a
    count from 1.
    """
    number: float | int
    if isinstance(value, str):
        try:
            number = float(value)
            if number >= 1 and "." not in value:
                number = int(value)
        except ValueError:
            raise _refused(value) from None
    else:
        number = value
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise _refused(value)
    if isinstance(number, float) and not (math.isfinite(number) and 0 < number <= 1):
        raise _refused(value)
    if isinstance(number, int) and number < 1:
        raise _refused(value)
    return number


def _refused(value: object) -> errors.ArgumentError:
    return errors.ArgumentError(
        f"sample is {value}: it is a fraction of the lines, such as 0.05, or a number of lines, such as 200."
    )


def key_of(key: str | None) -> str:
    """The key, checked; a fresh random one for None."""
    if key is None:
        return secrets.token_hex(16)
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        raise errors.ArgumentError("The key is no text in UTF-8.") from None
    if not key.strip():
        raise errors.ArgumentError("The key is empty: anybody knows it.")
    return key


def place_of(case: dict[str, Any], index: int, *, trace: bool) -> Place:
    """The place of a line in its trace, as its reader counts; a case of a set is a line of rank 0."""
    if not trace:
        return 0, index
    rank, _, number = str(case["id"])[1:].partition("-")
    return int(rank), int(number)


def chosen(places: Sequence[Place], sample: float | int, key: str) -> list[int]:
    """The indices of the lines that a key chooses, ascending.

    A fraction takes the lines whose number is below that part of 2^64; a count those with the smallest numbers.
    """
    if isinstance(sample, float):
        challenge = Challenge(key, sample)
        return [index for index, place in enumerate(places) if challenge.chosen(*place)]
    challenge = Challenge(key, 1.0)
    return sorted(heapq.nsmallest(sample, range(len(places)), key=lambda i: (challenge.number(*places[i]), i)))

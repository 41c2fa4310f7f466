"""Which lines of a trace, or cases of a set, are verified where a key chooses them (docs/audit.md)."""

from __future__ import annotations

import heapq
import math
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, Union

from . import _errors as errors
from ._challenge import Challenge

#: a call: its rank, step and number in the step. None: the line does not say, so it is no record
Call = Union["tuple[int, int, int]", None]


def sample_of(value: float | str) -> float | int:
    """A sample as it was asked for: a float is a fraction of the calls, an int a number of calls.

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
        f"sample is {value}: it is a fraction of the calls, such as 0.05, or a number of calls, such as 200."
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


def call_of(case: dict[str, Any], index: int, *, trace: bool) -> Call:
    """The call that a line belongs to; a case of a set is a call of its own."""
    if not trace:
        return 0, 0, index
    step, call = case.get("step"), case.get("call")
    if type(step) is not int or type(call) is not int:
        return None
    return int(str(case["id"])[1:].partition("-")[0]), step, call


def chosen(calls: Sequence[Call], sample: float | int, key: str) -> list[int]:
    """The indices of the lines that a key chooses, ascending. Lines of one call go together.

    A fraction takes the calls whose number is below that part of 2^64; a count those with the smallest numbers. A line
    that names no call cannot be left out by a key and is always among them: it is broken, and its verdict says so.
    """
    if isinstance(sample, float):
        challenge = Challenge(key, sample)
        taken = {call: challenge.chosen(*call) for call in _distinct(calls)}
    else:
        challenge = Challenge(key, 1.0)
        least = heapq.nsmallest(sample, _distinct(calls), key=lambda call: (challenge.number(*call), call))
        taken = dict.fromkeys(least, True)
    return [index for index, call in enumerate(calls) if call is None or taken.get(call, False)]


def _distinct(calls: Iterable[Call]) -> Iterable[tuple[int, int, int]]:
    return dict.fromkeys(call for call in calls if call is not None)

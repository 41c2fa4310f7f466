"""Which multiplications are chosen, by a key: everybody who has the key chooses the same ones.

The recorder samples steps and calls by it, and an auditor lines of a trace. It needs neither torch nor the library.
"""

from __future__ import annotations

import hmac

#: numbers are below it
WHOLE = 1 << 64


def number(key: str, message: str) -> int:
    """The first 8 bytes, big endian, of HMAC-SHA256 with the key's UTF-8 and the message."""
    return int.from_bytes(hmac.digest(key.encode("utf-8"), message.encode("ascii"), "sha256")[:8], "big")


def below(fraction: float) -> int:
    """The bound under which numbers are chosen. Exact: a scaling by a power of two, then a cut below one unit."""
    return int(fraction * 2.0**64)


class Challenge:
    """An auditor's choice among the lines of a trace: the part ``fraction`` of them, by a key of the auditor's own.

    A line is chosen where its number for ``challenge:RANK:LINE`` is below fraction·2^64, LINE being its place in the
    rank's index, from 0 (docs/audit.md). Nothing that a line says of itself decides, and each is drawn for itself.
    """

    def __init__(self, key: str, fraction: float) -> None:
        self.key, self.fraction = key, fraction
        self._below = below(fraction)

    def number(self, rank: int, line: int) -> int:
        """What the choice is made by, below 2^64."""
        return number(self.key, f"challenge:{rank}:{line}")

    def chosen(self, rank: int, line: int) -> bool:
        """Whether the line is chosen."""
        return self._below >= WHOLE or self.number(rank, line) < self._below

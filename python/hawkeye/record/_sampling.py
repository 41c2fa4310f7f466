"""Which steps and which calls are recorded: a keyed hash, so that who checks can compute the same choice."""

from __future__ import annotations

from .._challenge import WHOLE, below, number


class Sampling:
    """One step in ``every``, and of its calls the part ``fraction``.

    The number drawn for a step is the first 8 bytes, big endian, of HMAC-SHA256 with the seed's decimal or text as key
    and ``step:RANK:STEP`` as message; the step is sampled where it divides by ``every``. A call's message is
    ``call:RANK:STEP:CALL``, and it is recorded where its number is below fraction·2^64.
    """

    def __init__(self, every: int, fraction: float, seed: int | str, rank: int) -> None:
        self.every, self.rank = every, rank
        self._key = str(seed)
        self._below = below(fraction)

    def step(self, step: int) -> bool:
        """Whether the step is sampled."""
        return self.every == 1 or number(self._key, f"step:{self.rank}:{step}") % self.every == 0

    def call(self, step: int, call: int) -> bool:
        """Whether a call of a sampled step is recorded."""
        return self._below >= WHOLE or number(self._key, f"call:{self.rank}:{step}:{call}") < self._below


def sample_indices(count: int, want: int = 512) -> list[int]:
    """The flat indices of the output elements that are kept: all up to 8,192, else drawn ones (docs/cases.md)."""
    if count <= 8192:
        return list(range(count))
    mask = (1 << 64) - 1
    chosen = set()
    for i in range(want):
        z = (12345 + (i + 1) * 0x9E3779B97F4A7C15) & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        chosen.add((z ^ z >> 31) % count)
    return sorted(chosen)

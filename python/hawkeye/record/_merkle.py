"""The Merkle root of a list of hashes that only grows (docs/trace.md)."""

from __future__ import annotations

from hashlib import sha256


class Merkle:
    """Keeps the roots of the full subtrees alone, one a bit of the count: the memory of a run does not grow with it.

    leaf = sha256(0x00 ‖ hash), node = sha256(0x01 ‖ left ‖ right); an odd node is carried up unchanged, and nothing at
    all has the root sha256("").
    """

    def __init__(self) -> None:
        self.count = 0
        self._peaks: list[bytes] = []  # of the full subtrees, the largest first

    def add(self, digest: bytes) -> None:
        """Append the 32 bytes of a hash."""
        node = sha256(b"\x00" + digest).digest()
        count = self.count
        while count & 1:  # a full subtree of the same size stands at the end
            node = sha256(b"\x01" + self._peaks.pop() + node).digest()
            count >>= 1
        self._peaks.append(node)
        self.count += 1

    def root(self) -> bytes:
        """Of what was added until now."""
        if not self._peaks:
            return sha256(b"").digest()
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = sha256(b"\x01" + peak + node).digest()
        return node

"""Answering an auditor: the program runs again, and the tensors that a key chooses are added to its published trace.

Its lines must come out again byte for byte (docs/audit.md).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from .._errors import FileError
from ._trace import MANIFEST, NO_HASH, TRACE_VERSION, TensorFile, index_file, line_text, store, sync, tensor_path


class DivergedError(Exception):
    """The program did not do again what the trace says."""


def settings_of(folder: Path) -> dict[str, Any]:
    """How a sealed trace was recorded, to record it again. Raises FileError where it is none."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        settings: dict[str, Any] = manifest["settings"]
        sealed = bool(manifest["sealed"]) and manifest["trace_version"].split(".")[0] == TRACE_VERSION.split(".")[0]
    except (OSError, ValueError, TypeError, KeyError) as error:
        why = "it is not there" if isinstance(error, FileNotFoundError) else str(error)
        raise FileError(f"{folder} is no trace that can be answered for: {why}.") from error
    if not sealed:
        raise FileError(f"{folder} is not sealed: only a trace whose root was published can be answered for.")
    return settings


class TraceFiller:
    """Takes the place of a writer: compares lines with those of the index, and stores tensors."""

    def __init__(self, folder: Path, *, rank: int) -> None:
        self.folder, self.rank = folder, rank
        self.file = index_file(rank)
        #: bytes of the tensor files written
        self.bytes = 0
        self.lines = 0
        self.last = NO_HASH
        self._written: set[str] = set()
        try:
            self._index = (folder / self.file).open("rb")
        except OSError as error:
            raise FileError(f"{folder / self.file} cannot be read: {error.strerror}.") from error

    def is_new(self, file: TensorFile) -> bool:
        """Whether a file is not in the trace yet."""
        return file.name not in self._written and not tensor_path(self.folder, file.name).exists()

    def store(self, file: TensorFile) -> None:
        """Write a tensor file, unless it is there. Its name is its hash, so it may come before its line is compared."""
        if self.is_new(file):
            store(self.folder, self.rank, file)
            self.bytes += file.size
        self._written.add(file.name)

    def line(self, record: Mapping[str, Any]) -> bytes:
        """What stands in the index for a record."""
        return line_text(record, self.lines, self.last)

    def append(self, record: Mapping[str, Any]) -> None:
        """Compare the record's line with the next of the index. Raises DivergedError where they differ."""
        text, kept = self.line(record), self._index.readline()
        if text != kept:
            raise DivergedError(f"{self.file}, line {self.lines + 1}: {_difference(text, kept)}")
        self.last = sha256(text[:-1]).hexdigest()
        self.lines += 1

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Nothing: the manifest was published."""

    def seal(self, coverage: Mapping[str, Any], about: Mapping[str, Any]) -> str:
        """Bring the tensors to the disk; the trace's root, which is as it was."""
        if self._index.readline():
            raise DivergedError(f"{self.file}: the program ended after {self.lines} lines, and there are more")
        for name in self._written:
            sync(tensor_path(self.folder, name))
        self.close()
        manifest = json.loads((self.folder / MANIFEST).read_text(encoding="utf-8"))
        for entry in manifest["ranks"]:
            if entry["rank"] == self.rank and entry["last"] != self.last:
                raise DivergedError(f"{MANIFEST}: the last line of {self.file} has another hash")
        return str(manifest["root"])

    def close(self) -> None:
        """End the use of the index."""
        self._index.close()


def _difference(text: bytes, kept: bytes) -> str:
    """Which fields of two lines differ."""
    if not kept:
        return "the trace ends before it"
    try:
        now, then = json.loads(text), json.loads(kept)
        fields = sorted(n for n in now.keys() | then.keys() if now.get(n) != then.get(n))
    except ValueError:
        fields = []
    return f"{', '.join(fields) or 'the text'} came out differently than in the trace"

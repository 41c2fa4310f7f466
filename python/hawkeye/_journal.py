"""Verdicts that are written down as they come, so that a verification which was interrupted can go on.

The file is JSONL: a first line that says what is verified and how, then a line a verdict. It is private to whoever
verifies: what it says is believed.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
from pathlib import Path
from typing import Any

from . import _errors as errors
from ._sets import RecordedSet, Verdict

#: fields of the first line, and how a sentence calls them
_FIELDS = {
    "version": "the library's version",
    "root": "the root of the trace",
    "manifest": "the sha256 of manifest.json",
    "set": "the sha256 of the set's file",
    "stored": "the sha256 of the set's stored elements",
    "blind": "blind",
    "rows": "rows",
    "profiles": "the sha256 of the discovered profiles' names",
}


def header(
    recorded: RecordedSet, *, version: str, blind: bool, rows: int | None, profiles: list[str]
) -> dict[str, Any]:
    """What verdicts depend on: the set or trace, the options that change them, discovered profiles."""
    of: dict[str, Any] = {"hawkeye": "verify", "version": version}
    if recorded.trace is not None:
        of |= {"root": recorded.trace["root"], "manifest": _sha256(recorded.path / "manifest.json")}
    else:
        of |= {"set": _sha256(recorded.path), "stored": _sha256(recorded.path.with_suffix(".bin"))}
    named = hashlib.sha256("\n".join(profiles).encode("ascii")).hexdigest() if profiles else None
    return of | {"blind": blind, "rows": rows, "profiles": named}


def _sha256(path: Path) -> str | None:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while part := file.read(1 << 20):
                digest.update(part)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise errors.FileError(f"{path} cannot be read: {error}.") from error
    return digest.hexdigest()


class Journal:
    """The file of one verification, made where it is not there. ``known`` are its verdicts, by the line's index.

    Raises ArgumentError where it is of another verification, or no such file. ``key`` is the key of the sample that it
    was begun with.
    """

    def __init__(self, path: Path, of: dict[str, Any], *, count: int, key: str | None = None) -> None:
        self.path = path
        self.known: dict[int, Verdict] = {}
        try:
            self._file = path.open("a+b")
        except OSError as error:
            raise errors.FileError(f"{path}, in which verdicts are to be kept, cannot be opened: {error}.") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._read(of, count)
        except BlockingIOError:
            self.close()
            raise errors.ArgumentError(f"{path} is in use by another verification.") from None
        except BaseException:
            self.close()
            raise
        self._of, self._begun = of, bool(self._file.tell())
        self.key = self._key if self._begun else key

    def _read(self, of: dict[str, Any], count: int) -> None:
        self._key: str | None = None
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                if number == 1 and not line.startswith(b'{"hawkeye": "verify"'[: len(line)]):
                    raise self._no_journal(1)
                break  # it was not written to its end
            try:
                entry = json.loads(line)
                if number == 1:
                    self._compare(entry, of)
                    self._key = entry.get("key")
                else:
                    verdict = Verdict.from_json(json.dumps(entry["verdict"]))
                    index = entry["index"]
                    if type(index) is not int or not 0 <= index < count:
                        raise ValueError
                    self.known[index] = verdict
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
                if isinstance(error, errors.ArgumentError):
                    raise
                raise self._no_journal(number) from None
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(0, 2)

    def _no_journal(self, line: int) -> errors.ArgumentError:
        return errors.ArgumentError(
            f"{self.path}, line {line}, was not written by a verification: name another file for --resume."
        )

    def _compare(self, entry: dict[str, Any], of: dict[str, Any]) -> None:
        if entry.get("hawkeye") != "verify":
            raise ValueError
        for name, words in _FIELDS.items():
            had, have = entry.get(name), of.get(name)
            if had != have:
                raise errors.ArgumentError(
                    f"{self.path} holds verdicts of another verification: {words} was {_said(had)} and is "
                    f"{_said(have)}. Name another file for --resume, or remove this one to begin anew."
                )

    def begin(self, sample: float | None, key: str | None) -> None:
        """Writes the first line, where there is none."""
        if not self._begun:
            self._begun = True
            self._write(self._of | ({} if sample is None else {"sample": sample, "key": key}))

    def add(self, index: int, verdict: Verdict) -> None:
        """Writes a verdict. One on what is broken is not kept: next time the file may be there."""
        if not verdict.details.get("broken"):
            self._write({"index": index, "verdict": verdict.details})

    def _write(self, entry: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(entry).encode("ascii") + b"\n")
            self._file.flush()
        except OSError as error:
            raise errors.FileError(f"{self.path} cannot be written: {error}.") from error

    def close(self) -> None:
        """Ends the use of the file."""
        self._file.close()


def _said(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)

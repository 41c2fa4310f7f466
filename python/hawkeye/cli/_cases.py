"""How a command names a recorded case: SET.jsonl:ID, or TRACE:ID."""

from __future__ import annotations

from pathlib import Path

from .._errors import FileError
from .._sets import RecordedSet, open_set


def opened(path: Path) -> RecordedSet:
    """The set at ``path``, or one sentence that says why there is none."""
    if path.is_dir():
        if not (path / "manifest.json").exists():
            raise FileError(f"{path} is a folder and no trace: name a trace, or a set, FILE.jsonl.")
        return open_set(path)
    if (
        path.is_file()
        and (path.parent / "manifest.json").exists()
        and (path.name == "manifest.json" or path.name.startswith("rank-"))
    ):
        raise FileError(f"{path} is a part of a trace: name the folder, {path.parent}.")
    if not path.is_file():
        whole, name = split(str(path))
        apart = f" {whole} is a set: name its case {name} apart." if name and whole.exists() else ""
        raise FileError(f"There is no file or trace {path}.{apart}")
    return open_set(path)


def split(target: str) -> tuple[Path, str | None]:
    """The set and the case that "SET.jsonl:ID" names; no case for "SET.jsonl". A file of that very name comes first."""
    path, colon, name = target.rpartition(":")
    if colon and name and not Path(target).exists():
        return Path(path), name
    return Path(target), None


def names_a_case(target: str) -> bool:
    """Whether "SET.jsonl:ID" is meant, rather than a profile."""
    path, name = split(target)
    return name is not None and (path.suffix == ".jsonl" or path.is_dir())

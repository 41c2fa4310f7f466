"""Writing a trace folder: the chained index, tensor files named by their hash, the manifest (docs/trace.md).

Knows nothing of torch. Whatever moment the process dies at, every finished line of the index is whole, chains to the
ones before it, and its tensor files are there: files get their name only when complete, and before the line that names
them is written, in one write.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import FileError
from . import _safetensors
from ._merkle import Merkle

TRACE_VERSION = "1.0"
NO_HASH = "0" * 64
MANIFEST = "manifest.json"
# Members of the manifest that say how the trace is sealed; the root stands for all others.
_SEALING = ("facts", "ranks", "root", "sealed")


class TensorFile(NamedTuple):
    """One tensor file that may have to be written."""

    name: str
    header: bytes
    data: memoryview

    @property
    def size(self) -> int:
        return len(self.header) + self.data.nbytes


def tensor_file(dtype: str, shape: Sequence[int], data: memoryview) -> TensorFile:
    """A dense row-major tensor as a file, hashed. dtype is torch's name."""
    header = _safetensors.header(dtype, shape, data.nbytes)
    digest = sha256(header)
    digest.update(data)
    return TensorFile(digest.hexdigest(), header, data)


def merkle_root(hashes: Sequence[str]) -> str:
    """Of hashes in hexadecimal."""
    tree = Merkle()
    for h in hashes:
        tree.add(bytes.fromhex(h))
    return tree.root().hex()


def facts_hash(manifest: Mapping[str, Any]) -> str:
    """The hash of everything that a manifest says but how it is sealed: its JSON without white space."""
    facts = {name: value for name, value in manifest.items() if name not in _SEALING}
    return sha256(json.dumps(facts, separators=(",", ":")).encode("ascii")).hexdigest()


def index_file(rank: int) -> str:
    """The name of a rank's index."""
    return f"rank-{rank:04d}.jsonl"


class TraceWriter:
    """The trace of one process. Every rank of a run opens the same folder and writes an index of its own."""

    def __init__(self, folder: Path, *, rank: int, world: int, about: Mapping[str, Any], begun: bool = False) -> None:
        self.folder, self.rank, self.world = folder, rank, world
        self.file = index_file(rank)
        #: bytes of the tensor files and lines written
        self.bytes = 0
        self.last = NO_HASH
        self._about = dict(about)
        self._merkle = Merkle()
        self._known: set[str] = set()
        self._written: list[str] = []  # fsynced when the trace is sealed
        if begun:  # by another object, which has written nothing
            self._index = os.open(folder / self.file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            return
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if world == 1 and any(folder.iterdir()):  # of several ranks others may be here already
                raise FileExistsError
            folder.chmod(0o700)
            (folder / "tensors").mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            self._index = os.open(folder / self.file, flags, 0o600)
            self._update_manifest(None, {}, {})
        except FileExistsError as error:
            raise FileError(
                f"{folder} holds something already, or is in use: record into a folder that is empty or not there yet."
            ) from error
        except (OSError, ValueError) as error:  # ValueError: of a name that no file can have
            raise FileError(f"{folder} cannot be written: {getattr(error, 'strerror', None) or error}.") from error

    @property
    def lines(self) -> int:
        return self._merkle.count

    def root(self) -> str:
        """The Merkle root of this rank's lines."""
        return self._merkle.root().hex()

    def is_new(self, file: TensorFile) -> bool:
        """Whether a file is not in the trace yet."""
        return file.name not in self._known and not tensor_path(self.folder, file.name).exists()

    def store(self, file: TensorFile) -> None:
        """Write a tensor file, unless it is there."""
        if self.is_new(file):
            store(self.folder, self.rank, file)
            self._written.append(file.name)
            self.bytes += file.size
        self._known.add(file.name)

    def line(self, record: Mapping[str, Any]) -> bytes:
        """What append will write for a record, with its newline."""
        return line_text(record, self._merkle.count, self.last)

    def append(self, record: Mapping[str, Any]) -> None:
        """Write the record's line. Its tensor files must be stored."""
        text = self.line(record)
        _write_all(self._index, text)
        digest = sha256(text[:-1])
        self.last = digest.hexdigest()
        self._merkle.add(digest.digest())
        self.bytes += len(text)

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Say in the manifest what was not known when the trace began."""
        self._update_manifest(None, {}, facts)

    def seal(self, coverage: Mapping[str, Any], about: Mapping[str, Any]) -> str:
        """Bring everything to the disk and say in the manifest that this rank is complete; the trace's root."""
        folders = {self.folder, self.folder / "tensors"}
        for name in self._written:
            path = tensor_path(self.folder, name)
            sync(path)
            folders.add(path.parent)
        os.fsync(self._index)
        for folder in folders:
            sync(folder)
        entry = {"rank": self.rank, "file": self.file, "lines": self.lines, "last": self.last, "root": self.root()}
        root = self._update_manifest(entry, coverage, about)
        self.close()
        return root

    def close(self) -> None:
        """Without sealing: the trace stays as a crash would leave it."""
        if self._index >= 0:
            os.close(self._index)
            self._index = -1

    def _update_manifest(
        self, entry: dict[str, Any] | None, coverage: Mapping[str, Any], about: Mapping[str, Any]
    ) -> str:
        """Ranks share the manifest: each adds its entry under a lock, and the last one seals it."""
        path = self.folder / MANIFEST
        with _locked(self.folder):
            try:
                manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                created = datetime.now(timezone.utc).isoformat(timespec="seconds")
                manifest = {"trace_version": TRACE_VERSION, "created": created, **self._about, "ranks": []}
            manifest.update(about)
            if entry is not None:
                manifest["ranks"] = sorted([*manifest["ranks"], entry], key=lambda e: e["rank"])
                manifest["coverage"] = added(manifest.get("coverage"), coverage)
            ranks = manifest.pop("ranks")
            manifest["facts"] = facts_hash(manifest)
            manifest["root"] = merkle_root([manifest["facts"], *(e["root"] for e in ranks)])
            manifest["sealed"] = len(ranks) == self.world
            manifest["ranks"] = ranks
            temporary = self.folder / f".{MANIFEST}-{self.rank:04d}"
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                _write_all(descriptor, json.dumps(manifest, indent=1).encode("ascii") + b"\n")
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            temporary.rename(path)
            sync(self.folder)
        return str(manifest["root"])


def added(a: Mapping[str, Any] | None, b: Mapping[str, Any]) -> dict[str, Any]:
    """The coverage of several ranks: numbers added, nested objects likewise; what one does not know, all do not."""
    total: dict[str, Any] = dict(a or {})
    for name, value in b.items():
        before = total.get(name)
        if isinstance(value, Mapping):
            total[name] = added(before, value)
        elif isinstance(value, int):
            total[name] = before if isinstance(before, str) else (before or 0) + value
        else:
            total[name] = value
    return total


def tensor_path(folder: Path, name: str) -> Path:
    """Where a tensor of that hash lies."""
    return folder / "tensors" / name[:2] / f"{name}.safetensors"


def store(folder: Path, rank: int, file: TensorFile) -> None:
    """Write a tensor file. It has its name only when it is complete."""
    path = tensor_path(folder, file.name)
    temporary = folder / "tensors" / f".writing-{rank:04d}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        _write_all(descriptor, file.header)
        _write_all(descriptor, file.data)
    finally:
        os.close(descriptor)
    try:
        temporary.rename(path)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        temporary.rename(path)


def line_text(record: Mapping[str, Any], seq: int, prev: str) -> bytes:
    """A record's line of an index, with its newline."""
    chained = {**record, "seq": seq, "prev": prev}
    return json.dumps(chained, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def sync(path: Path) -> None:
    """Bring a file or a folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)  # which releases the lock

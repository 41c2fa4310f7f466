"""``hawkeye reveal``: the part of a trace that an auditor's key asks for."""

import hashlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

if TYPE_CHECKING:
    from .._sets import RecordedSet


def reveal(
    path: Annotated[Path, typer.Argument(metavar="TRACE", help="The folder, such as run.hawk.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="OUT", help="The new trace: a folder that is empty or not there.")
    ],
    sample: Annotated[str, typer.Option("--sample", metavar="F|N", help="As the auditor says it: 0.05, or 200.")],
    key: Annotated[str, typer.Option("--key", metavar="TEXT", help="As the auditor says it.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Also of a trace that is broken or not sealed; files that are broken stay out."),
    ] = False,
) -> int:
    """Writes what an auditor asks for: all lines of a trace, and the tensors only of those that the key chooses.

    The auditor gets the root first, and names sample and key after that: so it is settled what was computed before
    anybody knows what will be looked at. The manifest and all lines stay as they are, with their root; every tensor
    file that a chosen line needs is checked, and linked where the file system allows, else copied: a link is the same
    file. Operands that are in no chosen line stay here. All lines are shown: hashes (which tell whoever can guess a
    tensor), shapes, places in the model, and the elements of results that were recorded with outputs="samples".

    The auditor then runs: hawkeye verify OUT --root ROOT --sample F --key TEXT. A chosen line whose files are missing
    is broken there, and the others are not looked at.

    Exit status: 0 it is written, 1 with --force something of it was broken, 3 bad input.

    Example:

      hawkeye reveal run.hawk -o answer.hawk --sample 0.05 --key "what the dice said"
    """
    from .._errors import ArgumentError
    from .._sample import chosen, key_of, place_of, sample_of
    from .._sentences import problems, remarks
    from ._cases import opened
    from ._words import say

    much, key = sample_of(sample), key_of(key)
    recorded = opened(path)
    trace = recorded.trace
    if trace is None:
        raise ArgumentError(f"{path.name} is no trace, which is a folder: there is nothing to choose from.")
    wrong = problems(recorded)
    if not force and (wrong or not trace["sealed"]):
        what = wrong[0].rstrip(".") if wrong else "it is not sealed, so its root may still change"
        raise ArgumentError(f"{path.name}: {what}. An auditor would refuse it; --force reveals it all the same.")
    indices = chosen([place_of(case, i, trace=True) for i, case in enumerate(recorded._each())], much, key)
    needed = _needed(recorded, indices)
    _make(output)
    done = _Done()
    for name in needed:
        _add(path, output, name, done, force=force)
    for index in trace["ranks"]:
        _copy(path / index["file"], output / index["file"])
    _copy(path / "manifest.json", output / "manifest.json")  # the last: until then it is no trace
    if (found := opened(output).trace) is None or found["root"] != trace["root"]:
        raise ArgumentError(f"{path.name} changed while it was read: remove {output} and begin anew.")
    files, size = _all(path / "tensors")
    say(
        f"{output}: the tensors of {len(indices)} of {len(recorded)} lines, in {done.files} of {files} files, "
        f"{_size(done.size)} of {_size(size)}" + (f"; {done.linked} are links." if done.linked else ".")
    )
    say(f"Root {trace['root']}, as before.")
    for line in [*wrong, *done.broken, *remarks(recorded)]:
        say(line)
    command = ["hawkeye", "verify", str(output), "--root", trace["root"], "--sample", sample, "--key", key]
    say(f"To verify it: {shlex.join(command)}")
    return 1 if wrong or done.broken else 0


@dataclass
class _Done:
    """What was put into the new trace."""

    files: int = 0
    linked: int = 0
    size: int = 0
    broken: list[str] = field(default_factory=list)


def _needed(recorded: "RecordedSet", indices: list[int]) -> list[str]:
    """The names of the files that lines need, each once."""
    wanted = set(indices)
    names: dict[str, None] = {}
    for index, case in enumerate(recorded._each()):
        if index in wanted:
            names.update(dict.fromkeys(_files(case)))
    return list(names)


def _files(case: dict[str, Any]) -> Iterator[str]:
    for part in ("a", "b", "c", "scale_a", "scale_b", "out"):
        tensor = case.get(part)
        name = tensor.get("file") if isinstance(tensor, dict) else None
        if isinstance(name, str) and re.fullmatch("[0-9a-f]{64}", name):
            yield name


def _make(output: Path) -> None:
    from .._errors import FileError

    try:
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(output.iterdir()):
            raise FileError(f"{output} is not empty: name a folder that is empty or not there.")
        output.chmod(0o700)
        (output / "tensors").mkdir(mode=0o700)
    except FileExistsError:
        raise FileError(f"{output} is a file: name a folder that is empty or not there.") from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{output} cannot be made: {error.strerror or error}.") from error


def _add(path: Path, output: Path, name: str, done: _Done, *, force: bool) -> None:
    """Puts a tensor file into the new trace, checked."""
    from .._errors import ArgumentError, FileError

    inside = Path("tensors", name[:2], f"{name}.safetensors")
    try:
        with _plain(path / inside) as source:
            private = not os.fstat(source.fileno()).st_mode & 0o077
            if (found := _sha256(source)) != name:
                raise ArgumentError(f"its bytes have the hash {found}")
            (output / inside).parent.mkdir(mode=0o700, exist_ok=True)
            linked = private and _link(path / inside, output / inside, source)
            if not linked:
                source.seek(0)
                _write(source, output / inside)
            done.files, done.linked = done.files + 1, done.linked + linked
            done.size += os.fstat(source.fileno()).st_size
    except (ArgumentError, OSError) as error:
        said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if not force:
            raise FileError(f"{path / inside} is broken: {said}. Remove {output}; --force leaves it out.") from error
        done.broken.append(f"Broken: {inside}: {said}.")


def _plain(path: Path) -> BinaryIO:
    """A plain file, opened to be read; no link is followed."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "it is no plain file")
    return os.fdopen(handle, "rb")


def _link(path: Path, new: Path, source: BinaryIO) -> bool:
    """Links the file that was opened, where the file system allows."""
    try:
        os.link(path, new, follow_symlinks=False)
    except OSError:
        return False
    if os.path.samestat(new.lstat(), os.fstat(source.fileno())):
        return True
    new.unlink()  # another file has come in its place since
    return False


def _copy(path: Path, new: Path) -> None:
    from .._errors import FileError

    try:
        with _plain(path) as source:
            _write(source, new)
    except OSError as error:
        raise FileError(f"{path} cannot be copied to {new}: {error.strerror or error}.") from error


def _write(source: BinaryIO, new: Path) -> None:
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "wb") as target:
        while part := source.read(1 << 20):
            target.write(part)


def _sha256(source: BinaryIO) -> str:
    digest = hashlib.sha256()
    while part := source.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def _all(folder: Path) -> tuple[int, int]:
    """How many files a trace has, and their bytes."""
    sizes = [file.lstat().st_size for file in folder.glob("*/*.safetensors")]
    return len(sizes), sum(sizes)


def _size(count: int) -> str:
    for power, unit in ((4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.1f} {unit}"
    return f"{count} bytes"

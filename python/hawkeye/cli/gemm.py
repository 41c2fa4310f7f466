"""``hawkeye gemm``: one multiplication from .npy files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from .._formats import Format


def gemm(
    a: Annotated[Path, typer.Argument(metavar="A.npy", help="A, of shape (..., m, k).")],
    b: Annotated[Path, typer.Argument(metavar="B.npy", help="B, of shape (..., k, n).")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="D.npy", help="Where to write A @ B.")],
    profile: Annotated[
        Optional[str],
        typer.Option(
            "--profile",
            "-p",
            help="A name (see hawkeye profiles) or a JSON file; without one Hopper's for the operands' format.",
        ),
    ] = None,
    out_dtype: Annotated[
        Optional[str], typer.Option(help="The result's format, such as f32; the profile's without.")
    ] = None,
    dtype: Annotated[
        Optional[str], typer.Option(help="What raw or unsigned elements of both files are: bf16, e4m3, e5m2, ...")
    ] = None,
    dtype_a: Annotated[Optional[str], typer.Option(help="The same for A alone.")] = None,
    dtype_b: Annotated[Optional[str], typer.Option(help="The same for B alone.")] = None,
    threads: Annotated[int, typer.Option(min=0, help="0 for one a processor.")] = 0,
) -> int:
    """Multiplies two .npy files as a GPU does, bit for bit.

    The .npy format has no bf16 or f8: numpy.save writes such arrays as raw bytes. Say what they are with --dtype; files
    of uint8 or uint16 bit patterns are read in the same way.

    Examples:

      hawkeye gemm A.npy B.npy --profile hopper/f16 -o D.npy

      hawkeye gemm A.npy B.npy --dtype bf16 --profile hopper/bf16 --out-dtype f32 -o D.npy

      hawkeye gemm A.npy B.npy --dtype-a e4m3 --dtype-b e5m2 -o D.npy
    """
    from .._errors import ArgumentError
    from .._formats import BY_NUMPY, parse
    from .._matmul import matmul
    from .._profiles import default

    if output.exists() and any(operand.exists() and output.samefile(operand) for operand in (a, b)):
        raise ArgumentError(f"{output} is an operand: write the result to a file of its own.")
    x = _load(a, "A", "--dtype-a", dtype_a or dtype)
    y = _load(b, "B", "--dtype-b", dtype_b or dtype)
    fmt = None if out_dtype is None else parse(out_dtype)
    with _bar(x, y) as report:
        d = matmul(x, y, profile=profile, out_dtype=fmt, threads=threads, progress=report)
    used = profile or default(BY_NUMPY[x.dtype.name], BY_NUMPY[y.dtype.name]).name
    _save(output, d, used)
    return 0


def _load(path: Path, name: str, option: str, dtype: Optional[str]) -> Any:
    import numpy as np

    from .._errors import FileError, FormatError
    from .._formats import BY_NUMPY, parse
    from .._tensors._numpy import dtype_of

    if not path.is_file():
        raise FileError(f"There is no file {path}.")
    try:
        # Mapped, so that a large file is not held twice; never unpickled, for a file may come from anywhere.
        array = _bytes(path)
        if array is None:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, SyntaxError) as error:
        raise FileError(f"{path} cannot be read as a .npy file: {str(error).rstrip('.')}.") from error
    if not isinstance(array, np.ndarray):
        raise FileError(f"{path} holds several arrays (.npz): save the one to multiply with numpy.save.")
    raw = array.dtype.kind == "V" or array.dtype in (np.uint8, np.uint16, np.uint32)
    if dtype is None:
        if array.dtype.name in BY_NUMPY:
            return array
        if raw:
            suggestion = {1: "e4m3", 2: "bf16"}.get(array.dtype.itemsize, "f32")
            raise FormatError(
                f"{path} holds raw {array.dtype.itemsize}-byte elements ({array.dtype}): say what they are, for "
                f"example with --dtype {suggestion} (or {option} for this file alone)."
            )
        raise FormatError(f"{path} holds {array.dtype}, which is no operand of a GPU matrix multiplication.")
    fmt = parse(dtype)
    if array.dtype.name == fmt.numpy:
        return array
    if not raw:
        raise FormatError(f"{path} holds {array.dtype}, not raw bit patterns, so {option} {fmt} does not apply to it.")
    if array.dtype.itemsize != fmt.bytes:
        raise FormatError(f"{path} holds {array.dtype.itemsize}-byte elements, and {fmt} has {fmt.bytes} byte(s).")
    if array.dtype.kind != "V":
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.view(dtype_of(fmt, "hold operands of"))


def _bytes(path: Path) -> Any:
    """The bytes of a file whose elements are one-byte floats; None for every other.

    numpy.save writes ml_dtypes' float8_e5m2 as "<f1", which numpy.load does not take.
    """
    import ast

    import numpy as np

    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        length = int.from_bytes(file.read(2 if version[0] == 1 else 4), "little")
        if length > 10_000:  # numpy's own bound on what it lets ast parse
            return None
        header = ast.literal_eval(file.read(length).decode("latin-1" if version[0] < 3 else "utf-8"))
        if not isinstance(header, dict) or header.get("descr") not in ("<f1", "|f1"):
            return None
        order: Any = "F" if header["fortran_order"] else "C"
        shape = tuple(int(n) for n in header["shape"])
        if 0 in shape:  # nothing can be mapped
            return np.zeros(shape, "V1")
        return np.memmap(file, "V1", "r", offset=file.tell(), shape=shape, order=order)


def _save(path: Path, d: Any, profile: str) -> None:
    import numpy as np

    from .._errors import FileError
    from .._formats import BY_NUMPY

    fmt: Format = BY_NUMPY[d.dtype.name]
    try:
        with path.open("wb") as file:  # an open file: numpy.save would add ".npy" to another name
            np.save(file, d)
    except OSError as error:
        raise FileError(f"{path} cannot be written: {error.strerror or error}.") from error
    shape = "x".join(map(str, d.shape)) or "scalar"
    raw = d.dtype.kind == "V" or not d.dtype.isbuiltin
    how = f"; read it with numpy.load({str(path)!r}).view(ml_dtypes.{fmt.numpy})" if raw else ""
    typer.echo(f"{path}: {shape} in {fmt}, by {profile}{how}", err=True)


def _bar(a: Any, b: Any) -> Any:
    """A progress bar on standard error for a product that takes seconds, where a person is watching."""
    import sys
    from contextlib import contextmanager, nullcontext

    if not sys.stderr.isatty():
        return nullcontext(None)

    @contextmanager
    def shown() -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TimeRemainingColumn

        columns = (BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=1.0)
            yield lambda done, total: bar.update(task, completed=done / max(total, 1))

    return shown()

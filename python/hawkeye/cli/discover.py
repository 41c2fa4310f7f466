"""``hawkeye discover``: the profile of a multiplication of this machine, found by asking it and certified."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from .._discover import Discovery, Progress
    from .._discoveries import Discoveries, Step


def discover(
    use_torch: Annotated[
        bool, typer.Option("--torch", help="Ask torch: a product of the sizes given, or --trace.")
    ] = False,
    function: Annotated[
        Optional[str],
        typer.Option(
            "--function", metavar="FILE.py:NAME", help="Ask a function of your own instead: f(a, b), or f(a, b, c)."
        ),
    ] = None,
    trace: Annotated[
        Optional[Path],
        typer.Option(
            "--trace",
            metavar="TRACE|SET.jsonl",
            help="With --torch: every different product of a trace or recorded set.",
        ),
    ] = None,
    instructions: Annotated[
        bool, typer.Option("--instructions", help="Ask the GPU's single matrix instructions, one after another.")
    ] = False,
    only: Annotated[
        Optional[list[str]],
        typer.Option("--only", metavar="NAME", help="Of the instructions only this; may be given often."),
    ] = None,
    m: Annotated[Optional[int], typer.Option("--m", help="Rows of A and of the result.")] = None,
    n: Annotated[Optional[int], typer.Option("--n", help="Columns of B and of the result.")] = None,
    k: Annotated[Optional[int], typer.Option("--k", help="Columns of A, rows of B.")] = None,
    batch: Annotated[Optional[int], typer.Option("--batch", help="So many matrices at once: bmm, baddbmm.")] = None,
    dtype: Annotated[
        Optional[str],
        typer.Option(
            "--dtype", help="Of the operands: bf16, f16, tf32, f32, f64, e4m3, e5m2, s8; e4m3,e5m2 for one each."
        ),
    ] = None,
    op: Annotated[
        Optional[str],
        typer.Option(
            "--op", help="mm, bmm, addmm, baddbmm, linear, mv, addmv, dot, scaled_mm, int_mm; mm (bmm) unless said."
        ),
    ] = None,
    layout: Annotated[
        Optional[str],
        typer.Option("--layout", help="How A and B lie in memory, N row by row, T column by column: NN, NT, TN, TT."),
    ] = None,
    out_dtype: Annotated[Optional[str], typer.Option("--out-dtype", help="Of the result.")] = None,
    bias: Annotated[bool, typer.Option("--bias", help="With a bias: addmm, linear, scaled_mm.")] = False,
    alpha: Annotated[float, typer.Option("--alpha", help="The factor of A @ B.")] = 1.0,
    beta: Annotated[float, typer.Option("--beta", help="The factor of the addend.")] = 1.0,
    scaling: Annotated[
        Optional[str], typer.Option("--scaling", help="Of scaled_mm: tensor (unless said) or row.")
    ] = None,
    fast: Annotated[bool, typer.Option("--fast-accum", help="scaled_mm with use_fast_accum.")] = False,
    device: Annotated[
        Optional[str], typer.Option("--device", help="cuda, cuda:1, cpu; the GPU where there is one.")
    ] = None,
    elements: Annotated[
        Optional[int],
        typer.Option("--elements", help="Output elements that must agree for a certificate; 65536 unless said."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Other inputs of the same kinds; the answer is the same.")
    ] = 0,
    max_calls: Annotated[Optional[int], typer.Option("--max-calls", help="The most multiplications asked for.")] = None,
    limit_seconds: Annotated[
        Optional[float],
        typer.Option(
            "--limit-seconds", help="Of a trace or instructions: end after so long; the same command goes on."
        ),
    ] = None,
    out: Annotated[
        Optional[Path],
        typer.Option(
            "--out", metavar="FOLDER", help="Where profiles are kept, and looked up; without it the user's cache."
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Ask also what is kept already.")] = False,
    as_json: Annotated[
        Optional[Path], typer.Option("--json", metavar="FILE", help="All that was found as JSON; - is standard output.")
    ] = None,
    threads: Annotated[int, typer.Option(min=0, help="Threads of the replays; 0 for one a processor.")] = 0,
) -> int:
    """Finds how a multiplication here rounds and orders its sums, by asking it, and certifies the profile.

    Asked is torch (--torch with sizes, or every product of a trace), a function of your own, or the GPU's
    instructions. The questions are operands made so that one rounding, or one order, shows in the result. What
    explains every answer is then held against fresh inputs of many kinds: it is certified where 65,536 elements
    (fewer of a small output) agree and none differs. Where nothing does, it says what failed, and no profile is kept.

    Certified profiles are kept in a folder, by device, library, settings and signature. hawkeye verify finds them
    there, and what is there is not asked again. docs/discover.md says what a certificate means.

    Exit status: 0 all are certified, 2 something is not, 3 bad input, 130 interrupted.

    Examples:

      hawkeye discover --torch --m 64 --n 4096 --k 4096 --dtype bf16

      hawkeye discover --torch --op linear --bias --m 1 --n 4096 --k 4096 --dtype f16

      hawkeye discover --torch --op scaled_mm --m 64 --n 512 --k 1024 --dtype e4m3 --out-dtype bf16 --fast-accum

      hawkeye discover --torch --trace run.hawk --limit-seconds 600      then: hawkeye verify run.hawk

      hawkeye discover --function mine.py:matmul --m 64 --n 64 --k 512 --dtype f32

      hawkeye discover --instructions --json found.json
    """
    from .. import _discover, _discoveries
    from .._errors import ArgumentError

    sizes = {"m": m, "n": n, "k": k, "dtype": dtype}
    chosen = [word for word, wanted in (("--function", function), ("--instructions", instructions)) if wanted]
    if use_torch or trace is not None:
        chosen.append("--torch")
    if len(chosen) != 1:
        raise ArgumentError("Say what to ask: one of --torch, --function FILE.py:NAME and --instructions.")
    if chosen != ["--instructions"] and only:
        raise ArgumentError("--only names instructions: it goes with --instructions.")
    if trace is not None or instructions:
        if given := [f"--{word}" for word, value in sizes.items() if value is not None]:
            raise ArgumentError(f"{given[0]} is of one product, and many are asked: leave it out.")
    elif missing := [f"--{word}" for word, value in sizes.items() if value is None]:
        raise ArgumentError(f"One product needs its sizes and format: give also {', '.join(missing)}.")
    quiet = as_json is not None and str(as_json) == "-"
    if trace is not None:
        with _watched() as show:
            many = _discoveries.discover_trace(
                trace,
                device=device,
                elements=elements,
                seed=seed,
                max_calls=max_calls,
                threads=threads,
                limit_seconds=limit_seconds,
                cache=True if out is None else out,
                again=again,
                progress=show.step,
            )
        return _tell_many(many, as_json, quiet=quiet)
    if instructions:
        with _watched() as show:
            many = _discoveries.discover_instructions(
                only or None,
                device=_number(device),
                elements=elements,
                seed=seed,
                max_calls=max_calls,
                threads=threads,
                limit_seconds=limit_seconds,
                progress=show.step,
            )
        return _tell_many(many, as_json, quiet=quiet)
    assert m is not None
    assert n is not None
    assert k is not None
    assert dtype is not None
    name = None
    asked: Any = op or ("mm" if batch is None else "bmm")
    if function is not None:
        asked, name = _loaded(function)
    if scaling is None and asked == "scaled_mm":
        scaling = "tensor"
    with _watched() as show:
        found = _discover.discover(
            asked,
            m=m,
            n=n,
            k=k,
            batch=batch,
            dtype=tuple(dtype.split(",")) if "," in dtype else dtype,
            layout=layout,
            out_dtype=out_dtype,
            bias=bias,
            alpha=alpha,
            beta=beta,
            scaling=scaling,
            use_fast_accum=fast,
            device=device,
            elements=elements,
            seed=seed,
            max_calls=max_calls,
            threads=threads,
            progress=show.progress,
            cache=True if out is None else out,
            name=name,
            again=again,
        )
    return _tell(found, as_json, quiet=quiet)


def _number(device: Optional[str]) -> int:
    """The number of a GPU: of "cuda:1", or "1"."""
    from .._errors import ArgumentError

    text = (device or "cuda:0").rpartition(":")[2]
    if text == "cuda":
        return 0
    if not text.isdigit():
        raise ArgumentError(f"--device is {device}, and instructions are a GPU's: say cuda:0, cuda:1, …")
    return int(text)


def _loaded(where: str) -> tuple[Callable[..., Any], str]:
    """The function that FILE.py:NAME, or package.module:NAME, names, and what its profile is kept by.

    That has the file's contents in it: a function that was changed is another one.
    """
    import hashlib
    import importlib
    import importlib.util

    from .._errors import ArgumentError, FileError

    home, _, name = where.rpartition(":")
    if not home or not name:
        raise ArgumentError(f"--function is {where}: it must be FILE.py:NAME, a file and a function in it.")
    if home.endswith(".py"):
        path = Path(home).resolve()
        if not path.is_file():
            raise FileError(f"--function: there is no file {home}.")
        sys.path.insert(0, str(path.parent))
        spec = importlib.util.spec_from_file_location(f"_hawkeye_function_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(home)
        except ModuleNotFoundError as error:
            raise ArgumentError(f"--function: {error}.") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise ArgumentError(f"--function: {home} has no function {name}.")
    called: Callable[..., Any] = found
    file = getattr(module, "__file__", None)
    contents = hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] if file else "built in"
    return called, f"{file or home}:{name} ({contents})"


# ---- what was found --------------------------------------------------------------------------------------------------


def _write(as_json: Optional[Path], text: str) -> None:
    from .._errors import FileError

    if as_json is None:
        return
    if str(as_json) == "-":
        print(text)
        return
    try:
        as_json.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(f"{as_json} cannot be written: {error}.") from error


def _tell(found: "Discovery", as_json: Optional[Path], *, quiet: bool) -> int:
    from ._words import say

    _write(as_json, found.to_json())
    if not quiet:
        say(str(found))
        if found.path is not None and not found.cached:
            say(f"Kept in {found.path}; hawkeye verify looks there.")
    return 0 if found else 2


def _tell_many(many: "Discoveries", as_json: Optional[Path], *, quiet: bool) -> int:
    from ._words import say

    _write(as_json, many.to_json())
    if not quiet:
        _table(many)
        for line in (many.summary(), *many.notes):
            say(line)
    return many.status


def _table(many: "Discoveries") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    compared = any(r.comparison is not None for r in many.rows)
    heads = ("instruction", "profile", "the catalogue's") if compared else ("lines", "product", "profile")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in (*heads, ""):
        table.add_column(head, overflow="fold", justify="right" if head == "lines" else "left")
    for r in many.rows:
        found = r.discovery.name if r.discovery else r.outcome
        said = r.reason
        if compared:
            against = r.comparison or {}
            same = "equal" if against.get("equal") else "; ".join(map(str, against.get("differences") or ()))
            cells = (r.what, found, str(against.get("catalogue") or "none"), said or same)
        else:
            cells = (str(r.lines), r.what, found, said)
        table.add_row(*(Text(cell) for cell in cells))
    # A table that goes to a file is not for a screen of 80 columns.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


# ---- meanwhile -------------------------------------------------------------------------------------------------------


class _Shown:
    """A line on standard error that says how far it is; nothing where nobody watches."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def progress(self, p: "Progress") -> None:
        """Of one discovery."""
        self._show("", p)

    def step(self, s: "Step") -> None:
        """Of many."""
        self._show(f"{s.number}/{s.total} {s.what}: ", s.progress)

    def _show(self, before: str, p: "Progress") -> None:
        if self._status is not None:
            done = f", {p.done:,} of {p.total:,} elements certified" if p.total else ""
            from rich.text import Text

            self._status.update(Text(f"{before}{p.phase}: {p.calls:,} calls, {p.questions:,} questions{done}"))


@contextmanager
def _watched() -> Iterator[_Shown]:
    if not sys.stderr.isatty():
        yield _Shown(None)
        return
    from rich.console import Console

    with Console(stderr=True).status("asking") as status:
        yield _Shown(status)

"""``hawkeye bench``: speed beside OpenBLAS in the same run, scaling with threads, and peak memory."""

import json
from typing import Annotated

import typer

from . import _bench


def bench(
    m: Annotated[int, typer.Option("-m", "--m", min=1, help="Rows of A.")] = 1024,
    n: Annotated[int, typer.Option("-n", "--n", min=1, help="Columns of B.")] = 1024,
    k: Annotated[int, typer.Option("-k", "--k", min=1, help="Columns of A.")] = 4096,
    rounds: Annotated[int, typer.Option(min=1, help="Alternating rounds a row; medians are shown.")] = 5,
    quick: Annotated[bool, typer.Option("--quick", help="A smaller product, two rounds, memory at 1024.")] = False,
    only: Annotated[str, typer.Option(help="Only rows whose label holds this text, such as bf16.")] = "",
    memory: Annotated[bool, typer.Option(help="Measure peak memory too.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="All figures as one JSON object.")] = False,
) -> int:
    """Measures multiply-adds a second, and their ratio to OpenBLAS (numpy's) in the same run.

    Each row alternates Hawkeye and OpenBLAS sgemm (dgemm for f64), with the same number of threads, in a process of its
    own for each instruction set: the AVX2 rows are held against OpenBLAS kept to its Haswell kernels. Then two threads
    against one, a 64x64x64 product (by the library's own call) against the large one, and the peak memory beyond the
    operands and the result at 4096x4096x4096, each in a fresh process.

    Examples:

      hawkeye bench

      hawkeye bench --quick --only bf16

      hawkeye bench -m 512 -n 512 -k 2048 --no-memory --json > figures.json
    """
    size = (min(m, 512), min(n, 512), min(k, 1024)) if quick else (m, n, k)
    figures = _bench.measure(
        size, rounds=min(rounds, 2) if quick else rounds, only=only, memory=0 if not memory else 1024 if quick else 4096
    )
    if as_json:
        typer.echo(json.dumps(figures, indent=1))
    else:
        _bench.show(figures)
    return 0

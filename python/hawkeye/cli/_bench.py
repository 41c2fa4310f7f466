"""What ``hawkeye bench`` measures, and its tables.

The measuring itself is done in child processes (_bench_child), since OpenBLAS chooses its kernels once, when it is
loaded, by its environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

from .._errors import Error, InternalError


class Row(NamedTuple):
    """One line of the table: a profile on operands of a format, against an OpenBLAS routine."""

    label: str
    profile: str
    dtype: str
    reference: str  # "sgemm" or "dgemm"


ROWS = (
    Row("f16 Hopper", "hopper/f16", "f16", "sgemm"),
    Row("bf16 Hopper", "hopper/bf16", "bf16", "sgemm"),
    Row("tf32 Hopper", "hopper/tf32", "f32", "sgemm"),
    Row("e4m3 Hopper, fast", "hopper/e4m3-fast", "e4m3", "sgemm"),
    Row("f16 Ampere", "ampere/f16", "f16", "sgemm"),
    Row("bf16 Ampere", "ampere/bf16", "bf16", "sgemm"),
    Row("f32 chain", "hopper/f32", "f32", "sgemm"),
    Row("f64 chain", "hopper/f64", "f64", "dgemm"),
    Row("s8", "hopper/s8", "s8", "sgemm"),
)
#: peak memory beyond operands and result: a quarter of the operands and this much
MEMORY_CONSTANT = 32 << 20


def measure(size: tuple[int, int, int], *, rounds: int, only: str, memory: int) -> dict[str, Any]:
    """All figures. ``memory`` is the M = N = K of the memory table, 0 for none."""
    rows = [row for row in ROWS if only.lower() in row.label.lower()]
    if not rows:
        raise Error(f"No row's label holds {only!r}; the labels are {', '.join(row.label for row in ROWS)}.")
    from .. import _native
    from .._version import version
    from ._machine import processor

    levels = [level for level in _native.instruction_sets() if level in ("avx512", "avx2")] or ["portable"]
    figures: dict[str, Any] = {
        "hawkeye": version(),
        "processor": processor(),
        "instruction sets": _native.instruction_sets(),
        "size": list(size),
        "rounds": rounds,
        "speed": [],
        "memory": [],
    }
    listed = [list(row) for row in rows]
    for level in levels:
        job = {"task": "speed", "rows": listed, "size": list(size), "rounds": rounds}
        figures["speed"].append({"level": level, **_child(job, level)})
    for row in rows if memory else ():
        job = {"task": "memory", "row": list(row), "size": memory}
        figures["memory"].append({"label": row.label, "dtype": row.dtype, **_child(job, levels[0])})
    return figures


def _child(job: dict[str, Any], level: str) -> dict[str, Any]:
    """Runs a job in a process whose libraries are chosen by its environment, and nobody else's."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name
        not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "GOTOOLCHAIN")
    }
    environment["HAWKEYE_ISA"] = level
    environment["OPENBLAS_NUM_THREADS"] = "1"
    if level == "avx2":
        environment["OPENBLAS_CORETYPE"] = "Haswell"
    command = [sys.executable, "-m", "hawkeye.cli._bench_child"]
    done = subprocess.run(command, input=json.dumps(job), env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise InternalError(f"The measuring process for {level} ended with status {done.returncode}: {last}")
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def show(figures: dict[str, Any]) -> None:
    """Prints the tables."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    size = "x".join(map(str, figures["size"]))
    first = figures["speed"][0]
    for line in (
        f"Hawkeye {figures['hawkeye']}, numpy {first['numpy']}, Python {first['python']}",
        f"{figures['processor']}; instruction sets {', '.join(figures['instruction sets'])}",
        f"M x N x K = {size}; medians of {figures['rounds']} alternating rounds; GMAC/s is 1e9 multiply-adds a second",
    ):
        console.print(Text(line))
    for part in figures["speed"]:
        title = f"{part['level']} against OpenBLAS {part['openblas']} (kernels: {part['core']})"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        table.add_column("arithmetic", no_wrap=True)
        for head in ("GMAC/s", "OpenBLAS", "ratio", "2 threads / 1", "64x64x64", "of large"):
            table.add_column(head, justify="right", no_wrap=True)
        for row in part["rows"]:
            table.add_row(
                row["label"],
                f"{row['rate']:.2f}",
                f"{row['reference']:.2f} {row['routine']}",
                f"{row['ratio']:.2f}",
                "-" if row["scaling"] is None else f"{row['scaling']:.2f}",
                f"{row['small']:.2f}",
                f"{row['small_ratio']:.2f}",
            )
        console.print()
        console.print(table)
    if figures["memory"]:
        edge = figures["memory"][0]["size"]
        title = f"Peak memory beyond operands and result at M = N = K = {edge}, each in a fresh process"
        table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
        table.add_column("arithmetic", no_wrap=True)
        for head in ("operands", "extra peak", "bound", "within", "seconds"):
            table.add_column(head, justify="right", no_wrap=True)
        for row in figures["memory"]:
            bound = row["operands"] // 4 + MEMORY_CONSTANT
            table.add_row(
                row["label"],
                _mebibytes(row["operands"]),
                _mebibytes(row["extra"]),
                _mebibytes(bound),
                "yes" if row["extra"] <= bound else "NO",
                f"{row['seconds']:.1f}",
            )
        console.print()
        console.print(table)


def _mebibytes(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"

"""What the programs of this folder that record have in common: finding hawkeye, the machine, tables, result files.

hawkeye.record needs torch and no library of Hawkeye's: where the package is not installed, the checkout's is used as it
lies there.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
if importlib.util.find_spec("hawkeye") is None:
    sys.path.insert(0, str(ROOT / "python"))


def synchronize(device: str) -> None:
    """Wait until the device has done what it was given."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def machine(device: str) -> dict[str, Any]:
    """What figures depend on."""
    facts: dict[str, Any] = {"device": device, "torch": str(torch.__version__), "python": sys.version.split()[0]}
    if device.startswith("cuda"):
        facts |= {"gpu": torch.cuda.get_device_name(), "cuda": str(torch.version.cuda)}
    return facts


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns as wide as they must be: words to the left, numbers to the right."""
    cells = [[str(c) for c in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        first = row[0].ljust(widths[0])
        lines.append("  ".join([first, *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]))
    return "\n".join(lines)


def write_json(path: Path, value: Any) -> None:
    """Whole or not at all, so that a run that is cut off leaves the results it had."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def lines(trace: Path) -> list[dict[str, Any]]:
    """The lines of a trace, of all ranks."""
    texts = (path.read_text(encoding="utf-8") for path in sorted(trace.glob("rank-*.jsonl")))
    return [json.loads(line) for text in texts for line in text.splitlines()]


def multiply_adds(line: dict[str, Any]) -> int:
    """Of one line."""
    batch, m, k = line["a"]["shape"]
    return int(batch * m * k * line["b"]["shape"][2])


def size(folder: Path) -> int:
    """Bytes of all files in it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""Operands overwritten in place right after a product: does the trace hold them as they were at the call?

Operands whose bits a formula gives are multiplied, and at once overwritten or freed, in several ways, while the device
is kept busy so that the program runs ahead of it. The trace's files are then read with numpy alone, and compared with
what the formula gives.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
import hawkeye
import numpy as np
import torch

WAYS = ("same stream", "second stream", "product on the second stream", "freed and taken again")


def pattern(number: int, elements: int) -> Any:
    """The bits of f32 operands, all in [1, 2), as numpy has them; on_device gives the same."""
    n = np.arange(elements, dtype=np.uint32)
    mixed = n * np.uint32(1103515245) + np.uint32(12345 * number + 977)
    return (mixed & np.uint32(0x7FFFFF) | np.uint32(0x3F800000)).astype("<u4")


def on_device(number: int, rows: int, device: str) -> torch.Tensor:
    """The same pattern, computed by the device in integers."""
    n = torch.arange(rows * rows, device=device, dtype=torch.int64)
    mixed = (n * 1103515245 + 12345 * number + 977) & 0x7FFFFF | 0x3F800000
    return mixed.to(torch.int32).view(torch.float32).reshape(rows, rows)


@contextlib.contextmanager
def on(stream: Any) -> Iterator[None]:
    """On a stream, or as always where there are none."""
    if stream is None:
        yield
    else:
        with torch.cuda.stream(stream):
            yield


def overwrite(*tensors: torch.Tensor) -> None:
    for t in tensors:
        t.fill_(float("nan"))
        t.mul_(2)


def run(folder: Path, device: str, rounds: int, rows: int) -> list[tuple[int, int]]:
    """Records into folder; the numbers of the patterns that each call multiplied."""
    cuda = device.startswith("cuda")
    second = torch.cuda.Stream() if cuda else None
    numbers = []
    common.synchronize(device)
    with hawkeye.record(folder, outputs="hash", display=False):
        for turn in range(rounds):
            way = WAYS[turn % len(WAYS)]
            a, w = on_device(2 * turn, rows, device), on_device(2 * turn + 1, rows, device)
            if cuda:
                torch.cuda._sleep(5_000_000)  # so that everything below is queued before the product begins
            if way == "product on the second stream" and second is not None:
                second.wait_stream(torch.cuda.current_stream())
            with on(second if way == "product on the second stream" else None):
                out = torch.mm(a, w.t())
                if way != "second stream":
                    overwrite(a, w, out)
            if way == "second stream" and second is not None:
                second.wait_event(torch.cuda.current_stream().record_event())
            if way == "second stream":
                with on(second):
                    overwrite(a, w, out)
            if second is not None:
                torch.cuda.current_stream().wait_stream(second)
            if way == "freed and taken again":
                del a, w, out
                taken = [torch.full((rows, rows), 7.0, device=device) for _ in range(3)]
                del taken
            numbers.append((2 * turn, 2 * turn + 1))
        common.synchronize(device)
    return numbers


def stored(folder: Path, entry: dict[str, Any]) -> Any:
    """The f32 bits of an operand's file, in the order of the file."""
    name = entry["file"]
    data = (folder / "tensors" / name[:2] / f"{name}.safetensors").read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    about = json.loads(data[8 : 8 + length])["t"]
    assert about["dtype"] == "F32", about
    return np.frombuffer(data, dtype="<u4", offset=8 + length)


def check(folder: Path, device: str, rounds: int, rows: int) -> list[str]:
    """What is not as it was at the call; nothing where all is well."""
    wanted = []  # the products of the untouched operands, before anything is recorded
    for turn in range(rounds):
        a, w = (on_device(2 * turn + i, rows, device) for i in range(2))
        wanted.append(hashlib.sha256(torch.mm(a, w.t()).cpu().contiguous().numpy().tobytes()).hexdigest())
    numbers = run(folder, device, rounds, rows)
    lines = common.lines(folder)
    if len(lines) != rounds:
        return [f"{len(lines)} of {rounds} calls were recorded"]
    wrong = []
    for turn, line in enumerate(lines):
        for side, number in zip("ab", numbers[turn]):
            entry = line[side]
            if (entry.get("stored") == "transposed") != (side == "b"):
                wrong.append(f"call {turn} ({WAYS[turn % len(WAYS)]}): {side} is not stored as it lay in memory")
            differing = int((stored(folder, entry) != pattern(number, rows * rows)).sum())
            if differing:
                wrong.append(f"call {turn} ({WAYS[turn % len(WAYS)]}): {differing} elements of {side} differ")
        if line["out"]["sha256"] != wanted[turn]:
            wrong.append(f"call {turn} ({WAYS[turn % len(WAYS)]}): the output's hash is another")
    return wrong

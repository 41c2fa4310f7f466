"""Two ranks that train together, recorded into one trace, with an H200's products (tests/gpu/distributed.py)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hawkeye
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: there is nothing to distribute")

from trace_check import Trace  # noqa: E402

SCRIPT = Path(__file__).resolve().parents[1] / "gpu" / "distributed.py"

if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
    pytest.skip("this torch has no gloo: ranks on the CPU cannot meet", allow_module_level=True)


@pytest.mark.parametrize(
    "mode",
    [
        "ddp",
        "fsdp",
    ],
)
def test_ranks_in_one_trace(tmp_path: Path, environment: dict[str, str], mode: str) -> None:
    if mode == "fsdp":
        pytest.importorskip("torch.distributed.fsdp", reason="this torch cannot shard")
        if not hasattr(torch.distributed.fsdp, "fully_shard"):
            pytest.skip("this torch has no fully_shard")
    command = [sys.executable, str(SCRIPT), "--mode", mode, "--device", "cpu", "--small", "--steps", "2"]
    command += ["--emulate", "--outputs", "samples", "--out", str(tmp_path), "--timeout", "120"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    results: dict[str, Any] = json.loads((tmp_path / f"{mode}.json").read_text())
    plain, recorded = results["plain"], results["recorded"]
    assert [r["digest"] for r in plain] == [r["digest"] for r in recorded]
    assert recorded[0]["weights"] == recorded[1]["weights"]

    trace = Trace(tmp_path / f"{mode}.hawk")  # sealed, chained, every tensor what its name says
    assert list(trace.ranks) == ["rank-0000.jsonl", "rank-0001.jsonl"]
    assert [len(lines) for lines in trace.ranks.values()] == [r["emulated"] for r in recorded] == [78, 78]
    assert trace.manifest["coverage"]["skipped"] == {}
    assert {r["root"] for r in recorded} >= {trace.manifest["root"]}
    first, second = (lines[0] for lines in trace.ranks.values())
    assert first["b"]["file"] == second["b"]["file"]  # both have the weight, and the trace has it once
    assert first["a"]["file"] != second["a"]["file"]
    modules = {line["module"].partition(".blocks")[0] for line in trace.lines if ".blocks" in line["module"]}
    assert len(modules) == 1

    found = hawkeye.open_set(tmp_path / f"{mode}.hawk")
    verdicts = [found.replay(i) for i in range(len(found))]
    assert [v.verdict for v in verdicts] == ["exact"] * len(trace.lines)
    assert {v.id.partition("-")[0] for v in verdicts} == {"r0", "r1"}

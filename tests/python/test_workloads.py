"""The programs of tests/gpu/workloads.py in their tiny size, with an H200's products on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hawkeye
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the workloads are torch programs")

GPU = Path(__file__).resolve().parents[1] / "gpu"
sys.path.insert(0, str(GPU))
import kernel_names  # noqa: E402
import workloads  # noqa: E402

STEPS = 3
# Which operators each is there for.
PRODUCTS = {
    "gpt-bf16": {"mm", "addmm", "bmm"},
    "gpt-f16": {"mm", "addmm", "bmm"},
    "gpt-tf32": {"mm", "addmm", "bmm"},
    "decode": {"mm", "addmm", "bmm"},
    "mlp-f8": {"scaled_mm"},
    "vit": {"mm", "addmm", "bmm"},
    "mixture": {"mm", "grouped_mm"},
}


def run(name: str, **options: Any) -> tuple[dict[str, Any], Any]:
    steps: list[int] = []
    with hawkeye.emulate() as emulation:
        results = workloads.WORKLOADS[name]("cpu", STEPS, True, steps.append, **options)
    assert steps == list(range(3 * STEPS if name == "decode" else STEPS))
    return results, emulation


@pytest.mark.parametrize("name", list(workloads.WORKLOADS))
def test_a_workload_runs_and_repeats(name: str) -> None:
    results, emulation = run(name)
    assert set(emulation.calls) == PRODUCTS[name]
    assert not emulation.left_out
    assert all(value.isfinite().all() for value in results.values())
    again, second = run(name)
    assert workloads.digest(results) == workloads.digest(again)
    assert emulation.profiles == second.profiles


def test_products_of_single_experts() -> None:
    results, emulation = run("mixture", grouped=False)
    assert set(emulation.calls) == {"mm"}
    assert not emulation.left_out
    assert sum(emulation.calls.values()) > 4 * 5 * STEPS  # up and down, and their gradients, an expert a step
    assert results["outputs"].isfinite().all()


def test_the_arithmetic_shows() -> None:
    """The emulated products are not the CPU's: the bits of a whole program tell."""
    emulated, _ = run("gpt-tf32")
    plain = workloads.gpt_tf32("cpu", STEPS, True)
    assert workloads.digest(emulated) != workloads.digest(plain)
    for name, value in plain.items():
        torch.testing.assert_close(emulated[name], value, rtol=0.02, atol=0.02)


def test_settings_and_generator_are_left_as_they_were() -> None:
    before = torch.get_rng_state(), torch.backends.cuda.matmul.allow_tf32
    run("gpt-tf32")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert torch.backends.cuda.matmul.allow_tf32 is before[1]


def test_both_accumulation_modes_of_f8() -> None:
    _, emulation = run("mlp-f8")
    promoted = {"promote" in p.to_dict()["plan"] for p in emulation.profiles.values()}
    assert promoted == {True, False}
    assert len(emulation.profiles) == 6


# ---- the programs that record them, which are made for a GPU --------------------------------------------------------


def script(environment: dict[str, str], name: str, *options: str) -> str:
    command = [sys.executable, str(GPU / name), "--device", "cpu", "--small", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_recording_workloads(tmp_path: Path, environment: dict[str, str]) -> None:
    said = script(environment, "record_workloads.py", "decode", "mixture", "--steps", "2", "--out", str(tmp_path))
    assert "all is well" in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["in_place"]["wrong"] == []
    for name in ("decode", "mixture"):
        assert results["workloads"][name]["digests_equal"]
        assert len(hawkeye.open_set(tmp_path / f"{name}.hawk")) == results["workloads"][name]["lines"] > 20


def test_measuring_what_recording_costs(tmp_path: Path, environment: dict[str, str]) -> None:
    options = ["average", "step", "size", "--steps", "100", "--rounds", "1", "--samples", "2"]
    said = script(environment, "overhead.py", *options, "--out", str(tmp_path / "o.json"))
    assert "100 steps, 1 sampled" in said
    results = json.loads((tmp_path / "o.json").read_text())
    assert results["average"]["rounds"][0]["calls"] == results["step"]["size"]["hash"]["calls"] == 39
    assert results["size"]["samples"]["bytes"] > results["size"]["hash"]["bytes"] > 0


def test_comparing_kernels() -> None:
    names = ["nvjet_sm90_tst_64x8", "elementwise_kernel<128, 2, direct_copy_kernel_cuda>", "splitKreduce_kernel<32>"]
    events = [{"cat": "kernel", "name": n, "ts": -i, "args": {"stream": 7}} for i, n in enumerate(names)]
    seen = kernel_names.streams([*events, {"cat": "gpu_memcpy", "name": "Memcpy DtoD gemm", "ts": 1}])
    assert seen == {"7": ["splitKreduce_kernel<32>", "nvjet_sm90_tst_64x8"]}
    assert kernel_names.difference(seen, seen) == ""
    assert "kernel 0: splitK" in kernel_names.difference(seen, {"7": seen["7"][::-1]})
    assert "2 kernels" in kernel_names.difference(seen, {"7": seen["7"][:1]})
    assert "streams 7" in kernel_names.difference(seen, {**seen, "13": ["nvjet"]})
    assert kernel_names.difference({}, {})

"""The programs of tests/gpu/workloads.py in their tiny size, with an H200's products on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import hawkeye
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: the workloads are torch programs")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gpu"))
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
    "mixture": {"mm"},
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
    assert set(emulation.left_out) == ({"_grouped_mm"} if name == "mixture" else set())
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

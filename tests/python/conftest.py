"""Common to all Python tests, which run on the installed package: ``pip install .`` first."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import hawkeye
import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDENS = ROOT / "tests" / "goldens"
sys.path.insert(0, str(GOLDENS))  # inputs.py, which says how the golden inputs are made

has_torch = importlib.util.find_spec("torch") is not None


def pytest_report_header() -> list[str]:
    where = Path(hawkeye.__file__).parent
    return [f"hawkeye {hawkeye.__version__} from {where}, torch {'present' if has_torch else 'absent'}"]


@pytest.fixture(scope="session")
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed: its adapter is not tested")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The repository, for tests of files that a wheel does not hold."""
    return ROOT


@pytest.fixture
def environment() -> dict[str, str]:
    """For child processes: this one's, so that they import the package under test."""
    paths = [str(Path(hawkeye.__file__).parents[1])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads, or writes, the discovered profiles of whoever runs it."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path_factory.getbasetemp() / "no-profiles"))


@pytest.fixture(autouse=True)
def _same_instruction_set() -> Any:
    """A test that changes the process's instruction set must not change the next one's."""
    yield
    native = sys.modules.get("hawkeye._native")
    if native is not None and native.loaded() and "HAWKEYE_ISA" not in os.environ:
        native.set_instruction_set("auto")

"""Importing hawkeye loads nothing heavy; what it promises is there when asked for."""

from __future__ import annotations

import json
import subprocess
import sys

import hawkeye
import pytest

HEAVY = ("numpy", "ml_dtypes", "rich", "typer", "torch", "ctypes", "dataclasses", "asyncio")
SCRIPT = """
import sys, json
before = set(sys.modules)
import hawkeye
maps = open("/proc/self/maps").read()
print(json.dumps([sorted(set(sys.modules) - before), "libhawkeye" in maps]))
"""


def test_import_loads_neither_library_nor_dependencies(environment: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    loaded, library = json.loads(done.stdout)
    assert not library
    assert "hawkeye" in loaded
    assert [name for name in loaded if name.partition(".")[0] in HEAVY] == []


def test_library_is_loaded_by_the_first_call(environment: dict[str, str]) -> None:
    script = SCRIPT.replace("import hawkeye\n", "import hawkeye; hawkeye.threads()\n")
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    loaded, library = json.loads(done.stdout)
    assert library
    assert not any(name.partition(".")[0] in ("rich", "typer", "torch") for name in loaded)


def test_every_public_name_resolves() -> None:
    for name in hawkeye.__all__:
        assert getattr(hawkeye, name) is not None
        assert name in dir(hawkeye)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hawkeye.nonsense  # noqa: B018


def test_version_is_the_distributions_and_the_librarys() -> None:
    from importlib.metadata import version

    from hawkeye import _native

    assert hawkeye.__version__ == _native.version()
    try:
        assert version("hawkeye") == hawkeye.__version__
    except ModuleNotFoundError:
        pytest.skip("hawkeye is imported from a checkout, not installed")

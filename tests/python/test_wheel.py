"""What is installed and how it is tagged, what the sdist holds, and what setup.py says when it cannot build."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def installed() -> Distribution:
    try:
        found = distribution("hawkeye")
    except PackageNotFoundError:
        pytest.skip("hawkeye is imported from a checkout, not installed")
    if not any(str(f).endswith("libhawkeye.so") for f in found.files or []):
        pytest.skip("hawkeye is installed in editable mode: there is no wheel to look into")
    return found


@pytest.fixture(scope="module")
def setup_py() -> Any:
    """setup.py as a module, for its functions; its commands are then known to work too."""
    pytest.importorskip("setuptools", reason="setuptools is not installed: nothing can be built here")
    if importlib.util.find_spec("setuptools.command.bdist_wheel") is None:
        pytest.skip("setuptools is older than pyproject.toml asks for: nothing can be built here")
    path = Path(__file__).resolve().parents[2] / "setup.py"
    spec = importlib.util.spec_from_file_location("hawkeye_setup", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wheel_tags(installed: Distribution) -> list[str]:
    return re.findall(r"^Tag: (.+)$", installed.read_text("WHEEL") or "", re.MULTILINE)


def library(installed: Distribution) -> Path:
    return Path(str(installed.locate_file("hawkeye/_lib/libhawkeye.so")))


def test_contents(installed: Distribution) -> None:
    files = {str(f) for f in installed.files or []}
    for name in (
        "hawkeye/__init__.py",
        "hawkeye/py.typed",
        "hawkeye/_lib/libhawkeye.so",
        "hawkeye/_goldens/h200-torch2.11.jsonl",
        "hawkeye/_goldens/h200-torch2.11.bin",
        "hawkeye/_goldens/h200-torch2.11.expected",
        "hawkeye/cli/__init__.py",
        "hawkeye/_tensors/__init__.py",
    ):
        assert name in files
    stray = [f for f in files if not f.startswith(("hawkeye/", "hawkeye-", "../../../bin/hawkeye"))]
    assert stray == []
    assert not any(f.endswith((".h", ".go", ".c")) for f in files)


def test_one_tag_for_every_python(installed: Distribution) -> None:
    (tag,) = wheel_tags(installed)
    assert re.fullmatch(r"py3-none-manylinux_2_\d+_(x86_64|aarch64)", tag)
    assert "Root-Is-Purelib: false" in (installed.read_text("WHEEL") or "")


def test_tag_is_what_the_library_needs(installed: Distribution, setup_py: Any) -> None:
    (tag,) = wheel_tags(installed)
    assert tag == "py3-none-" + setup_py.manylinux_tag(library(installed))


@pytest.mark.skipif(shutil.which("readelf") is None, reason="binutils are not installed")
def test_glibc_needed_is_what_readelf_reads(installed: Distribution, setup_py: Any) -> None:
    for file in (library(installed), Path(os.path.realpath(sys.executable))):
        said = subprocess.run(["readelf", "-V", str(file)], capture_output=True, text=True, check=True).stdout
        needs = said.partition(".gnu.version_r")[2]
        versions = [(int(a), int(b)) for a, b in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", needs)]
        assert setup_py.glibc_needed(file) == max(versions)


@pytest.mark.skipif(shutil.which("nm") is None, reason="binutils are not installed")
def test_the_library_exports_its_interface_alone(installed: Distribution) -> None:
    said = subprocess.run(
        ["nm", "-D", "--defined-only", str(library(installed))], capture_output=True, text=True, check=True
    ).stdout
    names = [line.split()[-1] for line in said.splitlines()]
    assert names
    assert [n for n in names if not n.startswith("hawkeye_")] == []


def test_dependencies(installed: Distribution) -> None:
    needed = {re.split(r"[^\w.-]", r)[0].replace("-", "_") for r in installed.requires or [] if "extra ==" not in r}
    assert needed == {"numpy", "ml_dtypes", "rich", "typer"}
    assert installed.metadata["Requires-Python"] == ">=3.9"


def test_no_machine_paths_in_the_library(installed: Distribution) -> None:
    data = library(installed).read_bytes()
    assert str(Path.home()).encode() + b"/" not in data
    assert str(Path(__file__).resolve().parents[2]).encode() + b"/" not in data


# ---- building -------------------------------------------------------------------------------------------------------


def build(checkout: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "setup.py", "-q", *arguments],
        cwd=checkout,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"GO": "no-such-go"}, "Hawkeye is built with Go, and 'no-such-go' was not found: install Go 1.24 or newer"),
        ({"CC": "no-such-cc"}, "'no-such-cc' was not found: install gcc"),
    ],
)
@pytest.mark.usefixtures("setup_py")
def test_what_is_missing_is_one_sentence(checkout: Path, environment: dict[str, str], says: str) -> None:
    if "CC" in environment and shutil.which("go") is None:
        pytest.skip("Go is asked for first, and is not installed")
    done = build(checkout, "build_library", **environment)
    assert done.returncode == 1
    assert done.stderr.strip().count("\n") == 0
    assert says in done.stderr


@pytest.mark.usefixtures("setup_py")
def test_old_go_is_named(checkout: Path, tmp_path: Path) -> None:
    fake = tmp_path / "go"
    fake.write_text("#!/bin/sh\necho go1.19.2\n", encoding="ascii")
    fake.chmod(0o755)
    done = build(checkout, "build_library", GO=str(fake))
    assert "needs Go 1.24 or newer, and this Go is go1.19.2" in done.stderr


@pytest.mark.usefixtures("setup_py")
def test_source_distribution_holds_the_go_sources(checkout: Path, tmp_path: Path) -> None:
    done = build(checkout, "egg_info", "--egg-base", str(tmp_path), "sdist", "--dist-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("hawkeye-*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for wanted in (
        "go.mod",
        "go.sum",
        "VERSION",
        "setup.py",
        "include/hawkeye.h",
        "capi/build.sh",
        "capi/exports.map",
        "core/step/catalogue.json",
        "core/profile/catalogue/hopper.json",
        "python/hawkeye/py.typed",
        "tests/goldens/h200-torch2.11.bin",
    ):
        assert wanted in names
    for folder, pattern in (("core", "*.go"), ("simd", "*.go"), ("simd", "*.s"), ("capi", "*.c"), ("capi", "*.go")):
        for file in (checkout / folder).rglob(pattern):
            assert str(file.relative_to(checkout)) in names
    assert not any(name.endswith((".so", ".a", ".pyc")) for name in names)

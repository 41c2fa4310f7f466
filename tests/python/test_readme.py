"""README.md's examples run as they are written, and the documents' links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import hawkeye
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]


def example(language: str) -> str:
    """The one code block of a language."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
    return str(text)


def run(*command: str | Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel's library under the name that programs look for."""
    file = Path(os.environ.get("HAWKEYE_LIBRARY", Path(hawkeye.__file__).parent / "_lib" / "libhawkeye.so"))
    if not file.is_file():
        pytest.skip("the library is not where the package keeps it")
    folder = tmp_path_factory.mktemp("library")
    for name in ("libhawkeye.so", "libhawkeye.so.1"):
        (folder / name).symlink_to(file.resolve())
    return folder


def test_python(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    said = run(sys.executable, "-c", example("python"), cwd=tmp_path, **environment)
    assert "elements differ" in said
    assert "Groups of 16 products of bf16" in said
    assert "exact 32 lanes" in said
    assert "Both have row 0 of A and column 0 of B" in said


def test_command_line(environment: dict[str, str], tmp_path: Path) -> None:
    for name, shape in (("A", (4, 32)), ("B", (32, 3))):
        np.save(tmp_path / f"{name}.npy", np.ones(shape, np.float16))
        np.save(tmp_path / f"{name}bf16.npy", np.full(shape, 0x3F80, np.uint16))  # ones of bf16
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    lines = [line.partition("#")[0].split() for line in example("sh").splitlines()]
    assert len(lines) >= 5
    for line in lines:
        assert line[0] == "hawkeye"
        said = run(sys.executable, "-m", *line, cwd=tmp_path, **environment)
        if "--json" in line:
            assert '"verdict": "exact"' in said
    assert (np.load(tmp_path / "D.npy") == 32).all()


def test_shown_output(environment: dict[str, str]) -> None:
    """What a ```console block shows is what its command prints; … stands for anything, and line breaks do not count."""
    blocks = re.findall(r"^```console\n\$ (hawkeye .*)\n((?:.*\n)*?)^```", README, re.MULTILINE)
    assert len(blocks) >= 2
    for command, shown in blocks:
        said = run(sys.executable, "-m", *command.split(), cwd=ROOT, **environment)
        parts = [re.escape(" ".join(part.split())) for part in re.split(r"(?<=[ ])…(?=\n)", shown)]
        assert re.fullmatch(".*?".join(parts), " ".join(said.split())), f"{command} prints:\n{said}"


@pytest.mark.parametrize(
    ("language", "compiler", "options"), [("c", "cc", ["-std=c99"]), ("cpp", "c++", ["-std=c++17"])]
)
def test_compiled(language: str, compiler: str, options: list[str], library: Path, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    source = tmp_path / f"example.{language}"
    source.write_text(example(language), encoding="utf-8")
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    search = [f"-I{ROOT / 'include'}", f"-L{library}", f"-Wl,-rpath,{library}"]
    run(compiler, *options, *warnings, source, *search, "-lhawkeye", "-o", tmp_path / "example", cwd=tmp_path)
    assert run(tmp_path / "example", cwd=tmp_path).split() == ["4", "5", "10", "11"]


def test_go(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("Go is not installed")
    source = tmp_path / "main.go"
    source.write_text(example("go"), encoding="utf-8")
    said = run("go", "run", source, cwd=ROOT, CGO_ENABLED="0")
    assert said.strip() == "[4 0 0 0 5 0 0 0 10 0 0 0 11 0 0 0]"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if "://" in path:
            continue
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(to), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_files_named(page: Path) -> None:
    """A file of the repository that a page names exists."""
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:core|simd|capi|include|python|tests|docs|cmake)/[\w./-]*\w)`", text):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_golden_table() -> None:
    """The table's rows add up to its last, and that is what the golden set is held to."""
    rows = [
        [cell.strip("* ") for cell in line.split("|")[1:-1]] for line in README.splitlines() if line.startswith("|")
    ]
    start = next(i for i, row in enumerate(rows) if row[0] == "kernels")
    stop = next(i for i, row in enumerate(rows) if row[0] == "all")
    counts = [[int(cell or 0) for cell in row[1:]] for row in rows[start + 2 : stop + 1]]
    total = counts.pop()
    assert [sum(column) for column in zip(*counts)] == total
    cases, exact, undecided, wrong = total
    assert cases == exact + undecided + wrong
    golden = ROOT / "tests" / "goldens" / "h200-torch2.11.jsonl"
    assert cases == len(golden.read_text(encoding="utf-8").splitlines()) - 1
    expected = golden.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    held = sum(not line.startswith("#") for line in expected)
    assert held <= exact <= held + 2  # a case whose evidence is just enough is counted, and not held to


def anchors(page: Path) -> set[str]:
    """The anchors that headings make."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}

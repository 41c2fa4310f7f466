"""docs/audit.md, from the program to the last verdict: every block runs as it is written."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed: nothing can be recorded")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "audit.md"
# What the blocks of commands must say, one after the other.
SAYS = [
    ["5 multiplications a step", "about"],
    ["recorded, 0 skipped", "root "],
    ["Root ", "Sequential", "one step in 4"],
    ["exact."],
    ["Chosen: 10 of ", "10 exact"],
    ["the trace is broken: rank-0000.jsonl, line ", "exit status 1"],
    ["is wrong: 8 products missing", "exit status 1"],
    ["came out as in the trace", "added to committed.hawk", "Nothing is claimed of the others"],
    ["8 exact.", "Chosen: 8 of"],
]


def test_every_block_runs(tmp_path: Path, environment: dict[str, str]) -> None:
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "tests").symlink_to(PAGE.parents[1] / "tests")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, command in (("hawkeye", "-m hawkeye"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {command} "$@"\n')
        program.chmod(0o755)
    where = {**environment, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    said = iter(SAYS)
    for language, text in blocks:
        if language == "python":
            (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=tmp_path, env=where, capture_output=True, text=True
        )
        output = done.stdout + done.stderr
        assert done.returncode == 0, text + output
        for words in next(said):
            assert words in output, text + output
    assert next(said, None) is None

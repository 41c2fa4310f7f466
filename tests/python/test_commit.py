"""Committing to a program's products, and answering an auditor's key: the root comes first, tensors later."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import hawkeye
import pytest
from hawkeye._challenge import Challenge

torch = pytest.importorskip("torch", reason="torch is not installed: nothing can be recorded")

KEY, PART = "the auditor's own key", 0.25


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run.hawk"


def program(steps: int = 3, wrong: int = -1) -> None:
    """A small training that is the same each time; in step ``wrong`` it has another learning rate."""
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 8)).square().mean().backward()
        optimizer.param_groups[0]["lr"] = 0.2 if step == wrong else 0.1
        optimizer.step()


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rank-0000.jsonl").read_text().splitlines()]


def tensors(folder: Path) -> set[str]:
    return {p.stem for p in folder.glob("tensors/*/*")}


def files(line: dict[str, Any]) -> set[str]:
    return {entry["file"] for entry in line.values() if isinstance(entry, dict) and "file" in entry}


def chosen(line: dict[str, Any]) -> bool:
    return Challenge(KEY, PART).chosen(0, line["seq"])


def commit(folder: Path, **options: Any) -> str:
    with hawkeye.record(folder, commit=True, display=False, **options) as rec:
        program()
    assert rec.failure is None
    assert tensors(folder) == set()
    return str(rec.root)


def answer(folder: Path, key: str = KEY, wrong: int = -1, steps: int = 3) -> Any:
    with hawkeye.record(folder, answer=(key, PART), display=False) as rec:
        program(steps, wrong)
    return rec


@pytest.mark.parametrize("options", [{}, {"every": 2, "seed": "s"}, {"outputs": "samples"}, {"modules": "*.2"}])
def test_only_what_is_asked_for_is_shown(folder: Path, options: dict[str, Any]) -> None:
    root = commit(folder, **options)
    before = (folder / "rank-0000.jsonl").read_bytes(), (folder / "manifest.json").read_bytes()
    rec = answer(folder)
    assert rec.failure is None
    assert rec.root == root
    assert ((folder / "rank-0000.jsonl").read_bytes(), (folder / "manifest.json").read_bytes()) == before
    asked = [line for line in lines(folder) if chosen(line)]
    assert 0 < len(asked) < len(lines(folder))
    assert tensors(folder) == set().union(*map(files, asked))
    recorded = hawkeye.open_set(folder)
    assert recorded.trace is not None
    assert recorded.trace["root"] == root
    assert recorded.trace["problem_count"] == 0
    for line in lines(folder):
        verdict = recorded.replay(line["id"])
        broken = verdict.details.get("broken")
        assert (broken is None) == (files(line) <= tensors(folder))
        assert broken is None or "not there" in broken["text"]


def test_a_second_key_adds_to_the_first(folder: Path) -> None:
    commit(folder)
    answer(folder)
    first = tensors(folder)
    answer(folder, key="another")
    assert first < tensors(folder)


def test_a_program_that_does_something_else_is_told(folder: Path) -> None:
    commit(folder)
    with pytest.warns(RuntimeWarning, match=r"did not do again .* rank-0000.jsonl, line \d+: .*came out differently"):
        assert answer(folder, wrong=0).failure is not None
    with pytest.warns(RuntimeWarning, match=r"the trace ends before it"):
        assert answer(folder, steps=4).failure is not None
    with pytest.warns(RuntimeWarning, match=r"the program ended after \d+ lines, and there are more"):
        assert answer(folder, steps=2).failure is not None


def test_what_cannot_be_answered_for(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(hawkeye.FileError, match="no trace"):
        answer(folder)
    commit(folder)
    for wrong in ((KEY, 0.0), (KEY, 1.5)):
        with pytest.raises(hawkeye.ArgumentError, match="answer"):
            hawkeye.record(folder, answer=wrong)
    with pytest.raises(hawkeye.ArgumentError, match="leave out"):
        hawkeye.record(folder, answer=(KEY, 0.5), commit=True)
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sealed": False}))
    with pytest.raises(hawkeye.FileError, match="not sealed"):
        answer(folder)


SCRIPT = """
import torch
torch.manual_seed(0)
a = torch.randn(4, 4)
for _ in range(40):
    a = a @ a / 4
"""


def test_command_line(tmp_path: Path, environment: dict[str, str]) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    def run(*options: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "hawkeye.record", *options, "train.py"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        return done.returncode, done.stderr

    status, said = run("--estimate")
    assert status == 0, said
    assert "40 multiplications a step" in said
    assert not (tmp_path / "run.hawk").exists()
    status, said = run("-o", "run.hawk", "--commit")
    assert status == 0, said
    assert "hashes alone" in said
    status, said = run("-o", "run.hawk", "--answer", KEY, "--sample", str(PART))
    assert status == 0, said
    assert "40 multiplications of 1 sampled steps (of 1) came out as in the trace" in said
    assert tensors(tmp_path / "run.hawk")
    for wrong in ((), ("-o", "run.hawk", "--answer", KEY), ("-o", "run.hawk", "--sample", "0.5")):
        assert run(*wrong)[0] == 3


def test_estimate_is_what_a_trace_takes(tmp_path: Path) -> None:
    with hawkeye.record(tmp_path / "none.hawk", every=3, estimate=True, display=False) as rec:
        program(6)
    assert not (tmp_path / "none.hawk").exists()
    assert rec.sizes is not None
    with hawkeye.record(tmp_path / "run.hawk", every=3, display=False) as real:
        program(6)
    sampled = real.coverage()["steps"]["sampled"]
    size = sum(p.stat().st_size for p in (tmp_path / "run.hawk").rglob("*") if p.is_file())
    report = rec.sizes.report()
    assert report["steps"] == sampled
    assert report["calls"] * sampled == real.coverage()["recorded"]
    assert 0.7 * size < report["bytes_sampled_step"] * sampled < 1.5 * size  # headers and names are not counted

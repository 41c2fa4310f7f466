"""Explanations and verdicts: hawkeye.explain, explain_tree, why, and the commands explain, why, verify and golden."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hawkeye
import ml_dtypes
import numpy as np
import pytest
from conftest import GOLDENS
from inputs import operands
from test_cli import cli, few  # noqa: F401  fixtures

GOLDEN = GOLDENS / "h200-torch2.11.jsonl"
SPLIT = "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_splitK_TNT"
REDUCE = (
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float, __nv_bfloat16, false, float, "
    "__nv_bfloat16, __nv_bfloat16, true, false, false, false>(cublasLt::cublasSplitKParams<float>)"
)
PLAIN = "nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"


def split_profile(slices: int) -> dict[str, Any]:
    """hopper/bf16 in so many slices, as nvjet merges them."""
    merge = {"partial": "f32", "sum": "f32", "from_zero": True}
    plan = {"split": {"slices": slices, "grain": 64, "of": {"chain": {}}, "merge": merge}}
    return hawkeye.profile("hopper/bf16").to_dict() | {"name": "", "plan": plan}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A row multiplied alone, by a split kernel, and the same row in a batch of two, by a plain one."""
    n, k = 512, 1536
    lines: list[dict[str, Any]] = [{"about": {"gpu": "NVIDIA H200"}}]
    for name, m, kernels, profile in (
        ("alone", 1, [SPLIT, REDUCE], split_profile(3)),
        ("batch", 2, [PLAIN], "hopper/bf16"),
    ):
        a, b = operands("bf16", "bf16", "cancel", 4242, 1, m, n, k)
        out = hawkeye.matmul(a.view(ml_dtypes.bfloat16), b.view(ml_dtypes.bfloat16), profile=profile)
        case = {"id": name, "op": "mm", "m": m, "n": n, "k": k, "batch": 1, "seed": 4242, "kind": "cancel"}
        case |= {"layout": "NN", "a": "bf16", "b": "bf16", "out": "bf16", "kernels": kernels}
        lines.append(case | {"sha256": hashlib.sha256(out.tobytes()).hexdigest()})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


# ---- in words -------------------------------------------------------------------------------------------------------


def test_explain() -> None:
    text = hawkeye.explain("hopper/bf16", m=5, n=512, k=2048, family="nvjet")
    for words in ("nvjet kernel", "5\u00d7512 output", "2048 products of bf16", "16 products at once"):
        assert words in text
    assert "rounded 129 times" in text
    assert "a sum of K products" in hawkeye.explain("hopper/bf16")
    assert "3 accumulators of 512, 512 and 512" not in hawkeye.explain(split_profile(3))
    assert "3 accumulators of 512 products each" in hawkeye.explain(split_profile(3), k=1536)
    with pytest.raises(hawkeye.ArgumentError, match="k is -1"):
        hawkeye.explain("hopper/bf16", k=-1)
    with pytest.raises(hawkeye.ProfileError):
        hawkeye.explain("hopper/nonsense")


def test_explain_tree() -> None:
    tree = hawkeye.explain_tree(split_profile(3), 1536)
    assert tree.count("accumulator of 512 products") == 3
    assert tree.splitlines()[1].startswith("└─ sum of 3 parts in f32")
    many = hawkeye.explain_tree(split_profile(24), 1536)
    assert "… 21 more alike" in many
    assert hawkeye.explain_tree(split_profile(24), 1536, full=True).count("accumulator") == 24
    assert max(map(len, hawkeye.explain_tree(split_profile(24), 1536, width=30).splitlines())) <= 30
    assert hawkeye.explain_tree("hopper/bf16", 64, style="dot").startswith("digraph ")
    with pytest.raises(hawkeye.ArgumentError):
        hawkeye.explain_tree("hopper/bf16", 0)
    with pytest.raises(hawkeye.ArgumentError, match="style"):
        hawkeye.explain_tree("hopper/bf16", 64, style="svg")


# ---- sets -----------------------------------------------------------------------------------------------------------


def test_replay_takes_ids_and_options(rows: Path) -> None:
    opened = hawkeye.open_set(rows)
    verdict = opened.replay("batch")
    assert verdict.verdict == "exact"
    assert verdict.profile is not None
    assert verdict.profile.a == "bf16"
    assert opened.replay(1).id == opened.replay("batch", profile="hopper/bf16").id == "batch"
    assert opened.replay("batch", profile="hopper/bf16").verdict == "exact"
    assert opened.replay("batch", profile=split_profile(3)).verdict != "exact"
    assert opened.replay("batch", blind=True).verdict != "wrong"
    assert [case["id"] for case in opened.cases()] == ["alone", "batch"]
    with pytest.raises(hawkeye.ArgumentError, match="no case nowhere"):
        opened.replay("nowhere")
    with pytest.raises(IndexError):
        opened.replay(2)


def test_a_stopped_replay(rows: Path) -> None:
    opened = hawkeye.open_set(GOLDEN)
    told = []

    def progress(done: int, total: int) -> bool:
        told.append(done)
        return False

    hawkeye.set_instruction_set("portable")  # slow enough to report
    with pytest.raises(hawkeye.Cancelled):
        opened.replay("dev-0156", threads=1, progress=progress)
    assert len(told) == 1
    assert opened.unfinished is None or opened.unfinished.id == "dev-0156"


def test_why(rows: Path) -> None:
    reasons = hawkeye.why(hawkeye.open_set(rows), "alone", "batch")
    assert not reasons.same_arithmetic
    assert {"shape", "kernel", "order", "merge"} <= {d["part"] for d in reasons.differences}
    element = reasons.element
    assert element is not None
    assert element["shared"].startswith("row 0 of A and column ")
    assert element["parting"]["alike"] == 512 / 16
    assert element["parting"]["last_alike"]["over"] == "k = 0…511"
    assert element["parting"]["different_a"]["bits"] != element["parting"]["different_b"]["bits"]
    assert not element["equal"]
    # The outputs shown are those of the two profiles.
    a, b = operands("bf16", "bf16", "cancel", 4242, 1, 1, 512, 1536)
    a, b = a[0].view(ml_dtypes.bfloat16), b[0].view(ml_dtypes.bfloat16)
    column = int(element["shared"].split(" column ")[1].split()[0])
    for side, profile in (("out_a", split_profile(3)), ("out_b", "hopper/bf16")):
        bits = hawkeye.matmul(a, b, profile=profile, columns=[column])[0, 0].view(np.uint16)
        assert f"(0x{bits:04x})" in element[side]
    assert str(reasons) == reasons.text
    for words in ("alone", "batch", "3 slices", "Both have row 0 of A", "partial sums are the same in both"):
        assert words in reasons.text
    same = hawkeye.why(hawkeye.open_set(rows), 1, 1)
    assert same.same_arithmetic
    assert same.element is not None
    assert same.element["equal"]


# ---- commands -------------------------------------------------------------------------------------------------------


def test_the_command_explain(cli: Any, rows: Path, tmp_path: Path) -> None:  # noqa: F811
    assert cli("explain", "hopper/bf16").stdout.strip() == hawkeye.explain("hopper/bf16")
    said = cli("explain", "hopper/bf16", "--k", 2048, "--tree").stdout
    assert hawkeye.explain_tree("hopper/bf16", 2048).strip() in said
    said = cli("explain", "rows.jsonl:alone", "--tree").stdout
    assert "alone (mm of bf16, 1x1536 by 1536x512) is reproduced to the last bit" in said
    assert "nvjet" in said
    assert said.count("accumulator of 512 products") == 3
    cli("explain", "rows.jsonl:alone", "--dot", "tree.dot")
    assert (tmp_path / "tree.dot").read_text(encoding="utf-8").startswith("digraph ")
    alone = cli("explain", "hopper/bf16", "--k", 64, "--dot", "-").stdout
    assert alone == hawkeye.explain_tree("hopper/bf16", 64, style="dot")
    (tmp_path / "mine.json").write_text(json.dumps(split_profile(24)), encoding="utf-8")
    assert cli("explain", "mine.json", "--k", 1536, "--full").stdout.count("accumulator of 64 products") == 24


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("explain", "hopper/bf16", "--tree"), "say which with --k"),
        (("explain", "hopper/nonsense"), "hopper/nonsense"),
        (("explain", "nowhere.jsonl:a"), "no file or trace nowhere.jsonl"),
        (("explain", "rows.jsonl:nobody"), "no case nobody; its ids look like alone"),
        (("explain", "hopper/bf16", "--k", "8", "--dot", "no/folder/x"), "cannot be written"),
        (("why", "rows.jsonl", "alone", "nobody"), "no case nobody"),
        (("why", "rows.jsonl", "alone"), "B"),
        (("why", ".", "a", "b"), "is a folder"),
        (("verify", "nowhere.jsonl"), "no file or trace nowhere.jsonl"),
        (("verify", "rows.jsonl:nobody"), "no case nobody"),
        (("golden", "rows.jsonl", "--blind", "--write-expected"), "--blind"),
        (("golden", "rows.jsonl:alone"), "name its case alone apart"),
        (("why", "rows.jsonl:alone", "alone", "alone"), "name its case alone apart"),
        (("explain", "rows.jsonl"), "rows.jsonl:ID"),
    ],
)
def test_bad_input(cli: Any, rows: Path, arguments: tuple[str, ...], says: str) -> None:  # noqa: F811
    done = cli(*arguments, status=3)
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_the_command_why(cli: Any, rows: Path) -> None:  # noqa: F811
    said = cli("why", rows, "alone", "batch").stdout
    assert "Both have row 0 of A and column" in said
    found = json.loads(cli("why", rows, "alone", "batch", "--json").stdout)
    assert found["text"].strip() == said.strip()


def test_the_command_verify(cli: Any, rows: Path) -> None:  # noqa: F811
    said = cli("verify", rows).stdout
    assert "rows.jsonl: 2 recorded cases" in said
    assert "2 exact." in said
    said = cli("verify", f"{rows}:alone").stdout
    assert said.startswith("alone (mm of bf16")
    assert "3 slices" in said
    assert len(cli("verify", rows, "--json", "--only", "batch").stdout.splitlines()) == 1
    # Without a recorded output a case is undecided, with another one it is wrong, and wrong weighs more.
    lines = rows.read_text(encoding="utf-8").splitlines()
    alone, batch = json.loads(lines[1]), json.loads(lines[2])
    del alone["sha256"]
    rows.write_text("\n".join([lines[0], json.dumps(alone), lines[2]]) + "\n", encoding="utf-8")
    done = cli("verify", rows, status=2)
    assert "alone (mm of bf16, 1x1536 by 1536x512) is undecided" in done.stdout
    assert "1 exact, 1 undecided." in done.stdout
    assert [json.loads(line)["verdict"] for line in cli("verify", rows, "--json", status=2).stdout.splitlines()] == [
        "undecided",
        "exact",
    ]
    assert cli("explain", f"{rows}:alone", status=2).stdout.startswith("alone")
    batch["sha256"] = "0" * 64
    rows.write_text("\n".join([lines[0], json.dumps(alone), json.dumps(batch)]) + "\n", encoding="utf-8")
    done = cli("verify", rows, status=1)
    assert done.stdout.index("batch (mm") < done.stdout.index("alone (mm")
    assert "Tried: 1 plan" in done.stdout


def test_notes_are_told(cli: Any) -> None:  # noqa: F811
    """What an exact output could not have shown is said of it, also where exact cases are only counted."""
    tails = GOLDEN.with_name("h200-tails.jsonl")
    said = cli("verify", tails, status=1).stdout
    assert re.search(r"^tail-0002 .* reproduced .* name and launch say: .* Note: a dropped tail", said, re.MULTILINE)
    assert said.count("8 products missing") == 3
    (note,) = hawkeye.open_set(tails).replay("tail-0002").notes
    assert "could not be seen here" in note


def test_golden_lists_what_is_not_exact(cli: Any, rows: Path) -> None:  # noqa: F811
    lines = rows.read_text(encoding="utf-8").splitlines()
    batch = json.loads(lines[2])
    del batch["sha256"]
    rows.write_text("\n".join([*lines[:2], json.dumps(batch)]) + "\n", encoding="utf-8")
    said = cli("golden", rows).stdout
    assert "Not exact, and what was tried (1):" in said
    assert re.search(r"^batch \(mm of bf16, .*\) undecided: ", said, re.MULTILINE)
    assert "Search time beside one plain replay" in cli("golden", rows, "--times").stdout
    rows.with_suffix(".expected").write_text("alone\nbatch\n", encoding="utf-8")
    assert "1 expected to be exact, and not: batch" in cli("golden", rows, status=1).stdout
    blind = [json.loads(line) for line in cli("golden", rows, "--blind", "--json", status=0).stdout.splitlines()]
    assert [v["id"] for v in blind] == ["alone", "batch"]
    assert "exact" not in {v["verdict"] for v in blind if v["id"] == "batch"}
    assert all(v["verdict"] != "wrong" for v in blind)


def test_times() -> None:
    from hawkeye._sets import Verdict
    from hawkeye.cli import _replay

    def verdict(name: str, search: float, plain: float) -> Verdict:
        details = {"id": name, "verdict": "exact", "family": "dot"}
        return Verdict.from_json(json.dumps(details | {"search_seconds": search, "replay_seconds": plain}))

    verdicts = [verdict("a", 2.0, 1.0), verdict("b", 9.0, 1.0), verdict("c", 3.0, 1.0)]
    assert [_replay.ratio(v) for v in verdicts] == [2.0, 9.0, 3.0]
    assert _replay._time_row(verdicts) == ["3", "3.00", "14.00", "3.00x", "9.0x", "b"]
    assert _replay._time_row([]) == ["0", "-", "-", "-", "-", "-"]
    assert _replay.ratio(Verdict.from_json('{"verdict": "exact"}')) is None


def test_work_counts_products() -> None:
    from hawkeye.cli._replay import work

    assert work({"m": 2, "n": 3, "k": 5, "batch": 7}) - work({"m": 0, "n": 3, "k": 5}) == 210
    assert work({"instruction": "x", "rows": 10, "k": 16}) - work({"m": 0}) == 160


# ---- a person at a terminal -----------------------------------------------------------------------------------------


def test_control_c_shows_what_was_found(environment: dict[str, str]) -> None:
    """Half of a set is better than nothing: tables of what was replayed, a sentence, and status 130."""
    environment.update(COLUMNS="120", TERM="dumb", NO_COLOR="1", HAWKEYE_ISA="portable")
    command = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    command += "from hawkeye.cli import main; sys.exit(main(sys.argv[1:]))"
    child = subprocess.Popen(
        [sys.executable, "-c", command, "golden", str(GOLDEN), "--threads", "1"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(3)
    child.send_signal(signal.SIGINT)
    try:
        said, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == 130, said + errors
    assert re.search(r"hawkeye: interrupted after \d+ of 517 cases", errors)
    assert "By operation and number formats" in said
    assert "Traceback" not in errors


def test_the_bar_estimates_the_time_left(environment: dict[str, str], few: Path) -> None:  # noqa: F811
    """On a terminal, standard error shows a bar with the cases done and the time left."""
    environment.update(COLUMNS="120", TERM="xterm", HAWKEYE_ISA="portable")
    main, other = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "hawkeye", "golden", str(few), "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=other,
        text=True,
    )
    os.close(other)
    said = child.stdout.read() if child.stdout is not None else ""
    shown = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    os.close(main)
    assert child.wait(timeout=60) == 0
    assert len(said.splitlines()) == 6
    assert b"Replaying few.jsonl" in shown
    assert b"/6" in shown
    assert b"left" in shown

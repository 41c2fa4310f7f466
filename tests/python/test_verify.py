"""Verifying as a whole: samples chosen by a key, verdicts that are kept, reports; through Python and the command."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import hawkeye
import pytest
import traces
from conftest import GOLDENS
from hawkeye._challenge import Challenge
from hawkeye._sample import chosen, sample_of
from test_cli import cli, few, sentence  # noqa: F401  fixtures
from test_trace import IDS, flip, trace  # noqa: F401  a fixture

GOLDEN = GOLDENS / "h200-torch2.11.jsonl"


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    """A trace of 24 lines in two processes; two lines of each call of step 3 are groups of one product."""
    folder = tmp_path / "calls.hawk"
    case = traces.golden("dev-0391")[0]
    lines = [[traces.line(folder, case, step=i // 4, call=i % 4) for i in range(12)] for _ in range(2)]
    for rank in range(2):
        for i in range(8, 12):
            lines[rank][i] |= {"step": 3, "call": (i - 8) // 2, "group": i % 2, "groups": 2}
    traces.write(folder, lines)
    return folder


RECORDED = (
    "Recorded: all steps; 6 multiplications recorded, skipped none, dropped 0, kernels missed: not measured "
    "(recording with kernels counts them)."
)
NO_ROOT = "Note: the root was not compared with one kept elsewhere: none was given, and all may have been made anew."


def places(recorded: hawkeye.RecordedSet) -> list[tuple[int, ...]]:
    return [tuple(map(int, c["id"][1:].split("-"))) for c in recorded.cases()]


# ---- which lines a key chooses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "means"),
    [("0.05", 0.05), ("1.0", 1.0), ("1", 1), ("200", 200), ("1e-3", 1e-3), (0.5, 0.5), (1.0, 1.0), (7, 7)],
)
def test_samples(asked: Any, means: Any) -> None:
    got = sample_of(asked)
    assert (got, type(got)) == (means, type(means))


@pytest.mark.parametrize(
    "asked", ["0", "-1", "0.0", "1.5", "2.0", "nan", "inf", "x", "", "1e3", 0, -2, 1.01, True, 0.0, float("nan")]
)
def test_what_is_no_sample(asked: Any) -> None:
    with pytest.raises(hawkeye.ArgumentError, match="fraction"):
        sample_of(asked)


def test_a_fraction_takes_what_the_challenge_takes() -> None:
    listed = [(rank, line) for rank in range(2) for line in range(200)]
    challenge = Challenge("dice", 0.3)
    got = chosen(listed, 0.3, "dice")
    assert got == [i for i, place in enumerate(listed) if challenge.chosen(*place)]
    assert 80 < len(got) < 160
    assert chosen(listed, 0.3, "other") != got
    assert chosen(listed, 1.0, "dice") == list(range(400))


def test_a_count_takes_the_smallest_numbers() -> None:
    listed = [(0, line) for line in range(200)]
    number = Challenge("dice", 1.0).number
    got = chosen(listed, 15, "dice")
    assert sorted(number(*listed[i]) for i in got) == sorted(number(*place) for place in listed)[:15]
    assert set(got) < set(chosen(listed, 16, "dice"))
    assert chosen(listed, 1000, "dice") == list(range(200))


def test_what_a_line_says_of_itself_does_not_choose_it(tmp_path: Path) -> None:
    """Lines that all claim one call are drawn each for itself: false ones cannot hide behind one draw."""
    folder = tmp_path / "run.hawk"
    line = traces.line(folder, traces.golden("dev-0007")[0])
    traces.write(folder, [[line | {"step": 0, "call": 5} for _ in range(24)]])
    picked = {key: len(hawkeye.verify(folder, sample=0.5, key=key).verdicts) for key in "abcd"}
    assert all(4 < count < 20 for count in picked.values())


def test_a_trace_writes_nothing_of_its_own_to_a_terminal(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    traces.reseal(folder, device={"gpu": "NVIDIA H200: 6 exact.\n\x1b[8m\x9b2J"})
    for command in ("verify", "show"):
        said = cli(command, folder, status=None).stdout
        assert "NVIDIA H200: 6 exact.\\u000a\\u001b[8m\\u009b2J" in said
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", said)


def test_sampled_lines(cli: Any, calls: Path) -> None:  # noqa: F811
    recorded = hawkeye.open_set(calls)
    challenge = Challenge("dice", 0.4)
    want = [c["id"] for c, at in zip(recorded.cases(), places(recorded)) if challenge.chosen(*at)]
    assert 0 < len(want) < 24
    report = hawkeye.verify(calls, sample=0.4, key="dice")
    assert [v.id for v in report.verdicts] == want
    assert (report.ok, report.status, report.chosen, report.total) == (True, 0, len(want), 24)
    assert report.counts == {"exact": len(want), "undecided": 0, "wrong": 0}
    said = f"Chosen: {len(want)} of 24 lines, by sample 0.4 and key dice. Nothing is claimed of the others."
    done = cli("verify", calls, "--sample", "0.4", "--key", "dice")
    assert said in done.stdout
    assert done.stdout == f"{report}\n"
    done = cli("verify", calls, "--sample", "0.4", "--key", "dice", "--json")
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == want
    assert said in done.stderr


def test_a_key_that_was_drawn_repeats_its_choice(cli: Any, calls: Path) -> None:  # noqa: F811
    done = cli("verify", calls, "--sample", "3")
    key = re.search(r"by sample 3 and key (\w{32})\.", done.stdout)
    assert key is not None
    assert cli("verify", calls, "--sample", "3", "--key", key[1]).stdout == done.stdout
    assert key[1] not in cli("verify", calls, "--sample", "3").stdout


def test_a_broken_line_outside_of_the_sample_is_still_said(cli: Any, calls: Path) -> None:  # noqa: F811
    """The chain is of all lines; operands only of those chosen."""
    index = calls / "rank-0001.jsonl"
    index.write_bytes(index.read_bytes().replace(b'"allow_tf32": false', b'"allow_tf32": true', 1))
    taken = {v.id for v in hawkeye.verify(calls, sample=1, key="a").verdicts}
    key = "a" if "r1-000000" not in taken else "b"
    done = cli("verify", calls, "--sample", "1", "--key", key, status=1)
    assert "Broken: rank-0001.jsonl, line 1" in done.stdout


def test_an_operand_of_a_line_not_chosen_is_not_read(trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    cases = hawkeye.open_set(folder).cases()
    key = next(k for k in "abcdefgh" if len(hawkeye.verify(folder, sample=0.5, key=k).verdicts) in (2, 3, 4))
    taken = {v.id for v in hawkeye.verify(folder, sample=0.5, key=key).verdicts}
    for case in cases:
        if case["id"] not in taken:
            flip(folder / "tensors" / case["a"]["file"][:2] / f"{case['a']['file']}.safetensors")
    assert hawkeye.verify(folder, sample=0.5, key=key).ok
    report = hawkeye.verify(folder)
    assert (report.ok, report.status) == (False, 1)
    assert len(report.undecided) == 6 - len(taken)


def test_nothing_chosen_is_not_ok(calls: Path) -> None:
    report = hawkeye.verify(calls, sample=1e-9, key="dice")
    assert (report.ok, report.status, report.verdicts) == (False, 2, [])
    assert "nothing was verified" in str(report)


def test_cases_of_a_set(few: Path) -> None:  # noqa: F811
    report = hawkeye.verify(few, sample=2, key="dice")
    number = Challenge("dice", 1.0).number
    least = sorted(range(6), key=lambda index: number(0, index))[:2]
    cases = hawkeye.open_set(few).cases()
    assert [v.id for v in report.verdicts] == [cases[index]["id"] for index in sorted(least)]
    assert "Chosen: 2 of 6 cases" in str(report)
    assert report.root is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--key", "dice"), "say also how much"),
        (("--sample", "0.5", "--key", " "), "The key is empty"),
        (("--sample", "0.5", "--only", "r0-000000"), "leave out one of only and sample"),
        (("--sample", "2.5"), "sample is 2.5"),
        (("--sample", "many"), "sample is many"),
    ],
)
def test_what_does_not_go_together(cli: Any, calls: Path, options: tuple[str, ...], says: str) -> None:  # noqa: F811
    assert says in sentence(cli("verify", calls, *options, status=3))


# ---- reports --------------------------------------------------------------------------------------------------------


def test_report(trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    moves: list[tuple[int, int]] = []
    report = hawkeye.verify(folder, root=root, threads=1, progress=lambda done, total: moves.append((done, total)))
    assert (report.ok, report.status, report.root, report.problems) == (True, 0, root, [])
    assert moves == sorted(moves)
    assert moves[-1][0] == moves[-1][1] == moves[0][1]
    assert str(report) == f"run.hawk: 6 recorded cases of an NVIDIA H200 (torch 2.11.0): 6 exact.\n{RECORDED}"
    fields = json.loads(report.to_json())
    assert (fields["ok"], fields["total"], fields["chosen"], fields["root"]) == (True, 6, 6, root)
    assert [v["id"] for v in fields["verdicts"]] == [v.id for v in report.exact]
    assert not report.wrong
    assert not report.undecided
    other = hawkeye.verify(folder, root="0" * 64, only=["r0-000000"])
    assert (other.ok, other.status, len(other.verdicts)) == (False, 1, 1)
    assert "Broken: the root is" in str(other)


def test_what_is_not_exact(few: Path) -> None:  # noqa: F811
    lines = few.read_text(encoding="utf-8").splitlines()
    changed = json.loads(lines[1])
    data = bytearray(few.with_suffix(".bin").read_bytes())
    data[changed["offset"] + changed["bytes"] // 2] ^= 1
    few.with_suffix(".bin").write_bytes(data)
    report = hawkeye.verify(few)
    assert ([v.id for v in report.wrong], report.ok, report.status) == ([changed["id"]], False, 1)
    assert f"{changed['id']} (" in str(report)
    assert "1 wrong" in str(report)
    gone = ("sha256", "offset", "bytes", "elements")
    lines[2] = json.dumps({k: v for k, v in json.loads(lines[2]).items() if k not in gone})
    few.write_text("\n".join([lines[0], *lines[2:]]) + "\n", encoding="utf-8")
    report = hawkeye.verify(few)
    assert (report.counts, report.status) == ({"exact": 4, "undecided": 1, "wrong": 0}, 2)


def test_stopped_by_its_progress(trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    with pytest.raises(hawkeye.Cancelled):
        hawkeye.verify(folder, progress=lambda done, _: done == 0)


# ---- other devices --------------------------------------------------------------------------------------------------


def recorded_on(folder: Path, device: dict[str, Any]) -> str:
    return traces.reseal(folder, device=device)


def test_a_trace_of_another_gpu(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    """The note that all cases have is said once; the split-K note of one case stays that case's."""
    folder, _ = trace
    root = recorded_on(folder, {"gpu": "NVIDIA A100-SXM4-80GB"})
    done = cli("verify", folder, "--root", root)
    assert "6 recorded cases of an NVIDIA A100-SXM4-80GB" in done.stdout
    note = "recorded on an NVIDIA A100-SXM4-80GB: the rules were measured on an NVIDIA H200"
    assert done.stdout.count(note) == 1
    assert f"Note: {note} (6 cases)." in done.stdout
    verdict = hawkeye.verify(folder, only=["r0-000001"]).exact[0]
    assert verdict.notes[0].startswith(note)
    # Other results: some of them are wrong on an H200, and none elsewhere.
    lines = [traces.line(folder, case) | {"module": ""} for case in traces.golden(*IDS)]
    for line in lines:
        line["out"]["sha256"] = "0" * 64
    (folder / "rank-0001.jsonl").unlink()
    traces.write(folder, [lines])
    assert hawkeye.verify(folder).counts["wrong"] >= 1
    recorded_on(folder, {"gpu": "NVIDIA A100-SXM4-80GB"})
    report = hawkeye.verify(folder)
    assert (len(report.undecided), report.status) == (6, 2)
    assert all(v.reason.startswith(f"{note}; ") for v in report.verdicts)
    recorded_on(folder, {"device": "cpu", "cpu": "x86_64, AVX512"})
    report = hawkeye.verify(folder)
    assert (len(report.undecided), report.status) == (6, 2)
    said = "recorded on a CPU (x86_64, AVX512): no rule is known for it; "
    assert all(v.reason.startswith(said) for v in report.verdicts)


def test_another_library(trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    recorded_on(folder, {"gpu": "NVIDIA H200", "nvidia-cublas": "13.4.1.3"})
    text = str(hawkeye.verify(folder))
    assert "6 exact." in text
    said = "Note: recorded with cuBLAS 13.4.1.3: the rules were measured with cuBLAS 13.1.0.3 (6 cases)."
    assert text.endswith(said)
    assert text.count("recorded with") == 1


def test_an_emulated_trace(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    recorded_on(folder, {"gpu": "NVIDIA H200", "emulated": "h200-torch2.11", "cpu": "x86_64"})
    text = cli("verify", folder).stdout
    assert text == (
        "run.hawk: 6 recorded cases of an NVIDIA H200, emulated on a CPU (torch 2.11.0): 6 exact.\n"
        f"{RECORDED}\n{NO_ROOT}\n"
    )


# ---- going on -------------------------------------------------------------------------------------------------------


def test_resume(cli: Any, calls: Path, tmp_path: Path) -> None:  # noqa: F811
    kept = tmp_path / "verdicts.jsonl"
    whole = cli("verify", calls, "--json", "--resume", kept)
    entries = [json.loads(line) for line in kept.read_bytes().splitlines()]
    assert entries[0]["root"] == hawkeye.open_set(calls).trace["root"]  # type: ignore[index]
    assert [entry["index"] for entry in entries[1:]] == list(range(24))
    # A torn last line is dropped, and its line verified again.
    kept.write_bytes(kept.read_bytes()[:-10])
    seen: list[int] = []
    report = hawkeye.verify(calls, resume=kept, progress=lambda done, total: seen.append(done * 100 // total))
    assert (report.ok, len(report.verdicts)) == (True, 24)
    assert min(seen) > 90
    lines = kept.read_bytes().splitlines()
    assert len(lines) == 25
    assert [json.loads(line)["index"] for line in lines[1:]] == list(range(24))
    # What is in it is not verified again: a verdict of it is believed.
    lines[5] = lines[5].replace(b'"exact"', b'"wrong"')
    kept.write_bytes(b"\n".join(lines) + b"\n")
    done = cli("verify", calls, "--resume", kept, status=1)
    assert "23 exact, 1 wrong" in done.stdout
    # In JSON all verdicts come, those from before too.
    again = cli("verify", calls, "--json", "--resume", kept, status=1)
    assert len(again.stdout.splitlines()) == len(whole.stdout.splitlines()) == 24


def test_resume_of_a_sample(cli: Any, calls: Path, tmp_path: Path) -> None:  # noqa: F811
    """The file keeps a key that was drawn; lines of another choice in it are not counted."""
    kept = tmp_path / "verdicts.jsonl"
    first = cli("verify", calls, "--sample", "3", "--resume", kept).stdout
    again = cli("verify", calls, "--sample", "3", "--resume", kept).stdout
    assert again == f"{first}Note: 3 verdicts are from {kept}: the tensor files of their lines were not read again.\n"
    report = hawkeye.verify(calls, sample=2, key="another", resume=kept)
    assert report.chosen == len(report.verdicts)
    assert report.key == "another"


def test_broken_lines_are_looked_at_again(trace: tuple[Path, str], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = trace
    name = hawkeye.open_set(folder).cases()[1]["a"]["file"]
    file = folder / "tensors" / name[:2] / f"{name}.safetensors"
    moved = tmp_path / "moved"
    file.rename(moved)
    assert hawkeye.verify(folder, resume=tmp_path / "kept").status == 1
    moved.rename(file)
    assert hawkeye.verify(folder, resume=tmp_path / "kept").ok


def test_resume_of_something_else(
    cli: Any,  # noqa: F811
    trace: tuple[Path, str],  # noqa: F811
    few: Path,  # noqa: F811
    tmp_path: Path,
) -> None:
    folder, _ = trace
    kept = tmp_path / "verdicts.jsonl"
    cli("verify", folder, "--resume", kept)
    before = kept.read_bytes()
    said = sentence(cli("verify", folder, "--blind", "--resume", kept, status=3))
    assert "blind was false and is true. Name another file for --resume" in said
    assert "the root of the trace was" in sentence(cli("verify", few, "--resume", kept, status=3))
    recorded_on(folder, {"gpu": "NVIDIA A100"})
    assert "the root of the trace was" in sentence(cli("verify", folder, "--resume", kept, status=3))
    assert kept.read_bytes() == before
    cli("verify", few, "--resume", tmp_path / "few.kept")
    data = few.with_suffix(".bin")
    data.write_bytes(data.read_bytes() + b"x")
    assert "stored elements" in sentence(cli("verify", few, "--resume", tmp_path / "few.kept", status=3))


@pytest.mark.parametrize("text", [b"my notes", b"my notes\n", b"{}\n", b"[1]\n", b'{"hawkeye": "verif', b"\xff\n"])
def test_files_that_are_no_verdicts(cli: Any, calls: Path, tmp_path: Path, text: bytes) -> None:  # noqa: F811
    kept = tmp_path / "notes"
    kept.write_bytes(text)
    if text.startswith(b'{"hawkeye"'):  # a first line that was not written to its end
        assert hawkeye.verify(calls, sample=1, key="a", resume=kept).chosen > 0
        return
    assert "was not written by a verification" in sentence(cli("verify", calls, "--resume", kept, status=3))
    assert kept.read_bytes() == text


@pytest.mark.parametrize("line", [b"x", b'{"index": 0}', b'{"index": 24, "verdict": {"verdict": "exact"}}', b"7"])
def test_lines_that_are_no_verdicts(calls: Path, tmp_path: Path, line: bytes) -> None:
    kept = tmp_path / "kept"
    hawkeye.verify(calls, sample=1, key="a", resume=kept)
    kept.write_bytes(kept.read_bytes() + line + b"\n")
    with pytest.raises(hawkeye.ArgumentError, match="was not written by a verification"):
        hawkeye.verify(calls, resume=kept)


def test_ctrl_c_says_how_to_go_on(environment: dict[str, str], tmp_path: Path) -> None:
    kept = tmp_path / "kept verdicts"
    # A background job starts with SIGINT ignored.
    start = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
    start += "from hawkeye.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", start, "verify", str(GOLDEN), "--blind", "--sample", "500", "--key", "a b"]
    running = subprocess.Popen(
        [*command, "--resume", str(kept)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    limit = time.monotonic() + 60
    while time.monotonic() < limit and (not kept.exists() or kept.read_bytes().count(b"\n") < 4):
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, said = running.communicate(timeout=60)
    assert running.returncode == 130, out + said
    assert "Traceback" not in said
    assert "hawkeye: interrupted after" in said
    assert f"go on with: hawkeye verify {GOLDEN} --blind --sample 500 --key 'a b' --resume '{kept}'" in said
    lines = kept.read_bytes().splitlines()
    assert len(lines) >= 4
    assert all(json.loads(line) for line in lines)


# ---- a part of each output ------------------------------------------------------------------------------------------


def test_rows(cli: Any, few: Path) -> None:  # noqa: F811
    report = hawkeye.verify(few, rows=3)
    parts = [v for v in report.verdicts if " elements, in 3 rows" in str(v.details.get("compared"))]
    assert len(parts) >= 3
    assert "Note: of" in str(report)
    assert "no hash of an output" in str(report)
    for v in parts:
        m = next(case["m"] * case["batch"] for case in hawkeye.open_set(few).cases() if case["id"] == v.id)
        assert m > 3
        assert v.details["elements"] == int(str(v.details["compared"]).split()[0])
        if v.verdict == "exact":
            assert v.notes == ["the hash of the whole output was not compared"]
            assert v.details["evidence_bits"] >= 30
    assert not report.wrong
    text = cli("verify", few, "--rows", "3", status=report.status).stdout
    assert text == f"{report}\n"
    assert str(report.exact[0].id) not in text  # what all exact ones share is said once
    assert "rows" in sentence(cli("verify", few, "--rows", "0", status=3))
    with pytest.raises(hawkeye.ArgumentError, match="rows is 0"):
        hawkeye.verify(few, rows=0)


def test_rows_of_a_hash_alone(trace: tuple[Path, str]) -> None:  # noqa: F811
    """Where all rows would be computed the hash is compared; else there is nothing to compare."""
    folder, _ = trace
    sizes = {case["id"]: case["batch"] * case["m"] for case in hawkeye.open_set(folder).cases()}
    report = hawkeye.verify(folder, rows=12)
    assert 0 < len(report.exact) < 6
    for v in report.verdicts:
        assert (v.verdict == "exact") == (sizes[v.id] <= 12)
        if v.verdict != "exact":
            assert v.reason.endswith("a part of it cannot be compared; leave out --rows")


def test_rows_are_part_of_what_is_resumed(cli: Any, few: Path, tmp_path: Path) -> None:  # noqa: F811
    kept = tmp_path / "kept"
    hawkeye.verify(few, rows=3, resume=kept)
    assert "rows was 3 and is none" in sentence(cli("verify", few, "--resume", kept, status=3))


# ---- what an auditor asks for ---------------------------------------------------------------------------------------


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[Path, str]:
    """A trace of 12 lines of six products with different operands, in two processes."""
    folder = tmp_path / "mixed.hawk"
    lines = [traces.line(folder, case, step=i, call=0) for i, case in enumerate(traces.golden(*IDS))]
    return folder, traces.write(folder, [lines, lines])


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.glob("tensors/*/*")}


def test_reveal(cli: Any, mixed: tuple[Path, str], tmp_path: Path) -> None:  # noqa: F811
    folder, root = mixed
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    for file in folder.glob("tensors/*/*"):
        file.chmod(0o600)
    asked = ("--sample", "4", "--key", "dice")
    report = hawkeye.verify(folder, sample=4, key="dice")
    text = cli("reveal", folder, "-o", tmp_path / "out" / "answer.hawk", *asked).stdout
    answer = tmp_path / "out" / "answer.hawk"
    assert f"Root {root}, as before." in text
    assert re.search(r"the tensors of 4 of 12 lines, in \d+ of 13 files, [\d.]+ kB of [\d.]+ kB; \d+ are links\.", text)
    assert answer.stat().st_mode & 0o777 == 0o700
    for file in answer.rglob("*"):
        assert file.stat().st_mode & 0o777 == (0o700 if file.is_dir() else 0o600)
        if file.is_file():
            assert file.read_bytes() == before[folder / file.relative_to(answer)]
    assert (answer / "manifest.json").stat().st_nlink == 1
    lines = {case["id"]: case for case in hawkeye.open_set(folder).cases()}
    needed = {lines[v.id][part]["file"] for v in report.verdicts for part in ("a", "b", "c") if part in lines[v.id]}
    assert names(answer) == {f"{name}.safetensors" for name in needed}
    assert len(needed) < 13
    # What was asked for is verified, and nothing else can be.
    done = cli("verify", answer, "--root", root, *asked)
    assert "4 exact" in done.stdout
    assert [v.id for v in hawkeye.verify(answer, sample=4, key="dice").verdicts] == [v.id for v in report.verdicts]
    rest = hawkeye.verify(answer)
    assert rest.status == 1
    assert {v.verdict for v in rest.verdicts} == {"exact", "undecided"}
    # The wrong key: chosen lines are not there.
    other = next(k for k in "abcdefgh" if not hawkeye.verify(answer, sample=4, key=k).ok)
    done = cli("verify", answer, "--root", root, "--sample", "4", "--key", other, status=1)
    assert "the trace is broken" in done.stdout
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


def test_reveal_copies_what_others_may_read(cli: Any, mixed: tuple[Path, str], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = mixed
    for file in folder.glob("tensors/*/*"):
        file.chmod(0o644)
    assert "links" not in cli("reveal", folder, "-o", "answer", "--sample", "1.0", "--key", "k").stdout
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "answer").glob("tensors/*/*")} == {0o600}
    assert names(tmp_path / "answer") == names(folder)


def test_reveal_refuses(cli: Any, mixed: tuple[Path, str], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = mixed
    asked = ("--sample", "1.0", "--key", "dice")
    assert "is not empty" in sentence(cli("reveal", folder, "-o", folder, *asked, status=3))
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "is a file" in sentence(cli("reveal", folder, "-o", "file", *asked, status=3))
    assert "is no trace" in sentence(cli("reveal", GOLDEN, "-o", "out", *asked, status=3))
    assert "key" in sentence(cli("reveal", folder, "-o", "out", "--sample", "1.0", status=3))
    assert "The key is empty" in sentence(cli("reveal", folder, "-o", "out", "--sample", "1", "--key", "", status=3))
    assert not (tmp_path / "out").exists()


def test_reveal_of_a_broken_file(cli: Any, mixed: tuple[Path, str], tmp_path: Path) -> None:  # noqa: F811
    folder, _ = mixed
    asked = ("--sample", "1.0", "--key", "dice")
    name = hawkeye.open_set(folder).cases()[0]["b"]["file"]
    broken = folder / "tensors" / name[:2] / f"{name}.safetensors"
    flip(broken)
    assert "its bytes have the hash" in sentence(cli("reveal", folder, "-o", "out", *asked, status=3))
    assert not (tmp_path / "out" / "manifest.json").exists()
    done = cli("reveal", folder, "-o", "forced", *asked, "--force", status=1)
    assert f"Broken: tensors/{name[:2]}/{name}.safetensors: its bytes have the hash" in done.stdout
    assert broken.name not in names(tmp_path / "forced")
    broken.unlink()
    broken.symlink_to("/etc/passwd")
    said = sentence(cli("reveal", folder, "-o", "linked", *asked, status=3))
    assert "is broken" in said


def test_reveal_of_an_unsealed_or_changed_trace(cli: Any, mixed: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = mixed
    asked = ("--sample", "1.0", "--key", "dice")
    index = folder / "rank-0000.jsonl"
    index.write_bytes(index.read_bytes().replace(b'"allow_tf32": false', b'"allow_tf32": true', 1))
    assert "--force reveals it all the same" in sentence(cli("reveal", folder, "-o", "out", *asked, status=3))
    cli("reveal", folder, "-o", "out", *asked, "--force", status=1)
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"sealed": False}), encoding="utf-8")
    index.write_bytes(index.read_bytes().replace(b'"allow_tf32": true', b'"allow_tf32": false', 1))
    assert "it is not sealed" in sentence(cli("reveal", folder, "-o", "out2", *asked, status=3))
    assert "Note: the trace is not sealed" in cli("reveal", folder, "-o", "out2", *asked, "--force").stdout

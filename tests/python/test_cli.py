"""The command line, as a user runs it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import hawkeye
import ml_dtypes
import numpy as np
import pytest
from conftest import GOLDENS
from operands import random, same

GOLDEN = GOLDENS / "h200-torch2.11.jsonl"


@pytest.fixture
def cli(environment: dict[str, str], tmp_path: Path) -> Any:
    environment.update(COLUMNS="160", TERM="dumb", NO_COLOR="1")

    def run(*arguments: Any, status: int | None = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hawkeye", *map(str, arguments)]
        done = subprocess.run(command, env={**environment, **more}, cwd=tmp_path, capture_output=True, text=True)
        if status is not None:
            assert done.returncode == status, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    return run


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """Standard error of a refusal: one line, no traceback."""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("hawkeye: ")
    assert done.stdout == ""
    return lines[0]


# ---- help, errors ---------------------------------------------------------------------------------------------------


def test_help_teaches(cli: Any) -> None:
    text = cli("--help").stdout
    commands = (
        "demo",
        "verify",
        "show",
        "reveal",
        "discover",
        "explain",
        "why",
        "golden",
        "gemm",
        "profiles",
        "doctor",
        "bench",
    )
    for word in (*commands, "hawkeye gemm A.npy B.npy", "Exit status"):
        assert word in text
    for command in commands:
        text = cli(command, "--help").stdout
        assert "Example" in text
        assert f"hawkeye {command}" in text


def test_installed_command() -> None:
    script = shutil.which("hawkeye", path=str(Path(sys.executable).parent))
    if script is None:
        pytest.skip("hawkeye is imported from a checkout, so its command is not installed")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"hawkeye {hawkeye.__version__}"


def test_version(cli: Any) -> None:
    assert cli("--version").stdout.strip() == f"hawkeye {hawkeye.__version__}"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("golden", "nowhere.jsonl"), "no file or trace nowhere.jsonl"),
        (("gemm", "A.npy", "B.npy", "-o", "D.npy"), "There is no file A.npy"),
        (("profiles", "hopper/nonsense"), "hopper/nonsense"),
        (("bench", "--only", "nothing"), "No row's label holds 'nothing'"),
        (("gemm",), "A.npy"),
        (("nonsense",), "nonsense"),
        (("demo", "--colour"), "--colour"),
        (("demo", "--threads", "-1"), "threads"),
    ],
)
def test_bad_input_is_one_sentence_and_status_3(cli: Any, arguments: tuple[str, ...], says: str) -> None:
    assert says in sentence(cli(*arguments, status=3))


def test_missing_library_is_one_sentence(cli: Any, tmp_path: Path) -> None:
    done = cli("profiles", status=3, HAWKEYE_LIBRARY=str(tmp_path / "nowhere.so"))
    assert "is missing at" in sentence(done)


# ---- profiles, doctor -----------------------------------------------------------------------------------------------


def test_profiles(cli: Any) -> None:
    table = cli("profiles").stdout
    listed = json.loads(cli("profiles", "--json").stdout)
    assert {p["name"] for p in listed} == {p.name for p in hawkeye.profiles()}
    for p in listed:
        assert p["name"] in table
    words = cli("profiles", "hopper/bf16").stdout
    assert hawkeye.profile("hopper/bf16").id in words
    assert hawkeye.profile("hopper/bf16").describe().strip() in words
    text = cli("profiles", "hopper/bf16", "--json").stdout
    assert hawkeye.profile(text) == hawkeye.profile("hopper/bf16")


def test_doctor(cli: Any) -> None:
    facts = json.loads(cli("doctor", "--json").stdout)
    assert facts["missing"] == []
    assert facts["hawkeye"] == facts["library version"] == hawkeye.__version__
    assert facts["ABI"] == "1"
    assert facts["instruction sets"] == hawkeye.instruction_sets()
    assert facts["numpy"] == np.__version__
    assert "Everything Hawkeye needs is in place." in cli("doctor").stdout


def test_doctor_says_what_is_missing(cli: Any, tmp_path: Path) -> None:
    done = cli("doctor", status=1, HAWKEYE_LIBRARY=str(tmp_path / "nowhere.so"))
    assert "Missing: Hawkeye's shared library is missing" in done.stdout


def test_doctor_tells_of_a_chosen_instruction_set(cli: Any) -> None:
    facts = json.loads(cli("doctor", "--json", HAWKEYE_ISA="portable").stdout)
    assert facts["instruction set"] == "portable"
    if len(facts["instruction sets"]) > 2:
        assert any("HAWKEYE_ISA chose portable" in text for text in facts["advice"])


# ---- gemm -----------------------------------------------------------------------------------------------------------


def test_gemm_of_f16(cli: Any, tmp_path: Path) -> None:
    a, b = random("f16", (2, 5, 64), 1), random("f16", (64, 3), 2)
    np.save(tmp_path / "A.npy", a)
    np.save(tmp_path / "B.npy", np.asfortranarray(b))
    cli("gemm", "A.npy", "B.npy", "--profile", "ampere/f16", "-o", "D.npy")
    same(np.load(tmp_path / "D.npy"), hawkeye.matmul(a, b, profile="ampere/f16"))
    cli("gemm", "A.npy", "B.npy", "-p", "ampere/f16", "-o", "D2", "--out-dtype", "f32", "--threads", "2")
    same(np.load(tmp_path / "D2"), hawkeye.matmul(a, b, profile="ampere/f16", out_dtype="f32"))


def test_gemm_of_raw_elements(cli: Any, tmp_path: Path) -> None:
    a, b = random("bf16", (5, 64), 1), random("bf16", (64, 3), 2)
    np.save(tmp_path / "A.npy", a)  # as void of two bytes
    np.save(tmp_path / "B.npy", b.view(np.uint16))
    done = cli("gemm", "A.npy", "B.npy", "-o", "D.npy", status=3)
    assert "--dtype bf16 (or --dtype-a for this file alone)" in sentence(done)
    done = cli("gemm", "A.npy", "B.npy", "--dtype", "bf16", "-o", "D.npy")
    assert "view(ml_dtypes.bfloat16)" in done.stderr
    same(np.load(tmp_path / "D.npy").view(ml_dtypes.bfloat16), hawkeye.matmul(a, b))


def test_gemm_keeps_its_operands(cli: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float16))
    before = (tmp_path / "A.npy").read_bytes()
    for output in ("A.npy", "./A.npy"):
        assert "is an operand" in sentence(cli("gemm", "A.npy", "A.npy", "-o", output, status=3))
    assert (tmp_path / "A.npy").read_bytes() == before
    assert "There is no file nowhere.npy" in sentence(cli("gemm", "nowhere.npy", "A.npy", "-o", "D.npy", status=3))
    assert "is a folder" in sentence(cli("golden", ".", status=3))


def test_gemm_of_mixed_f8(cli: Any, tmp_path: Path) -> None:
    a, b = random("e4m3", (5, 64), 1), random("e5m2", (64, 3), 2)
    np.save(tmp_path / "A.npy", a.view(np.uint8))
    np.save(tmp_path / "B.npy", b)
    cli("gemm", "A.npy", "B.npy", "--dtype-a", "e4m3", "--dtype-b", "e5m2", "-o", "D.npy", "--out-dtype", "f32")
    same(np.load(tmp_path / "D.npy"), hawkeye.matmul(a, b, out_dtype="f32"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--profile", "hopper/bf16"], "in f16, and profile hopper/bf16"),
        (["--dtype", "bf16"], "not raw bit patterns"),
        (["--out-dtype", "f17"], "f17"),
    ],
)
def test_gemm_refusals(cli: Any, tmp_path: Path, options: list[str], says: str) -> None:
    np.save(tmp_path / "A.npy", np.ones((2, 2), np.float16))
    assert says in sentence(cli("gemm", "A.npy", "A.npy", "-o", "D.npy", *options, status=3))
    assert not (tmp_path / "D.npy").exists()


def test_gemm_never_unpickles(cli: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "A.npy", np.array([[object()]], object), allow_pickle=True)
    assert "cannot be read" in sentence(cli("gemm", "A.npy", "A.npy", "-o", "D.npy", status=3))
    (tmp_path / "A.npy").write_bytes(b"")
    assert "cannot be read" in sentence(cli("gemm", "A.npy", "A.npy", "-o", "D.npy", status=3))


# ---- golden ---------------------------------------------------------------------------------------------------------


def small_cases(count: int) -> list[dict[str, Any]]:
    """The quickest cases of plain kernels, whose replay must be exact."""
    cases = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[1:]]
    plain = [c for c in cases if len(c["kernels"]) == 1 and "nvjet" in c["kernels"][0] and "c" not in c]
    plain = [c for c in plain if c["m"] * c["n"] * c["batch"] >= 64]
    return sorted(plain, key=lambda c: c["m"] * c["n"] * c["k"] * c["batch"])[:count]


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A small set beside the whole set's stored elements."""
    lines = GOLDEN.read_text(encoding="utf-8").splitlines()
    ids = {c["id"] for c in small_cases(6)}
    kept = [line for line in lines if "about" in json.loads(line) or json.loads(line)["id"] in ids]
    (tmp_path / "few.jsonl").write_text("\n".join(kept) + "\n", encoding="utf-8")
    shutil.copyfile(GOLDEN.with_suffix(".bin"), tmp_path / "few.bin")
    return tmp_path / "few.jsonl"


def test_golden_replays_exactly(cli: Any, few: Path) -> None:
    done = cli("golden", few)
    assert "By operation and number formats" in done.stdout
    assert "By kernel family" in done.stdout
    assert "Nothing is wrong." in done.stdout


def test_golden_json_is_a_line_a_case_and_nothing_else(cli: Any, few: Path) -> None:
    done = cli("golden", few, "--json")
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(verdicts) == 6
    for v in verdicts:
        assert v["verdict"] == "exact"
        assert {"id", "plan", "op", "dtype", "family", "multiply_adds", "seconds"} <= set(v)


def test_golden_only(cli: Any, few: Path) -> None:
    first, second = (c["id"] for c in small_cases(2))
    done = cli("golden", few, "--json", "--only", second, "--only", first, "--threads", "1")
    assert {json.loads(line)["id"] for line in done.stdout.splitlines()} == {first, second}
    assert "no case dev-9999" in sentence(cli("golden", few, "--only", "dev-9999", status=3))


def test_a_changed_output_is_wrong(cli: Any, few: Path) -> None:
    """One bit of one stored element, or a digit of the hash, must be seen."""
    case = small_cases(1)[0]
    data = bytearray(few.with_suffix(".bin").read_bytes())
    data[case["offset"] + case["bytes"] // 2] ^= 1
    few.with_suffix(".bin").write_bytes(data)
    done = cli("golden", few, status=1)
    assert "1 wrong: " + case["id"] in done.stdout
    verdicts = [json.loads(line) for line in cli("golden", few, "--json", status=1).stdout.splitlines()]
    assert [v["id"] for v in verdicts if v["verdict"] == "wrong"] == [case["id"]]


def test_expected_cases_are_held_to(cli: Any, few: Path) -> None:
    cli("golden", few, "--write-expected")
    listed = few.with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    assert len([line for line in listed if not line.startswith("#")]) == 6
    assert "all 6 expected to be exact are" in cli("golden", few).stdout
    # A case whose output was not recorded is undecided: expecting it to be exact must fail.
    lines = few.read_text(encoding="utf-8").splitlines()
    changed = {k: v for k, v in json.loads(lines[1]).items() if k not in ("sha256", "offset", "bytes", "elements")}
    few.write_text("\n".join([lines[0], json.dumps(changed), *lines[2:]]) + "\n", encoding="utf-8")
    done = cli("golden", few, status=1)
    assert f"1 expected to be exact, and not: {changed['id']}" in done.stdout


@pytest.mark.parametrize(
    "text", ["", "not JSON\n", "[1, 2]\n", '{"op": "mm"}\n', '{"about": {}}\n{"op": "mm", "m": -1}\n']
)
def test_hostile_sets_are_refused(cli: Any, tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text, encoding="utf-8")
    (tmp_path / "x.bin").write_bytes(b"")
    sentence(cli("golden", "x.jsonl", status=3))


def test_stored_elements_that_are_not_there(cli: Any, few: Path) -> None:
    stored = few.with_suffix(".bin")
    stored.write_bytes(b"")
    assert "few.bin: ends before the output elements of dev-" in sentence(cli("golden", few, status=3))
    stored.unlink()
    assert "few.bin, which holds the set's output elements, cannot be read" in sentence(cli("golden", few, status=3))


def test_case_ids_are_the_librarys(cli: Any, few: Path) -> None:
    opened = hawkeye.open_set(few)
    assert [case["id"] for case in opened.cases()] == [v.id for v in opened]


def test_sets_of_the_api(few: Path) -> None:
    opened = hawkeye.open_set(few)
    assert len(opened) == 6
    assert opened.about["cases"] == 6
    verdict = opened.replay(5, threads=1)
    assert verdict.verdict == "exact"
    assert verdict.multiply_adds > 0
    with pytest.raises(IndexError):
        opened.replay(6)
    with pytest.raises(hawkeye.FileError):
        hawkeye.open_set(few.with_name("nowhere.jsonl"))


# ---- demo, bench ----------------------------------------------------------------------------------------------------


def test_golden_set_is_found_and_whole() -> None:
    from hawkeye.cli._paths import golden_set

    shipped = golden_set()
    assert len(hawkeye.open_set(shipped)) == 517
    assert shipped.read_bytes() == GOLDEN.read_bytes()


def test_what_the_demo_holds_itself_to() -> None:
    """Every case of an nvjet or s8 kernel, and most of the others, must be exact for the demo to succeed."""
    from hawkeye.cli._paths import golden_set

    expected = hawkeye.open_set(golden_set()).expected()
    assert expected is not None
    cases = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[1:]]
    known = {c["id"] for c in cases if c["op"] == "int_mm" or any("nvjet" in k for k in c["kernels"])}
    assert len(known) == 206 + 9
    assert known <= expected <= {c["id"] for c in cases}
    assert len(expected) >= 340


def test_stories_and_tables() -> None:
    from hawkeye._sets import Verdict
    from hawkeye.cli import _replay

    def verdict(name: str, said: str, **more: Any) -> Verdict:
        fields = {"id": name, "verdict": said, "op": "mm", "dtype": "bf16", "out": "bf16", "family": "nvjet", **more}
        return Verdict.from_json(json.dumps({"multiply_adds": 10**9, "seconds": 0.5, **fields}))

    verdicts = [
        verdict("a", "exact", plan="one chain", plans_tried=1),
        verdict("b", "exact", plan="7 slices", plans_tried=343, compared="sha256 of the whole output"),
        verdict("c", "undecided", reason="too little output"),
        verdict("d", "wrong", reason="8 products are missing"),
        verdict("e", "exact", plan="another", plans_tried=1, multiply_adds=1),
    ]
    assert [v.id for v in _replay.telling(verdicts, 3)] == ["d", "a", "b"]
    assert [v.id for v in _replay.telling(verdicts[:3], 3)] == ["a", "b", "c"]
    case = {"m": 3, "n": 4, "k": 5, "batch": 2}
    assert _replay.story(verdicts[1], case) == (
        "b (mm of bf16, 3x5 by 5x4 in a batch of 2) is reproduced to the last bit (sha256 of the whole output) "
        "with the one of 343 plans tried that fits: 7 slices."
    )
    assert _replay.story(verdicts[3], {}) == "d (mm of bf16) is wrong: 8 products are missing."
    assert _replay.rate(verdicts[:2]) == "2.00"


def test_bench_quick(cli: Any) -> None:
    figures = json.loads(
        cli(
            "bench", "-m", 64, "-n", 64, "-k", 128, "--rounds", 2, "--only", "bf16 hopper", "--no-memory", "--json"
        ).stdout
    )
    for part in figures["speed"]:
        assert part["instruction set"] == part["level"]
        (row,) = part["rows"]
        assert row["rate"] > 0
        assert row["ratio"] > 0
    assert {part["level"] for part in figures["speed"]} <= set(hawkeye.instruction_sets())


def test_bench_memory_is_measured(cli: Any) -> None:
    done = cli("bench", "--quick", "-m", 32, "-n", 32, "-k", 32, "--only", "f16 Hopper")
    assert "Peak memory beyond operands and result at M = N = K = 1024" in done.stdout


def test_a_chosen_case_is_told(cli: Any) -> None:
    """With --only the reason of each case stands below the tables."""
    goldens = Path(__file__).parents[1] / "goldens" / "h200-torch2.11.jsonl"
    told = " ".join(cli("golden", str(goldens), "--only", "dev-0400", "--only", "dev-0184").stdout.split())
    assert re.search(r"dev-0400 \(\w+ of f32, [^)]*\) is undecided: .*too little output", told)  # one element
    assert "is reproduced to the last bit" in told

"""Traces through the package and the command line, written by hand as docs/trace.md says."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import hawkeye
import pytest
import traces
from conftest import GOLDENS, ROOT
from test_cli import cli, sentence  # noqa: F401  a fixture

IDS = ("dev-0197", "dev-0391", "dev-0330", "dev-0376", "dev-0080", "dev-0223")
MODULES = ("GPT.h.0.fc1", "GPT.h.0.fc2", "GPT.h.1.fc1", "GPT.head", "", "GPT.h.1.fc1")


@pytest.fixture
def trace(tmp_path: Path) -> tuple[Path, str]:
    """A trace of six golden cases by two processes, and its root."""
    folder = tmp_path / "run.hawk"
    lines = [
        traces.line(folder, case, module=module, step=i // 2, call=i % 2)
        for i, (case, module) in enumerate(zip(traces.golden(*IDS), MODULES))
    ]
    lines[3]["pass"] = "backward"
    return folder, traces.write(folder, [lines[:4], lines[4:]])


def flip(path: Path, at: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_a_trace_is_a_set(trace: tuple[Path, str]) -> None:
    folder, root = trace
    recorded = hawkeye.open_set(folder)
    assert recorded.trace is not None
    assert (len(recorded), recorded.about["kind"], recorded.trace["root"]) == (6, "trace", root)
    assert recorded.trace["sealed"]
    assert recorded.trace["problem_count"] == 0
    assert [case["id"] for case in recorded.cases()] == [f"r0-{i:06d}" for i in range(4)] + ["r1-000000", "r1-000001"]
    golden = hawkeye.open_set(GOLDENS / "h200-torch2.11.jsonl")
    for name, verdict in zip(IDS, recorded):
        want = golden.replay(name)
        assert (verdict.verdict, verdict.plan, verdict.out) == ("exact", want.plan, want.out), name
    assert golden.trace is None


def test_verify(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    text = cli("verify", folder).stdout
    assert "run.hawk: 6 recorded cases of an NVIDIA H200 (torch 2.11.0): 6 exact." in text
    kept = cli("verify", folder, "--root", root).stdout
    assert text.startswith(kept)
    assert text.removeprefix(kept).startswith("Note: the root was not compared with one kept elsewhere")
    verdicts = [json.loads(line) for line in cli("verify", folder, "--json").stdout.splitlines()]
    assert [v["verdict"] for v in verdicts] == ["exact"] * 6
    assert (
        "r1-000000 (bmm of bf16, 22x15 by 15x6 in a batch of 3) is reproduced"
        in cli("verify", f"{folder}:r1-000000").stdout
    )
    assert "rounded" in cli("explain", f"{folder}:r0-000000").stdout
    cli("why", folder, "r0-000000", "r0-000001")


def test_another_root(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    other = root.translate(str.maketrans("0123456789abcdef", "123456789abcdef0"))
    done = cli("verify", folder, "--root", other, status=1)
    assert f"Broken: the root is {root}, not {other}: lines were changed, removed or added." in done.stdout
    assert "64 hexadecimal" in sentence(cli("verify", folder, "--root", root.upper()[:10], status=3))
    golden = GOLDENS / "h200-pairs.jsonl"
    assert "--root is of a trace" in sentence(cli("verify", golden, "--root", root, status=3))


def test_flipped_operand(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    file = hawkeye.open_set(folder).cases()[1]["b"]["file"]
    flip(folder / "tensors" / file[:2] / f"{file}.safetensors")
    done = cli("verify", folder, "--root", root, status=1)
    assert "rank-0000.jsonl, line 2 (r0-000001), b.file: the file was changed" in done.stdout
    assert "5 exact, 1 undecided" in done.stdout
    cli("show", folder)  # which does not read tensors


def test_flipped_line(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    index = folder / "rank-0000.jsonl"
    text = index.read_bytes()
    index.write_bytes(text.replace(b'"allow_tf32": false', b'"allow_tf32": true', 1))
    for command in ("verify", "show"):
        done = cli(command, folder, status=1)
        assert "Broken: rank-0000.jsonl, line 1 (r0-000000): was changed after it was written" in done.stdout
        assert "Broken: manifest.json, root: is" in done.stdout
    done = cli("verify", folder, "--json", "--root", root, status=1)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [v["verdict"] for v in verdicts] == ["undecided"] + ["exact"] * 5
    assert verdicts[0]["broken"]["line"] == 1
    assert "Broken: the root is" in done.stderr


def test_a_line_that_is_no_record(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    index = folder / "rank-0000.jsonl"
    lines = index.read_bytes().splitlines(keepends=True)
    lines[1] = b"\xff{[" + b"[" * 5000 + b"\n"
    index.write_bytes(b"".join(lines))
    done = cli("verify", folder, "--json", status=1)
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [v["id"] for v in verdicts[:2]] == ["r0-000000", "r0-000001"]
    assert [v["verdict"] for v in verdicts] == ["exact", "undecided"] + ["exact"] * 4
    assert json.loads(cli("show", folder, "--json", status=1).stdout)["unread"] == 1


def test_killed(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, _ = trace
    lines = [traces.line(folder, case) for case in traces.golden(*IDS[:3])]
    for index in folder.glob("rank-*"):
        index.unlink()
    traces.write(folder, [lines], sealed=False)
    index = folder / "rank-0000.jsonl"
    index.write_bytes(index.read_bytes()[:-100])
    done = cli("verify", folder)
    assert "2 exact" in done.stdout
    assert "Note: rank-0000.jsonl, line 3: the last line was not written to its end" in done.stdout
    assert "Note: the trace is not sealed" in done.stdout


def test_show(cli: Any, trace: tuple[Path, str]) -> None:  # noqa: F811
    folder, root = trace
    text = cli("show", folder).stdout
    for words in (
        "Recorded 2026-01-02T03:04:05Z, sealed; 3 steps, 0 to 2 in 2 processes.",
        f"Root {root}",
        r"linear +forward +bf16 +bf16 +1 ",
        r"mm +backward +f16 +f32 +1 ",
        r"\nGPT +5 ",
        r"\n    1 +2 ",
        r"\n      fc1 +2 ",
        r"\n\(no module\) +1 ",
    ):
        assert re.search(words, text), (words, text)
    assert "fc1" not in cli("show", folder, "--depth", 2).stdout
    summary = json.loads(cli("show", folder, "--json").stdout)
    recorded = hawkeye.open_set(folder)
    assert summary["multiply_adds"] == sum(kind["multiply_adds"] for kind in summary["kinds"])
    assert summary["multiply_adds"] == recorded.about["multiply_adds"] == summary["modules"]["multiply_adds"]
    assert summary["modules"]["inside"]["GPT"]["inside"]["h"]["calls"] == 4
    assert (summary["calls"], summary["root"], summary["files"]["count"]) == (6, root, 13)


def test_what_is_no_trace(cli: Any, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "empty").mkdir()
    assert "is a folder and no trace" in sentence(cli("verify", "empty", status=3))
    assert "is no trace" in sentence(cli("show", GOLDENS / "h200-pairs.jsonl", status=3))
    (tmp_path / "empty" / "manifest.json").write_text("{}", encoding="utf-8")
    assert "trace_version" in sentence(cli("show", "empty", status=3))


# ---- docs/trace.schema.json -----------------------------------------------------------------------------------------

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: the schema is not tested")
SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "trace.schema.json").read_text(encoding="utf-8"))


def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]})


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_what_is_written_by_hand(trace: tuple[Path, str]) -> None:
    folder, _ = trace
    validator("manifest").validate(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    for index in folder.glob("rank-*.jsonl"):
        for text in index.read_text(encoding="utf-8").splitlines():
            validator("line").validate(json.loads(text))


def test_the_example_of_the_page(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    (manifest,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    validator("manifest").validate(manifest)
    folder = tmp_path / "example.hawk"
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "rank-0000.jsonl").touch()
    recorded = hawkeye.open_set(folder)
    assert recorded.trace is not None
    assert recorded.trace["problem_count"] == 0


def test_the_page_names_every_field() -> None:
    page = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8") + (ROOT / "docs" / "cases.md").read_text(
        encoding="utf-8"
    )
    for part in ("manifest", "rank", "line", "tensor", "output"):
        for name in SCHEMA["$defs"][part]["properties"]:
            assert f"`{name}`" in page, name


REMOVED = object()
BAD: dict[str, tuple[str, Any]] = {
    "no seq": ("seq", REMOVED),
    "a negative step": ("step", -1),
    "half a call": ("call", 0.5),
    "a prev that is no hash": ("prev", "x" * 64),
    "a prev in capitals": ("prev", "A" * 64),
    "another pass": ("pass", "sideways"),
    "no module": ("module", 7),
    "not sampled": ("sampled", False),
    "another version": ("record_version", "2.0"),
    "a format nobody knows": ("a.format", "f17"),
    "a format of no file": ("a.format", "e2m1"),
    "a negative size": ("a.shape", [1, -2, 7]),
    "two sizes": ("a.shape", [2, 7]),
    "too large a size": ("a.shape", [1, 2**31 + 1, 1]),
    "a negative stride": ("b.strides", [1, -1, 1]),
    "two strides": ("b.strides", [1, 1]),
    "a negative offset": ("b.offset", -1),
    "a path": ("a.file", "../../etc/passwd"),
    "a short hash": ("a.sha256", "ab"),
    "another order": ("a.stored", "backwards"),
    "a recipe": ("a.generator", {"recipe": "operands-a", "kind": "normal", "seed": 1}),
    "no hash of the output": ("out.sha256", REMOVED),
    "a path of the output": ("out.file", "/etc/passwd"),
    "other indices": ("out.samples", {"indices": "all", "data": ""}),
    "samples elsewhere": ("out.samples", {"file": "x", "offset": 0, "bytes": 1, "elements": 1}),
    "a scalar that is a number": ("scalars", {"alpha": 1.0}),
    "a launch of two": ("launches", [{"grid": [1, 1], "block": "x"}]),
}


@pytest.mark.parametrize("name", [None, *BAD])
def test_schema_and_reader_refuse_alike(tmp_path: Path, name: str | None) -> None:
    folder = tmp_path / "run.hawk"
    record = traces.line(folder, *traces.golden("dev-0391"))
    record = {"id": "r0-000000", "seq": 0, "prev": traces.ZEROS} | copy.deepcopy(record)
    if name is not None:
        path, value = BAD[name]
        *parents, last = path.split(".")
        at = record
        for parent in parents:
            at = at[parent]
        if value is REMOVED:
            del at[last]
        else:
            at[last] = value
    traces.write(folder, [[]])
    (folder / "rank-0000.jsonl").write_text(json.dumps(record) + "\n", encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps(manifest | {"sealed": False}), encoding="utf-8")
    found = hawkeye.open_set(folder).trace
    assert found is not None
    assert validator("line").is_valid(record) == (name is None)
    assert (found["problem_count"] == 0) == (name is None)

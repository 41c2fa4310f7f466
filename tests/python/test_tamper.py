"""A recorded trace that somebody changed: against the root that was kept elsewhere every change shows, and where it is.

The trace is a small training under hawkeye.emulate, sampled by step and by call. What each test may find broken is said
exactly; lines that a change does not concern keep their verdicts.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hawkeye
import pytest
import traces
from hawkeye._sentences import problems
from hawkeye._verify import check_root
from test_cli import cli  # noqa: F401  a fixture

torch = pytest.importorskip("torch", reason="torch is not installed: nothing can be recorded")

INDEX, MANIFEST = "rank-0000.jsonl", "manifest.json"
SETTINGS: dict[str, Any] = {"every": 2, "fraction": 0.75, "seed": 4, "outputs": "samples"}
Lines = list[dict[str, Any]]


class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
    """With an addend of stride 0, operands that lie transposed, and a matrix expanded to a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
        self.mix = torch.nn.Parameter(torch.randn(32, 32) / 6)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.fc1(x))
        return self.fc2(torch.bmm(x, self.mix.expand(len(x), 32, 32)))


def train(folder: Path, start: int, steps: int = 8, **options: Any) -> str:
    """Records a training, and gives the root."""
    torch.manual_seed(start)
    with hawkeye.emulate():
        net = Net().bfloat16()
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        with hawkeye.record(folder, display=False, **options) as rec:
            for _ in range(steps):
                optimizer.zero_grad()
                net(torch.randn(3, 4, 16).bfloat16()).float().square().mean().backward()
                optimizer.step()
    assert rec.failure is None
    return str(rec.root)


def read(folder: Path) -> list[bytes]:
    return (folder / INDEX).read_bytes().split(b"\n")[:-1]


def decoded(folder: Path) -> Lines:
    return [json.loads(text) for text in read(folder)]


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@dataclass
class Seen:
    """What verifying a trace against the kept root says."""

    report: Any
    trace: dict[str, Any]

    @property
    def text(self) -> str:
        return str(self.report)

    @property
    def verdicts(self) -> list[str]:
        return [v.verdict for v in self.report.verdicts]

    @property
    def fields(self) -> list[tuple[int, str]]:
        """The lines (from 0) whose verdicts say that they are broken, each with the field that is named."""
        broken = [(i, v.details.get("broken")) for i, v in enumerate(self.report.verdicts)]
        return [(i, place.get("field", "")) for i, place in broken if place]

    @property
    def lines(self) -> list[int]:
        return [i for i, _ in self.fields]

    @property
    def manifest(self) -> set[str]:
        """Fields of the manifest that do not fit."""
        return {p["field"] for p in self.trace["problems"] or [] if p["file"] == MANIFEST}


@dataclass
class Whole:
    """The trace as it was recorded, and its root as it was kept."""

    folder: Path
    root: str
    lines: Lines = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)

    def look(self, folder: Path | None = None) -> Seen:
        report = hawkeye.verify(folder or self.folder, root=self.root)
        trace = hawkeye.open_set(folder or self.folder).trace
        assert trace is not None
        return Seen(report, trace)

    def others_stand(self, seen: Seen, *concerned: int) -> None:
        """Lines that are not concerned have the verdicts that they had."""
        for i, (was, now) in enumerate(zip(self.verdicts, seen.verdicts)):
            assert i in concerned or now == was, (i, seen.text)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = tmp_path_factory.mktemp("tamper") / "run.hawk"
    found = Whole(folder, train(folder, 1, **SETTINGS))
    found.lines = decoded(folder)
    seen = found.look()
    found.verdicts = seen.verdicts
    assert seen.report.problems == []
    assert seen.lines == []
    assert "wrong" not in found.verdicts
    assert found.verdicts.count("exact") > len(found.verdicts) / 2
    steps = {line["step"] for line in found.lines}
    assert 1 < len(steps) < 8, "steps must be left out"
    assert seen.trace["coverage"]["skipped"]["fraction"] > 0
    return found


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Another training, sampled alike."""
    folder = tmp_path_factory.mktemp("other") / "other.hawk"
    found = Whole(folder, train(folder, 2, **SETTINGS))
    found.lines = decoded(folder)
    return found


@pytest.fixture
def folder(whole: Whole, tmp_path: Path) -> Path:
    """A copy to be changed."""
    return Path(shutil.copytree(whole.folder, tmp_path / "run.hawk"))


# ---- files ----------------------------------------------------------------------------------------------------------

KINDS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "a": lambda line: [line["a"]["file"]],
    "b": lambda line: [line["b"]["file"]],
    "c": lambda line: [line["c"]["file"]] if "c" in line else [],
    "transposed": lambda line: [t["file"] for t in operands(line) if t.get("stored") == "transposed"],
    "once": lambda line: [t["file"] for t in operands(line) if t.get("stored") == "once"],
    "once-transposed": lambda line: [t["file"] for t in operands(line) if t.get("stored") == "once-transposed"],
}


def operands(line: dict[str, Any]) -> list[dict[str, Any]]:
    return [line[name] for name in ("a", "b", "c") if name in line]


def users(lines: Lines, name: str) -> list[tuple[int, str]]:
    """The lines that use a file, each with the first field that names it."""
    found = []
    for i, line in enumerate(lines):
        names = [n for n in ("a", "b", "c") if n in line and line[n]["file"] == name]
        found += [(i, f"{names[0]}.file")] if names else []
    return found


def tensor(folder: Path, name: str) -> Path:
    return folder / "tensors" / name[:2] / f"{name}.safetensors"


@pytest.mark.parametrize("at", ["length", "header", "first", "last"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_a_bit_of_a_file(whole: Whole, folder: Path, kind: str, at: str) -> None:
    name = next(name for line in whole.lines for name in KINDS[kind](line))
    data = bytearray(tensor(folder, name).read_bytes())
    header = 8 + int.from_bytes(data[:8], "little")
    data[{"length": 0, "header": 12, "first": header, "last": -1}[at]] ^= 1
    tensor(folder, name).write_bytes(data)
    seen = whole.look(folder)
    assert seen.fields == users(whole.lines, name)
    assert seen.report.status == 1
    assert name in seen.text
    whole.others_stand(seen, *seen.lines)


@pytest.mark.parametrize("how", ["gone", "cut", "longer", "another's"])
def test_a_file_that_is_not_the_one(whole: Whole, folder: Path, how: str) -> None:
    name = whole.lines[0]["a"]["file"]
    path = tensor(folder, name)
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    elif how == "another's":
        same = (e for line in whole.lines for e in [line["a"]] if e["shape"] == whole.lines[0]["a"]["shape"])
        path.write_bytes(tensor(folder, next(e["file"] for e in same if e["file"] != name)).read_bytes())
    else:
        path.write_bytes(data[:-1] if how == "cut" else data + b"\0")
    seen = whole.look(folder)
    assert seen.fields == users(whole.lines, name)
    assert seen.report.status == 1
    whole.others_stand(seen, *seen.lines)


def test_the_command_line_names_file_line_and_field(cli: Any, whole: Whole, folder: Path) -> None:  # noqa: F811
    name = whole.lines[2]["b"]["file"]
    data = bytearray(tensor(folder, name).read_bytes())
    data[-1] ^= 1
    tensor(folder, name).write_bytes(data)
    done = cli("verify", folder, "--root", whole.root, status=1)
    for i, place in users(whole.lines, name):
        assert f"{INDEX}, line {i + 1} (r0-{i:06d}), {place}: the file was changed" in done.stdout


# ---- lines ----------------------------------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of everything that is neither an object nor a list."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path


def put(line: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed: Any = copy.deepcopy(line)
    at = changed
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return dict(changed)


def get(line: dict[str, Any], path: tuple[Any, ...]) -> Any:
    value: Any = line
    for key in path:
        value = value[key]
    return value


def otherwise(value: Any) -> list[Any]:
    """Other values of the same kind, which a reader takes as well, mostly."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, 2 * value] if value else [1]
    assert isinstance(value, str)
    if len(value) >= 16 and not value.strip("0123456789abcdef"):  # a hash, or samples: one digit
        return [value[:-1] + "0123456789abcdef"[(int(value[-1], 16) + 1) % 16]]
    words = {"forward": "backward", "backward": "forward", "transposed": "once", "bf16": "f16"}
    return [words.get(value, value + "x")]


ADDED: dict[str, Any] = {
    "kernels": ["nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"],
    "launches": [],
    "recomputed": True,
    "group": 0,
    "note": "nobody knows this field",
}


def changes(line: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The line with each of its fields changed in turn, or taken out, and with fields more."""
    for path in leaves(line):
        name = ".".join(map(str, path))
        for value in otherwise(get(line, path)):
            yield name, put(line, path, value)
    for name in line:
        yield name, {n: v for n, v in line.items() if n != name}
    for name, value in ADDED.items():
        if name not in line:
            yield name, {**line, name: value}


def line_with_addend(whole: Whole) -> int:
    return next(i for i, line in enumerate(whole.lines) if "c" in line and 0 < i < len(whole.lines) - 1)


def rewrite(folder: Path, texts: list[bytes]) -> None:
    (folder / INDEX).write_bytes(b"".join(text + b"\n" for text in texts))


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_field_of_a_line(whole: Whole, folder: Path, which: str) -> None:
    texts = read(folder)
    i = {"first": 0, "middle": line_with_addend(whole), "last": len(texts) - 1}[which]
    count = 0
    for name, line in changes(whole.lines[i]):
        rewrite(folder, [*texts[:i], compact(line), *texts[i + 1 :]])
        seen = whole.look(folder)
        assert seen.report.status == 1, name
        assert f"Broken: the root is {seen.trace['root']}, not {whole.root}" in seen.text, name
        # A changed link may also mean that the line before was changed: neither can be told from the other.
        concerned = {i} | ({i - 1} if name == "prev" and i else set())
        assert set(seen.lines) <= concerned, (name, seen.fields)
        assert i in seen.lines or i - 1 in seen.lines, (name, seen.fields)
        assert f"{INDEX}, line {i + 1} (" in seen.text or name == "prev", name
        assert {"ranks[0].root", "root"} <= seen.manifest, name
        whole.others_stand(seen, *concerned)
        count += 1
    assert count > 60


def test_a_number_written_otherwise(whole: Whole, folder: Path) -> None:
    """The hash is of a line's bytes: the same value in another spelling is another line."""
    texts = read(folder)
    for old, new in ((b'"call":', b'"call": '), (b'"module":"Net', b'"module":"\\u004eet'), (b"{", b" {")):
        rewrite(folder, [texts[0], texts[1].replace(old, new, 1), *texts[2:]])
        seen = whole.look(folder)
        assert (seen.report.status, seen.lines) == (1, [1])


def arranged(count: int) -> dict[str, tuple[list[int], str]]:
    """Orders of lines by number, each with what is said of the place."""
    all_, middle = list(range(count)), count // 2
    swapped = [*all_[:middle], middle + 1, middle, *all_[middle + 2 :]]
    return {
        "the first removed": (all_[1:], f"line 1 (r0-{1:06d}), seq: is 1 where 0 is due"),
        "one removed": ([i for i in all_ if i != middle], f"line {middle + 1} (r0-{middle + 1:06d}), seq"),
        "the last removed": (all_[:-1], f"{MANIFEST}, ranks[0].lines: is {count}, and {INDEX} gives {count - 1}"),
        "all removed": ([], f"{MANIFEST}, ranks[0].lines: is {count}, and {INDEX} gives 0"),
        "two exchanged": (swapped, f"line {middle + 1} (r0-{middle + 1:06d}), seq"),
        "the last put first": ([count - 1, *all_[:-1]], f"line 1 (r0-{count - 1:06d}), seq"),
        "one repeated": ([*all_[: middle + 1], middle, *all_[middle + 1 :]], "a line is there twice"),
        "the last repeated": ([*all_, count - 1], f"line {count + 1} (r0-{count - 1:06d}), seq"),
        "the first put last": ([*all_, 0], f"line {count + 1} (r0-{0:06d}), seq"),
    }


@pytest.mark.parametrize("how", list(arranged(9)))
def test_lines_in_another_order(whole: Whole, folder: Path, how: str) -> None:
    texts = read(folder)
    order, said = arranged(len(texts))[how]
    rewrite(folder, [texts[i] for i in order])
    seen = whole.look(folder)
    assert seen.report.status == 1
    assert said in seen.text
    assert f"not {whole.root}" in seen.text
    for place, i in enumerate(order):
        if place not in seen.lines:
            assert seen.verdicts[place] == whole.verdicts[i]
    assert len(seen.lines) <= 4


@pytest.mark.parametrize("which", ["first", "middle", "last"])
def test_a_line_of_another_trace(whole: Whole, other: Whole, folder: Path, which: str) -> None:
    texts, strange = read(folder), read(other.folder)
    assert len(texts) == len(strange)
    i = {"first": 0, "middle": len(texts) // 2, "last": len(texts) - 1}[which]
    shutil.copytree(other.folder / "tensors", folder / "tensors", dirs_exist_ok=True)
    rewrite(folder, [*texts[:i], strange[i], *texts[i + 1 :]])
    seen = whole.look(folder)
    assert seen.report.status == 1
    assert i in seen.lines or (i == 0 and not seen.lines), seen.text
    assert set(seen.lines) <= {i - 1, i}
    assert f"not {whole.root}" in seen.text
    whole.others_stand(seen, i - 1, i)


# ---- the manifest ---------------------------------------------------------------------------------------------------

SAMPLING = [("every", 1), ("every", 3), ("every", 4), ("seed", 5), ("seed", "x"), ("fraction", 1.0), ("fraction", 0.1)]


@pytest.mark.parametrize(("name", "value"), SAMPLING)
def test_the_settings_of_the_sampling(whole: Whole, folder: Path, name: str, value: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["settings"][name] = value
    (folder / MANIFEST).write_text(json.dumps(manifest))
    seen = whole.look(folder)
    assert seen.report.status == 1
    assert seen.manifest == {"facts", "root"}
    assert f"not {whole.root}" in seen.text
    more = (name, value) in [("every", 1), ("fraction", 1.0)]  # which choose what was recorded too
    assert bool(seen.lines) != more
    assert {place for _, place in seen.fields} <= {"step", "call"}
    whole.others_stand(seen, *seen.lines)


def test_every_fact(whole: Whole, folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    sealing = ("facts", "ranks", "root", "sealed")
    facts = {n: v for n, v in manifest.items() if n not in sealing}
    for path in leaves(facts):
        value = get(manifest, path)
        strange = [None] if value is None else [value / 2] if isinstance(value, float) else otherwise(value)
        (folder / MANIFEST).write_text(json.dumps(put(manifest, path, 7 if strange == [None] else strange[0])))
        if path == ("trace_version",):
            assert whole.look(folder).report.status == 1
            continue
        seen = whole.look(folder)
        assert seen.report.status == 1, path
        assert {"facts", "root"} <= seen.manifest, path
        assert f"not {whole.root}" in seen.text, path
        if path[0] != "settings":
            assert seen.verdicts == whole.verdicts, path


def test_how_the_trace_is_sealed(whole: Whole, folder: Path) -> None:
    """The seal is compared with what it is over. Where it is taken off, the kept root is still of all the rest."""
    manifest = json.loads((folder / MANIFEST).read_text())
    for path in leaves({n: manifest[n] for n in ("facts", "ranks", "root")}):
        if path[-1] in ("rank", "file"):
            continue  # which a reader refuses
        (folder / MANIFEST).write_text(json.dumps(put(manifest, path, otherwise(get(manifest, path))[0])))
        seen = whole.look(folder)
        assert seen.report.status == 1, path
        where = path[0] if path[0] != "ranks" else f"ranks[0].{path[2]}"
        assert where in seen.manifest, path
    for name in manifest["ranks"][0]:
        without = {n: v for n, v in manifest["ranks"][0].items() if n != name}
        for entry in (without, {**without, name.upper(): manifest["ranks"][0][name]}):
            (folder / MANIFEST).write_text(json.dumps({**manifest, "ranks": [entry]}))
            if name in ("rank", "file"):
                with pytest.raises(hawkeye.Error, match=r"ranks\[0\]"):
                    hawkeye.open_set(folder)
            else:
                assert whole.look(folder).report.status == 1, (name, entry)
    (folder / MANIFEST).write_text(json.dumps({**manifest, "sealed": False}))
    seen = whole.look(folder)
    assert "Note: the trace is not sealed" in seen.text
    assert seen.verdicts == whole.verdicts


# ---- a forger who makes everything anew -----------------------------------------------------------------------------


def forge(folder: Path, lines: Lines, **facts: Any) -> str:
    """Chain, facts, roots and seal made anew, as a recorder would have; the new root."""
    manifest = json.loads((folder / MANIFEST).read_text())
    texts: list[bytes] = []
    for seq, line in enumerate(lines):
        prev = traces.sha(texts[-1]) if texts else traces.ZEROS
        texts.append(compact({**line, "id": f"r0-{seq:06d}", "seq": seq, "prev": prev}))
    rewrite(folder, texts)
    hashes = [traces.sha(text) for text in texts]
    entry = {"rank": 0, "file": INDEX, "lines": len(texts), "last": hashes[-1], "root": traces.root(hashes)}
    manifest["coverage"]["recorded"] = len(texts)
    return traces.seal(folder, {**manifest, **facts}, [entry])


def settled(whole: Whole, folder: Path, root: str) -> Seen:
    """A forged trace is in itself without fault, and it is the kept root that shows it."""
    seen = whole.look(folder)
    assert seen.trace["problem_count"] == 0, seen.text
    assert seen.report.status == 1
    assert seen.report.problems == [
        f"Broken: the root is {root}, not {whole.root}: lines were changed, removed or added."
    ]
    assert seen.lines == []
    return seen


def test_forged_as_it_was_is_as_it_was(whole: Whole, folder: Path) -> None:
    assert forge(folder, whole.lines) == whole.root
    assert whole.look(folder).verdicts == whole.verdicts


def test_forged_fields(whole: Whole, folder: Path) -> None:
    """Each field with another value. Where the settings do not sample it, or it is no record, the line says so too."""
    i = line_with_addend(whole)
    settled_ones = set()
    for name, line in changes(whole.lines[i]):
        if name in ("id", "seq", "prev"):
            continue  # made anew
        root = forge(folder, [*whole.lines[:i], line, *whole.lines[i + 1 :]])
        assert root != whole.root, name
        seen = whole.look(folder)
        assert seen.report.status == 1, name
        assert seen.report.problems[0] == (
            f"Broken: the root is {root}, not {whole.root}: lines were changed, removed or added."
        )
        assert set(seen.lines) <= {i}, name
        whole.others_stand(seen, i)
        if not seen.lines:
            settled_ones.add(name)
        if name in ("out.sha256", "out.samples.data"):
            assert seen.verdicts[i] != "exact"
    assert {"module", "pass", "a.strides.0", "flags.allow_tf32", "note", "out.sha256", "device.gpu"} <= settled_ones


@pytest.mark.parametrize("part", ["step", "call"])
def test_forged_places_are_not_sampled(whole: Whole, folder: Path, part: str) -> None:
    lines = copy.deepcopy(whole.lines)
    taken = {(line["step"], line["call"]) for line in lines}
    if part == "step":
        lines[3]["step"] = next(s for s in range(9) if s not in {step for step, _ in taken})
    else:
        lines[3]["call"] = next(c for c in range(99) if (lines[3]["step"], c) not in taken)
    root = forge(folder, lines)
    seen = whole.look(folder)
    assert seen.fields == [(3, part)]
    assert f"{INDEX}, line 4 (r0-000003), {part}: is {lines[3][part]}" in seen.text
    assert f"the root is {root}, not {whole.root}" in seen.text
    whole.others_stand(seen, 3)


@pytest.mark.parametrize("how", ["removed", "removed last", "exchanged", "repeated", "another trace's"])
def test_forged_orders(whole: Whole, other: Whole, folder: Path, how: str) -> None:
    lines = copy.deepcopy(whole.lines)
    shutil.copytree(other.folder / "tensors", folder / "tensors", dirs_exist_ok=True)
    forged = {
        "removed": [*lines[:2], *lines[3:]],
        "removed last": lines[:-1],
        "exchanged": [lines[0], lines[2], lines[1], *lines[3:]],
        "repeated": [*lines[:2], *lines[1:]],
        "another trace's": [*lines[:2], other.lines[2], *lines[3:]],
    }[how]
    seen = settled(whole, folder, forge(folder, forged))
    assert "wrong" not in seen.verdicts


@pytest.mark.parametrize(("name", "value"), SAMPLING)
def test_forged_settings(whole: Whole, folder: Path, name: str, value: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    root = forge(folder, whole.lines, settings={**manifest["settings"], name: value})
    seen = whole.look(folder)
    assert seen.report.problems[0].startswith(f"Broken: the root is {root}, not {whole.root}")
    assert {place for _, place in seen.fields} <= {"step", "call"}
    whole.others_stand(seen, *seen.lines)


@pytest.mark.parametrize("fact", ["coverage", "device"])
def test_forged_facts(whole: Whole, folder: Path, fact: str) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    value = {**manifest[fact], **({"dropped": 3} if fact == "coverage" else {"gpu": "NVIDIA H100"})}
    seen = settled(whole, folder, forge(folder, whole.lines, **{fact: value}))
    assert seen.verdicts == whole.verdicts


def test_a_forged_operand(whole: Whole, folder: Path) -> None:
    """A bit of an operand, its file named anew: the lines chain, and do not give the recorded outputs."""
    i = next(
        i for i, verdict in enumerate(whole.verdicts) if verdict == "exact" and "stored" not in whole.lines[i]["a"]
    )
    lines = copy.deepcopy(whole.lines)
    data = bytearray(tensor(folder, lines[i]["a"]["file"]).read_bytes())
    data[-1] ^= 0x40
    name = traces.sha(bytes(data))
    tensor(folder, name).parent.mkdir(exist_ok=True)
    tensor(folder, name).write_bytes(data)
    lines[i]["a"] |= {"file": name, "sha256": traces.sha(bytes(data[8 + int.from_bytes(data[:8], "little") :]))}
    seen = settled(whole, folder, forge(folder, lines))
    assert seen.verdicts[i] != "exact"  # nor wrong: without the names of kernels no order of summation is known
    whole.others_stand(seen, i)


def test_the_command_line_shows_a_forgery(cli: Any, whole: Whole, folder: Path) -> None:  # noqa: F811
    lines = copy.deepcopy(whole.lines)
    lines[1]["module"] = "Net.fc9"
    root = forge(folder, lines)
    done = cli("verify", folder, "--root", whole.root, status=1)
    assert f"Broken: the root is {root}, not {whole.root}: lines were changed, removed or added." in done.stdout
    assert "Broken" not in cli("verify", folder, status=None).stdout


# ---- every byte -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """Two lines."""
    folder = tmp_path_factory.mktemp("tiny") / "tiny.hawk"
    torch.manual_seed(3)
    with hawkeye.emulate(), hawkeye.record(folder, display=False) as rec:
        torch.addmm(torch.randn(4).bfloat16(), torch.randn(4, 8).bfloat16(), torch.randn(4, 8).bfloat16().t())
        torch.mm(torch.randn(4, 4).bfloat16(), torch.randn(4, 4).bfloat16())
    return Whole(folder, rec.root, decoded(folder))


def unseen(whole: Whole, folder: Path, name: str, bits: Callable[[int], list[int]]) -> list[str]:
    """Changes of single bits that nothing shows."""
    data = (folder / name).read_bytes()
    found = []
    for i in range(len(data)):
        for bit in bits(i):
            changed = bytearray(data)
            changed[i] ^= bit
            (folder / name).write_bytes(changed)
            try:
                recorded = hawkeye.open_set(folder)
            except hawkeye.Error:
                continue  # it is no trace any more, and that is said
            if not check_root(recorded, whole.root) and not problems(recorded):
                found.append(f"{name}, byte {i}: {data[max(i - 20, 0) : i + 1]!r} became {chr(changed[i])!r}")
    (folder / name).write_bytes(data)
    return found


def test_every_byte_of_the_index(tiny: Whole, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.folder, tmp_path / "tiny.hawk"))
    assert unseen(tiny, folder, INDEX, lambda i: [1 << i % 8]) == []


def test_every_byte_of_the_manifest(tiny: Whole, tmp_path: Path) -> None:
    """Upper and lower case too, which encoding/json takes for the same name."""
    folder = Path(shutil.copytree(tiny.folder, tmp_path / "tiny.hawk"))
    assert unseen(tiny, folder, MANIFEST, lambda i: sorted({1 << i % 8, 0x20})) == []


def test_white_space_of_the_manifest_is_no_fact(tiny: Whole, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.folder, tmp_path / "tiny.hawk"))
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text("\r\n\t" + json.dumps(manifest, indent=7) + " ")
    recorded = hawkeye.open_set(folder)
    assert check_root(recorded, tiny.root) == problems(recorded) == []


# ---- killed ---------------------------------------------------------------------------------------------------------

KILLED = """
import sys, torch, hawkeye
torch.manual_seed(0)
with hawkeye.emulate(), hawkeye.record(sys.argv[1], outputs="samples", display=False) as rec:
    while True:
        torch.mm(torch.randn(16, 64).bfloat16(), torch.randn(64, 16).bfloat16())
        rec.step()
"""


@pytest.mark.parametrize("whom", ["program", "writer", "both"])
def test_every_line_that_a_killed_recorder_finished_is_verified(
    tmp_path: Path, environment: dict[str, str], whom: str
) -> None:
    folder = tmp_path / "run.hawk"
    index = folder / INDEX
    program = subprocess.Popen([sys.executable, "-c", KILLED, str(folder)], env=environment, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not (index.exists() and index.stat().st_size > 5000) and time.monotonic() < end:
            time.sleep(0.01)
        if whom != "program":
            inside = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
            (writer,) = map(int, inside)
            if whom == "both":
                program.send_signal(signal.SIGSTOP)  # so that neither sees the other's end
            os.kill(writer, signal.SIGKILL)
            time.sleep(0.2)
    finally:
        program.kill()
        program.wait()
    time.sleep(1)  # what the writing process has in hand it writes to its end
    report = hawkeye.verify(folder)
    lines = read(folder)
    assert len(report.verdicts) == len(lines) >= 3
    assert report.problems == []
    assert [v.verdict for v in report.verdicts] == ["exact"] * len(lines)
    assert any("not sealed" in note for note in report.notes)

"""Discovery: asking functions for their profiles, the folder that keeps them, verdicts by them, and the command.

The black boxes here are Hawkeye's own multiplications wherever the answer matters: their profiles are known.
"""

from __future__ import annotations

import json
import pickle
import signal
import stat
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hawkeye
import ml_dtypes
import numpy as np
import pytest
import traces
from hawkeye import _cache as caches
from hawkeye._discover import Discovery, Progress
from hawkeye.cli import main

QUICK: dict[str, Any] = {"m": 16, "n": 16, "k": 32, "elements": 4096}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of a test."""
    monkeypatch.setenv("HAWKEYE_CACHE", str(tmp_path / "profiles"))
    return tmp_path / "profiles"


def by(name: str, **more: Any) -> Callable[..., Any]:
    """A multiplication whose profile is known."""
    return lambda a, b: hawkeye.matmul(a, b, profile=name, **more)


def normal(shape: tuple[int, int], seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape)


# ---- what is found: needs the discovery itself -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), [("hopper/f32", "f32"), ("hopper/bf16", "bf16")])
def test_found_numpy(name: str, dtype: str) -> None:
    found = hawkeye.discover(by(name), dtype=dtype, framework="numpy", **QUICK)
    assert found, str(found)
    assert found.profile is not None
    assert found.certificate is not None
    assert found.certificate["elements"] >= 4096
    assert found.reason == ""
    assert found.calls > 0
    assert found.questions > 0
    assert not found.cached
    assert found.path is None  # a function without a name is not kept
    assert found.name == f"discovered/{found.profile.id[:12]}"
    assert "certified on" in str(found)
    assert pickle.loads(pickle.dumps(found.profile)) == found.profile
    as_numpy = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}[dtype]
    a, b = normal((16, 32), 1).astype(as_numpy), normal((32, 16), 2).astype(as_numpy)
    fresh = hawkeye.matmul(a, b, profile=found.profile)
    assert hawkeye.compare(by(name)(a, b), fresh).differing == 0


def test_found_torch(torch: Any) -> None:
    found = hawkeye.discover(by("hopper/f32"), dtype=torch.float32, layout="NT", device="cpu", **QUICK)
    assert found, str(found)
    assert "16x32 by 32x16, NT" in found.signature
    a, b = torch.randn(16, 32), torch.randn(32, 16)
    assert torch.equal(hawkeye.matmul(a, b, profile=found.profile), by("hopper/f32")(a, b))


def test_found_integers_of_torch(torch: Any, folder: Path) -> None:
    found = hawkeye.discover(torch._int_mm, m=32, n=16, k=64, dtype="s8", device="cpu", elements=4096)
    assert found, str(found)
    assert found.path is not None
    assert found.path.parent == folder
    kept = hawkeye.discover("int_mm", m=32, n=16, k=64, dtype="int8", device="cpu", elements=4096)
    assert kept.cached
    assert kept.profile == found.profile
    assert hawkeye.profile(found.name) == found.profile
    with pytest.raises(hawkeye.ProfileError, match="none can be called"):
        hawkeye.profile("discovered/0123456789ab")


def test_found_bias(torch: Any) -> None:
    def f(a: Any, b: Any, c: Any) -> Any:
        assert (a.shape, b.shape, c.shape) == ((16, 32), (32, 16), (16,))
        return hawkeye.linear(a, b.mT, c, profile="hopper/f32")

    found = hawkeye.discover(f, dtype="f32", bias=True, framework="torch", device="cpu", **QUICK)
    assert found, str(found)


def test_noise_is_not_certified() -> None:
    rng = np.random.default_rng(0)

    def noisy(a: Any, b: Any) -> Any:
        d = by("hopper/f32")(a, b)
        d.view(np.uint32)[rng.integers(16), rng.integers(16)] ^= rng.integers(2, dtype=np.uint32)
        return d

    found = hawkeye.discover(noisy, dtype="f32", framework="numpy", **QUICK)
    assert not found
    assert found.profile is None
    assert found.certificate is None
    assert found.reason
    assert "no profile was certified" in str(found)
    with pytest.raises(AttributeError):
        found.reason = ""  # type: ignore[misc]


def test_a_function_that_is_no_product_is_not_certified() -> None:
    found = hawkeye.discover(lambda a, b: by("hopper/f32")(a, b) ** 2, dtype="f32", framework="numpy", **QUICK)
    assert not found
    assert found.reason


def test_the_command_finds(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import hawkeye\n\ndef f(a, b):\n    return hawkeye.matmul(a, b, profile='hopper/f32')\n")
    sizes = ["--m", "16", "--n", "16", "--k", "32", "--dtype", "f32", "--elements", "4096"]
    out = tmp_path / "found.json"
    assert main(["discover", "--function", f"{mine}:f", *sizes, "--json", str(out)]) == 0
    told = capsys.readouterr().out
    assert "certified on" in told
    assert f"Kept in {folder}" in told
    found = json.loads(out.read_text())
    assert found["certificate"]["elements"] >= 4096
    assert found["name"].startswith("discovered/")
    assert main(["discover", "--function", f"{mine}:f", *sizes, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is True
    mine.write_text(mine.read_text() + "\n# changed\n")
    assert main(["discover", "--function", f"{mine}:f", *sizes, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is False  # a changed file is another function
    assert main(["discover", "--function", f"{mine}:f", *sizes, "--again", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["cached"] is False


def recorded(torch: Any, where: Path) -> Path:
    """A trace of products of integers and an f32 product, on this CPU."""
    with hawkeye.record(where, every=1):
        for seed in range(3):
            torch.manual_seed(seed)
            a, b = (torch.randint(-128, 128, size, dtype=torch.int8) for size in ((32, 64), (64, 16)))
            torch._int_mm(a, b)
            torch._int_mm(b.mT.contiguous(), a.mT)
        torch.mm(torch.randn(24, 8).double(), torch.randn(8, 8).double())
    return where


def test_a_trace_is_asked_and_verified(
    torch: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = recorded(torch, tmp_path / "run.hawk")
    steps: list[Any] = []
    first = hawkeye.discover_trace(trace, device="cpu", elements=2000, progress=lambda s: steps.append(s))
    assert [r.lines for r in first.rows] == [3, 3, 1]
    assert [r.outcome for r in first.rows[:2]] == ["certified"] * 2
    assert first.rows[2].outcome in ("certified", "declined")
    assert first.status == (0 if first.ok else 2)
    assert first.finished
    assert not any(r.discovery is not None and r.discovery.cached for r in first.rows)
    assert steps[0].total == 3
    assert steps[0].number == 1
    second = hawkeye.discover_trace(trace, device="cpu", elements=2000)
    assert [r.outcome for r in second.rows] == [r.outcome for r in first.rows]
    assert all(r.discovery is not None and r.discovery.cached for r in second.rows)
    assert len(list(folder.iterdir())) == 3
    report = hawkeye.verify(trace)
    assert len(report.wrong) == 0
    assert len(report.exact) >= 6
    assert main(["discover", "--torch", "--trace", str(trace), "--device", "cpu", "--elements", "2000"]) == first.status
    assert "3 signatures" in capsys.readouterr().out


# ---- calling the function --------------------------------------------------------------------------------------------


def asked_of(f: Callable[..., Any], **more: Any) -> list[tuple[Any, ...]]:
    """The arguments of a function: of the call that shows what it gives, and of the first question."""
    seen: list[tuple[Any, ...]] = []

    class Enough(Exception):  # noqa: N818  no fault
        pass

    def watching(*given: Any, **scales: Any) -> Any:
        seen.append((*given, *scales.values()))
        if len(seen) > 1:
            raise Enough
        return f(*given, **scales)

    with pytest.raises(Enough):
        hawkeye.discover(watching, **{**QUICK, "cache": False, **more})
    return seen


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_operands_lie_as_asked(torch: Any, layout: str) -> None:
    for framework in ("torch", "numpy"):
        a, b = asked_of(lambda a, b: a @ b, dtype="f32", layout=layout, framework=framework, m=3, n=5)[1]
        assert (tuple(a.shape), tuple(b.shape)) == ((3, 32), (32, 5))
        steps = [tuple(x.stride()) if framework == "torch" else tuple(s // 4 for s in x.strides) for x in (a, b)]
        assert steps == [(32, 1) if layout[0] == "N" else (1, 3), (5, 1) if layout[1] == "N" else (1, 32)]


def test_bits_arrive_as_they_are(torch: Any) -> None:
    """As bits, and not as numbers: the same question is the same in both frameworks."""
    for dtype, signed in (("bf16", "int16"), ("f16", "int16"), ("e5m2", "int8"), ("s8", "int8"), ("f64", "int64")):
        more: dict[str, Any] = {"dtype": dtype, "out_dtype": "f32"}
        arrays = asked_of(lambda a, b: np.zeros((16, 16), np.float32), framework="numpy", **more)[1]
        others = asked_of(lambda a, b: torch.zeros(16, 16), framework="torch", device="cpu", **more)[1]
        for x, y in zip(arrays, others):
            assert np.array_equal(x.view(signed), y.view(getattr(torch, signed)).numpy())


def test_batches_and_addends(torch: Any) -> None:
    a, b, c = asked_of(
        lambda a, b, c: torch.baddbmm(c, a, b), dtype="f32", batch=3, addend="full", framework="torch", m=4, n=6
    )[1]
    assert (a.shape, b.shape, c.shape) == ((3, 4, 32), (3, 32, 6), (3, 4, 6))
    a, b, c = asked_of(lambda a, b, c: a @ b + c, dtype="f64", bias=True, framework="numpy", m=4, n=6)[1]
    assert (a.shape, b.shape, c.shape) == ((4, 32), (32, 6), (6,))
    assert a.dtype == c.dtype == np.float64


def test_scales(torch: Any) -> None:
    def f(a: Any, b: Any, *, scale_a: Any, scale_b: Any) -> Any:
        return ((a.float() * scale_a) @ (b.float() * scale_b)).bfloat16()

    for scaling, shapes in (("tensor", [(), ()]), ("row", [(4, 1), (1, 6)])):
        _, _, *scales = asked_of(f, dtype="e4m3", scaling=scaling, framework="torch", device="cpu", m=4, n=6)[1]
        assert [tuple(s.shape) for s in scales] == shapes


def test_settings_are_restored(torch: Any) -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    seen = []

    def f(a: Any, b: Any) -> Any:
        seen.append((matmul.allow_tf32, torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled()))
        raise KeyError("enough")

    for dtype, flags in (("tf32", {"deterministic": True}), ("f32", {"allow_tf32": False})):
        with pytest.raises(KeyError):
            hawkeye.discover(f, dtype=dtype, flags=flags, framework="torch", **QUICK)
    assert seen == [(True, True, False), (False, False, False)]
    assert matmul.allow_tf32 is before
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("when", [1, 4])
def test_exceptions_come_out_as_they_are(when: int, folder: Path) -> None:
    class MineError(Exception):
        pass

    error, calls = MineError("mine"), 0

    def f(a: Any, b: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == when:
            raise error
        return by("hopper/f32")(a, b)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(MineError) as caught:
        hawkeye.discover(f, dtype="f32", framework="numpy", name="mine", **QUICK)
    assert caught.value is error
    assert calls == when
    assert signal.getsignal(signal.SIGINT) is handler
    assert not folder.exists()


def test_progress_tells_and_stops() -> None:
    told: list[Progress] = []

    def progress(p: Progress) -> bool | None:
        told.append(p)
        return False if len(told) == 3 else None

    with pytest.raises(hawkeye.Cancelled):
        hawkeye.discover(by("hopper/f32"), dtype="f32", framework="numpy", progress=progress, **QUICK)
    assert len(told) == 3
    assert all(p.phase and 0 <= p.done <= p.total and p.calls >= 0 for p in told)
    with pytest.raises(ZeroDivisionError):
        hawkeye.discover(by("hopper/f32"), dtype="f32", framework="numpy", progress=lambda p: 1 / 0, **QUICK)  # type: ignore[arg-type]


INTERRUPTED = """
    import os, signal, threading, time
    import numpy as np
    import hawkeye

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with SIGINT ignored
    calls = 0
    def f(a, b):
        global calls
        calls += 1
        if calls == 2:  # in the middle of the function itself, which is a long one
            threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            time.sleep(30)
        return a @ b

    begun = time.monotonic()
    try:
        hawkeye.discover(f, m=8, n=8, k=8, dtype="f32", framework="numpy")
    except KeyboardInterrupt:
        print("stopped", time.monotonic() - begun < 3, calls)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_control_c(environment: dict[str, str]) -> None:
    import subprocess

    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(INTERRUPTED)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.stdout, ended.stderr) == ("stopped True 2\n", "")


def test_control_c_between_calls() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            hawkeye.discover(
                by("hopper/f32"),
                dtype="f32",
                framework="numpy",
                progress=lambda p: signal.raise_signal(signal.SIGINT),
                **QUICK,
            )
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


# ---- what is refused -------------------------------------------------------------------------------------------------


def identity(a: Any, b: Any) -> Any:
    return a @ b


@pytest.mark.parametrize(
    ("f", "more", "error", "says"),
    [
        (7, {}, hawkeye.ArgumentError, "f is a int"),
        ("mmm", {}, hawkeye.ArgumentError, "known are mm, bmm"),
        (identity, {"m": 0}, hawkeye.ShapeError, "m is 0: it must be 1 to"),
        (identity, {"k": 2.5}, hawkeye.ArgumentError, "k is 2.5: it must be a whole number"),
        (identity, {"dtype": "f12"}, hawkeye.FormatError, "f12"),
        (identity, {"dtype": ("f16", "f16", "f16")}, hawkeye.ArgumentError, "dtype has 3 formats"),
        (identity, {"layout": "NX"}, hawkeye.ArgumentError, "NN, NT, TN or TT"),
        (identity, {"layout": "N"}, hawkeye.ArgumentError, "NN, NT, TN or TT"),
        (identity, {"addend": "half"}, hawkeye.ArgumentError, "addend is 'half'"),
        (identity, {"addend": "full", "bias": True}, hawkeye.ArgumentError, "There is a bias or an addend"),
        (identity, {"scaling": "block"}, hawkeye.ArgumentError, "scaling is 'block'"),
        (identity, {"alpha": 0}, hawkeye.ArgumentError, "alpha is 0"),
        (identity, {"elements": 0}, hawkeye.ArgumentError, "elements is 0"),
        (identity, {"max_calls": -1}, hawkeye.ArgumentError, "max_calls is -1"),
        (identity, {"seed": -1}, hawkeye.ArgumentError, "seed is -1"),
        (identity, {"threads": -1}, hawkeye.ArgumentError, "threads is -1"),
        (identity, {"framework": "jax"}, hawkeye.ArgumentError, "'torch' or 'numpy'"),
        (identity, {"flags": {"allow_tf32": True}}, hawkeye.ArgumentError, "flags are settings of torch"),
        (identity, {"device": "cuda"}, hawkeye.ArgumentError, "takes arrays of numpy"),
        (identity, {"suspects": ["no/such"]}, hawkeye.ProfileError, "no/such"),
        (lambda a, b: [1], {}, hawkeye.FormatError, "it must give a numpy array"),
        (lambda a, b: a, {}, hawkeye.ShapeError, "result of 16x32, and 16x16"),
        (lambda a, b: a @ b, {"out_dtype": "f64"}, hawkeye.FormatError, "say it with out_dtype"),
        (lambda a, b: (a @ b).astype(complex), {}, hawkeye.FormatError, "not a number format"),
    ],
)
def test_refused(f: Any, more: dict[str, Any], error: type[Exception], says: str) -> None:
    asked = {"framework": "numpy", "dtype": "f32", **QUICK, **more}
    if isinstance(f, str):
        del asked["framework"]
    with pytest.raises(error, match=says.replace("(", "\\(")):
        hawkeye.discover(f, **asked)


@pytest.mark.parametrize(
    ("op", "more", "says"),
    [
        ("bmm", {}, "multiplies batches"),
        ("mm", {"batch": 2}, "has no batch"),
        ("mm", {"bias": True}, "has no addend"),
        ("linear", {"addend": "full"}, "has a bias and no whole addend"),
        ("addmm", {"addend": "start"}, "for single instructions"),
        ("mv", {}, "n must be 1"),
        ("mm", {"scaling": "row"}, "has no scales"),
        ("mm", {"use_fast_accum": True}, "is of scaled_mm"),
        ("_scaled_mm", {"dtype": "e4m3"}, "say scaling="),
        ("mm", {"flags": {"fast": True}}, "none of torch's"),
        ("mm", {"device": "abacus"}, "which torch does not know"),
        ("mm", {"dtype": "tf32", "flags": {"allow_tf32": False}}, "leave out allow_tf32"),
        ("mm", {"dtype": "e2m1"}, "no dtype for format e2m1"),
    ],
)
def test_refused_of_torch(torch: Any, op: str, more: dict[str, Any], says: str) -> None:
    with pytest.raises(hawkeye.Error, match=says):
        hawkeye.discover(op, **{"dtype": "f32", **QUICK, **more})


def test_operations_of_torch_are_known(torch: Any) -> None:
    from hawkeye._boxes import OPERATIONS, operation_of

    functions = {
        name: getattr(torch, name) for name in ("mm", "bmm", "addmm", "baddbmm", "matmul", "mv", "addmv", "dot")
    }
    functions |= {"linear": torch.nn.functional.linear, "scaled_mm": torch._scaled_mm, "int_mm": torch._int_mm}
    assert {name: operation_of(f) for name, f in functions.items()} == {name: name for name in OPERATIONS}
    assert operation_of(lambda a, b: a @ b) == operation_of(torch.add) == ""


def test_what_torch_refuses_is_torchs(torch: Any) -> None:
    with pytest.raises(RuntimeError):
        hawkeye.discover(torch._int_mm, m=3, n=3, k=3, dtype="f32", device="cpu")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Say what to ask"),
        (["--torch", "--instructions"], "Say what to ask"),
        (["--torch", "--m", "4"], "give also --n, --k, --dtype"),
        (["--torch", "--trace", "no/such", "--m", "4"], "--m is of one product"),
        (["--trace", "no/such"], "no/such"),
        (["--torch", "--m", "4", "--n", "4", "--k", "4", "--dtype", "f12"], "f12"),
        (["--function", "mine", "--m", "4", "--n", "4", "--k", "4", "--dtype", "f32"], "FILE.py:NAME"),
        (["--function", "no.py:f", "--m", "4", "--n", "4", "--k", "4", "--dtype", "f32"], "there is no file no.py"),
        (["--function", "json:f", "--m", "4", "--n", "4", "--k", "4", "--dtype", "f32"], "has no function f"),
        (["--torch", "--only", "x"], "--only names instructions"),
        (["--instructions", "--device", "cpu"], "say cuda:0"),
    ],
)
def test_the_command_refuses(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discover", *arguments]) == 3
    told = capsys.readouterr().err
    assert says in told
    assert told.count("\n") == 1


# ---- the folder ------------------------------------------------------------------------------------------------------


GPU = {"gpu": "NVIDIA Z9", "torch": "2.11.0", "nvidia-cublas": "13.1.0.3", "capability": "9.9", "driver": "600.1"}


def key(**more: Any) -> caches.Key:
    record = {
        "op": "mm",
        "a": {"format": "bf16", "shape": [1, 17, 129], "strides": [2193, 129, 1]},
        "b": {"format": "bf16", "shape": [1, 129, 13], "strides": [1677, 13, 1]},
        "out": {"format": "f32", "shape": [1, 17, 13]},
    }
    return caches.Key(GPU, caches.flags({"deterministic": False}, "bf16"), caches.signature({**record, **more}))


def odd_profile() -> hawkeye.Profile:
    """One that no rule has: slices of 40, in tiles of 24."""
    told = hawkeye.profile("hopper/bf16-k8").to_dict()
    merge = {"partial": "f32", "sum": "f32", "from_zero": True}
    chain = {"chain": {"residue": "last", "tile": 24}}
    told["plan"] = {"split": {"slices": 2, "grain": 40, "merge": merge, "of": chain}}
    told["epilogue"]["out"] = "f32"
    told["provenance"] = {"source": "probed", "hardware": "NVIDIA Z9", "certified": "65536 elements"}
    told.pop("name", None)
    return hawkeye.profile(told)


def result(found: hawkeye.Profile | None = None, elements: int = 65536) -> dict[str, Any]:
    told: dict[str, Any] = {"findings": [], "calls": 1, "questions": 2, "tried": 3, "seconds": 0.5}
    if found is None:
        return told | {"reason": "nothing fits"}
    return told | {"profile": found.to_dict(), "certificate": {"elements": elements}}


def test_the_folder_keeps(tmp_path: Path) -> None:
    cache = caches.Cache(tmp_path / "a" / "b")
    assert cache.get(key()) is None
    assert list(cache) == []
    where = cache.put(key(), result(odd_profile()), "1", 5000)
    assert where == cache.path(key())
    assert stat.S_IMODE(cache.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(where.stat().st_mode) == 0o600
    kept = cache.get(key())
    assert kept is not None
    assert kept.certified
    assert kept.profile == odd_profile()
    assert [entry.path for entry in cache] == [where]
    cache.put(key(), result(), "2", 5000)
    kept = cache.get(key())
    assert kept is not None
    assert (kept.certified, kept.version, kept.elements) == (False, "2", 5000)
    assert [path.name for path in cache.folder.iterdir()] == [where.name]  # nothing half-written is left


def test_keys_tell_multiplications_apart() -> None:
    a = {"format": "bf16", "shape": [1, 17, 129], "strides": [2193, 1, 17]}
    others = [
        key(),
        key(a=a),
        key(a={**a, "offset": 3}),
        key(op="addmm", c={"format": "f32", "shape": [1, 17, 13], "strides": [0, 0, 1]}),
        key(op="addmm", c={"format": "f32", "shape": [1, 17, 13], "strides": [221, 13, 1]}),
        key(out={"format": "bf16", "shape": [1, 17, 13]}),
        key(scalars={"alpha": "f32:0x40000000"}),
        key(scale_a={}),
        caches.Key({**GPU, "driver": "601.0"}, key().flags, key().signature),
        caches.Key(GPU, {**key().flags, "allow_reduced_precision_reduction": True}, key().signature),
    ]
    assert len({k.digest for k in others}) == len(others)
    assert key(scalars={"alpha": "f32:0x3f800000"}).digest == key().digest
    assert key(op="linear").digest == key().digest
    assert key(a={"format": "bf16", "shape": [1, 17, 129], "strides": [7, 129, 1], "offset": 8}).digest == key().digest


@pytest.mark.parametrize("damage", ["cut", "empty", "key", "renamed", "profile", "format", "list", "binary"])
def test_damaged_files_are_ignored(tmp_path: Path, damage: str) -> None:
    cache = caches.Cache(tmp_path)
    where = cache.put(key(), result(odd_profile()), "1", 5000)
    text = where.read_text()
    told = json.loads(text)
    if damage == "renamed":
        other = key(out={"format": "bf16", "shape": [1, 17, 13]})
        where = where.replace(cache.path(other))
        wanted = other
    else:
        wanted = key()
        told["key"]["device"]["gpu"] = "NVIDIA Z8" if damage == "key" else "NVIDIA Z9"
        told["result"]["profile"] = {} if damage == "key" else {"step": 1} if damage == "profile" else {}
        told["hawkeye_discovery"] = 2 if damage == "format" else 1
        changed = {"cut": text[:-40], "empty": "", "list": "[]", "binary": "\udcff\udcfe"}.get(damage, json.dumps(told))
        where.write_text(changed, encoding="utf-8", errors="surrogateescape")
    with pytest.warns(UserWarning, match="is damaged and ignored"):
        assert cache.get(wanted) is None
    with pytest.warns(UserWarning, match="is damaged and ignored"):
        assert list(cache) == []
    cache.put(wanted, result(odd_profile()), "1", 5000)
    assert cache.get(wanted) is not None


def test_the_command_warns_in_a_sentence(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = own_trace(tmp_path / "run.hawk", RECORDED_ON)
    where = caches.Cache().put(key(), result(odd_profile()), "1", 5000)
    where.write_text("{")
    assert main(["verify", str(trace)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"hawkeye: {where} is damaged and ignored: ")
    assert told.count("\n") == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(hawkeye.FileError, match="HAWKEYE_CACHE"):
        caches.Cache(tmp_path / "file" / "x").put(key(), result(), "1", 5000)


def test_where_the_folder_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HAWKEYE_CACHE", "here")
    assert caches.default_folder() == Path("here")
    monkeypatch.delenv("HAWKEYE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert caches.default_folder() == tmp_path / "hawkeye" / "profiles"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert caches.default_folder() == tmp_path / ".cache" / "hawkeye" / "profiles"


def test_certificates_of_fewer_elements_do_not_do(folder: Path) -> None:
    """And what is kept is not asked again: the function is called once, to see what it gives."""
    calls = 0

    def f(a: Any, b: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 2:
            raise KeyError("asked")
        return a @ b

    from hawkeye._discover import _asked

    asked = dict.fromkeys(("batch", "layout", "out_dtype", "addend", "addend_dtype", "scaling", "flags", "device"))
    more = {"bias": False, "alpha": 1.0, "beta": 1.0, "use_fast_accum": False}
    k = _asked(f, m=4, n=4, k=4, dtype="f32", framework="numpy", name="mine", **asked, **more).key()  # type: ignore[arg-type]
    assert k is not None
    caches.Cache().put(k, result(hawkeye.profile("hopper/f32"), 300), "1", 5000)
    sizes: dict[str, Any] = {"m": 4, "n": 4, "k": 4, "dtype": "f32", "framework": "numpy", "name": "mine"}
    found = hawkeye.discover(f, elements=5000, **sizes)
    assert (found.cached, found.profile, calls) == (True, hawkeye.profile("hopper/f32"), 2)
    for more in ({}, {"elements": 5001}, {"elements": 5000, "again": True}, {"elements": 5000, "name": "other"}):
        with pytest.raises(KeyError, match="asked"):
            hawkeye.discover(f, **{**sizes, **more})


# ---- verdicts --------------------------------------------------------------------------------------------------------


def own_trace(where: Path, device: dict[str, str], flags: dict[str, bool] | None = None) -> Path:
    """Two lines that kernels of nobody's computed, in an order that no rule has; the second is wrong."""
    rng = np.random.default_rng(5)
    a = (rng.standard_normal((1, 17, 129)) * 2.0 ** rng.integers(-9, 9, (1, 17, 129))).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((1, 129, 13)).astype(ml_dtypes.bfloat16)
    d = hawkeye.matmul(a, b, profile=odd_profile(), out_dtype="f32")
    record: dict[str, Any] = {
        "record_version": "1.0",
        "op": "mm",
        "a": traces.tensor(where, "bf16", a.view(np.uint16)),
        "b": traces.tensor(where, "bf16", b.view(np.uint16)),
        "out": {"format": "f32", "shape": [1, 17, 13], "sha256": traces.sha(d.tobytes())},
        "flags": {"deterministic": False, **(flags or {})},
        "kernels": ["own_gemm_one", "own_gemm_two"],
        "step": 0,
        "call": 0,
        "module": "",
        "pass": "forward",
        "sampled": True,
    }
    wrong = {**record, "call": 1, "out": {**record["out"], "sha256": "0" * 64}}
    traces.write(where, [[record, wrong]])
    traces.reseal(where, device=device)
    return where


RECORDED_ON = {"gpu": "NVIDIA Z9", "nvidia-cublas": "13.1.0.3"}  # torch 2.11.0 stands in the manifest


def test_a_discovered_profile_decides(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = own_trace(tmp_path / "run.hawk", RECORDED_ON)
    before = hawkeye.verify(trace)
    assert [v.verdict for v in before.verdicts] == ["undecided", "undecided"]
    caches.Cache().put(key(), result(odd_profile()), "1", 5000)
    after = hawkeye.verify(trace)
    assert [v.verdict for v in after.verdicts] == ["exact", "undecided"]
    name = f"discovered/{odd_profile().id[:12]}"
    exact, other = after.verdicts
    assert exact.details["discovered"] == name
    assert exact.profile == odd_profile()
    assert exact.notes[0] == f"by the profile {name}, found by probing NVIDIA Z9, certified: 65536 elements"
    assert "discovered" not in other.details
    assert other.reason.endswith(f"the discovered profile for it, {name}, does not give it either")
    assert f"Note: an exact case {exact.notes[0]}." in after.lines()
    assert sum("None is called wrong" in line for line in after.lines()) == 1
    assert "(1 case)" in next(line for line in after.lines() if "None is called wrong" in line)
    # a folder that is named, none at all, and through the command
    assert len(hawkeye.verify(trace, profiles=folder).exact) == 1
    assert len(hawkeye.verify(trace, profiles=False).exact) == 0
    with pytest.raises(hawkeye.FileError, match="is no folder"):
        hawkeye.verify(trace, profiles=tmp_path / "nowhere")
    for more, said in (([], "1 exact"), (["--profiles", str(folder)], "1 exact"), (["--no-profiles"], ": 2 undecided")):
        assert main(["verify", str(trace), *more]) == 2
        assert said in capsys.readouterr().out
    assert main(["verify", str(trace), "--only", "r0-000000"]) == 0
    assert f"with the profile {name}, which was found by probing" in capsys.readouterr().out
    assert main(["verify", str(trace), "--no-profiles", "--profiles", "x"]) == 3


def test_only_profiles_of_the_same_device_library_and_settings(folder: Path, tmp_path: Path) -> None:
    caches.Cache().put(key(), result(odd_profile()), "1", 5000)
    caches.Cache().put(key(op="bmm"), result(), "1", 5000)  # not certified: never a suspect
    for number, (device, flags, exact) in enumerate(
        [
            (RECORDED_ON, {}, 1),
            ({**RECORDED_ON, "cuda": "13.0"}, {}, 0),  # the key does not say it
            ({**RECORDED_ON, "gpu": "NVIDIA Z9 PCIe"}, {}, 0),
            ({**RECORDED_ON, "nvidia-cublas": "13.1.0.4"}, {}, 0),
            ({**RECORDED_ON, "emulated": "h200-torch2.11"}, {}, 0),
            ({"device": "cpu", "cpu": "x86_64"}, {}, 0),
            ({**RECORDED_ON, "CUBLAS_WORKSPACE_CONFIG": ":0:0"}, {}, 0),
            (RECORDED_ON, {"deterministic": True}, 0),
            (RECORDED_ON, {"allow_tf32": True}, 1),  # which is of f32 alone
        ]
    ):
        trace = own_trace(tmp_path / f"{number}.hawk", device, flags)
        assert len(hawkeye.verify(trace).exact) == exact, (device, flags)


def test_a_journal_knows_its_profiles(folder: Path, tmp_path: Path) -> None:
    trace = own_trace(tmp_path / "run.hawk", RECORDED_ON)
    journal = tmp_path / "verdicts.jsonl"
    hawkeye.verify(trace, resume=journal)
    hawkeye.verify(trace, resume=journal)
    caches.Cache().put(key(), result(odd_profile()), "1", 5000)
    with pytest.raises(hawkeye.ArgumentError, match="another verification: the sha256 of the discovered profiles"):
        hawkeye.verify(trace, resume=journal)


def test_suspects_of_a_replay(tmp_path: Path) -> None:
    opened = hawkeye.open_set(own_trace(tmp_path / "run.hawk", RECORDED_ON))
    assert opened.replay(0).verdict == "undecided"
    verdict = opened.replay(0, suspects=["hopper/bf16", odd_profile()])
    assert (verdict.verdict, verdict.details["plans_tried"]) == ("exact", 2)
    assert opened.replay(1, suspects=["hopper/bf16", odd_profile()]).verdict == "undecided"
    with pytest.raises(hawkeye.ProfileError):
        opened.replay(0, suspects=["no/such"])


def test_golden_lines_and_records_have_one_signature(checkout: Path) -> None:
    """What record_golden.py writes, and what a trace of the same product has."""
    for case in traces.golden("dev-0004", "dev-0017", "dev-0391"):
        at = caches.of_golden(case)
        assert caches.signature(case) == caches.signature(at)
        assert caches.signature(at)["a"]["format"] in ("bf16", "f16", "f32", "f64", "e4m3", "e5m2", "s8")


# ---- traces and instructions -----------------------------------------------------------------------------------------


def test_lines_that_cannot_be_asked() -> None:
    from hawkeye._discoveries import wanted_of

    a = {"format": "f32", "shape": [1, 8, 4], "strides": [32, 4, 1]}
    b = {"format": "f32", "shape": [1, 4, 8], "strides": [32, 8, 1]}
    line: dict[str, Any] = {"op": "mm", "a": a, "b": b, "out": {"format": "f32", "shape": [1, 8, 8]}}
    plain = wanted_of(line)
    assert plain is not None
    assert plain.product is not None
    assert str(plain.product) == "mm of f32, 8x4 by 4x8, NN"
    padded = wanted_of({**line, "a": {**a, "strides": [80, 10, 1], "offset": 3}})
    assert padded is not None
    assert padded.product is not None
    assert padded.product.offsets == {"a": 3}
    c = {"format": "f32", "shape": [1, 8, 8], "strides": [0, 8, 1]}
    for change, why in (
        ({"a": {**a, "strides": [32, 1, 1]}}, "share memory"),
        ({"a": {**a, "strides": [32, 0, 1]}}, "share memory"),
        ({"op": "grouped_mm"}, "no operation that can be asked"),
        ({"op": "addmm", "c": {**c, "strides": [0, 1, 0]}}, "share memory"),
        ({"op": "addmm", "c": c, "scalars": {"beta": "f32:0x00000000"}}, "alpha or beta is 0"),
    ):
        wanted = wanted_of({**line, **change})
        assert wanted is not None
        assert wanted.product is None
        assert why in wanted.reason
    assert wanted_of({}) is None
    assert wanted_of({**line, "a": {"format": "f32"}}) is None


def test_operands_of_a_trace_lie_as_they_did(torch: Any) -> None:
    from hawkeye._boxes import TorchBox
    from hawkeye._discoveries import wanted_of

    a = {"format": "bf16", "shape": [1, 8, 4], "strides": [80, 10, 1], "offset": 3}
    b = {"format": "bf16", "shape": [1, 4, 8], "strides": [32, 1, 4]}
    wanted = wanted_of({"op": "mm", "a": a, "b": b, "out": {"format": "bf16", "shape": [1, 8, 8]}})
    assert wanted is not None
    assert wanted.product is not None
    box = TorchBox("mm", wanted.product, "cpu", {})
    x, y = box._a[1], box._b[1]
    assert (x.stride(), x.storage_offset(), x.dtype) == ((80, 10, 1), 3, torch.bfloat16)
    assert y.stride() == (32, 1, 4)
    assert box.blank().shape == (8, 8)


def test_a_trace_needs_time(torch: Any, folder: Path, tmp_path: Path) -> None:
    trace = recorded(torch, tmp_path / "run.hawk")
    many = hawkeye.discover_trace(trace, device="cpu", limit_seconds=1e-9)
    assert [r.outcome for r in many.rows] == ["left"] * 3
    assert (many.status, many.finished, many.ok) == (2, False, False)
    assert "the same call goes on" in str(many)
    with pytest.raises(hawkeye.ArgumentError, match="more than 0"):
        hawkeye.discover_trace(trace, limit_seconds=0)
    with pytest.raises(hawkeye.Cancelled):
        hawkeye.discover_trace(trace, device="cpu", progress=lambda s: False)


def test_instructions(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The table, with a GPU that is not there."""
    import types

    def asked(name: str, **more: Any) -> Discovery:
        more["progress"](Progress("asking", 1, 2, 0, 0))
        found = hawkeye.profile("hopper/bf16")
        told = result(found if name == "one" else None)
        equal = {"found": "x", "catalogue": "hopper/bf16", "equal": True, "differences": []}
        return Discovery.from_result(told | ({"comparison": equal} if name == "one" else {}), name)

    stand_in = types.ModuleType("hawkeye._cuda")
    stand_in.about = lambda device=0: {"instructions": [{"name": "one"}, {"name": "two"}]}  # type: ignore[attr-defined]
    stand_in.discover = asked  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "hawkeye._cuda", stand_in)
    out = tmp_path / "found.json"
    assert main(["discover", "--instructions", "--json", str(out)]) == 2
    told = capsys.readouterr().out
    assert "hopper/bf16" in told
    assert "equal" in told
    assert "nothing fits" in told
    rows = json.loads(out.read_text())["rows"]
    assert [(r["what"], r["outcome"]) for r in rows] == [("one", "certified"), ("two", "declined")]
    assert main(["discover", "--instructions", "--only", "one"]) == 0
    assert main(["discover", "--instructions", "--only", "three"]) == 3

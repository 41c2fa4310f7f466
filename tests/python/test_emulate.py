"""hawkeye.emulate: torch's matrix products on the CPU with a GPU's bits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hawkeye
import numpy as np
import pytest
from conftest import GOLDENS
from hawkeye import _native

torch = pytest.importorskip("torch", reason="torch is not installed: hawkeye.emulate needs it")

BIG = 2e7  # multiply-adds of the largest golden case run here
FLOATS = ["float16", "bfloat16", "float32", "float64"]


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    """The process's flags as they were, whatever a test sets."""
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32, matmul.allow_fp16_accumulation
    yield
    matmul.allow_tf32, matmul.allow_fp16_accumulation = before


def randn(*shape: int, dtype: str = "bfloat16", seed: int = 0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(getattr(torch, dtype))


def bits(t: Any) -> Any:
    width = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.element_size()]
    return t.detach().contiguous().view(width).numpy()


def same(x: Any, y: Any) -> bool:
    return x.dtype == y.dtype and x.shape == y.shape and np.array_equal(bits(x), bits(y))


def only(run: Any) -> Any:
    """The profile of a run that met one signature."""
    (found,) = run.profiles.values()
    return found


def choose(record: dict[str, Any], most: int = 1) -> dict[str, Any]:
    text = json.dumps(record).encode()
    answer: dict[str, Any] = json.loads(_native.text("hawkeye_rules_choose", text, len(text), most))
    return answer


# ---- the bits are those of the profile ------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 33), (64, 48, 80), (1, 64, 500), (64, 1, 500), (3, 200, 1)])
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_mm_is_matmul_with_the_profile(dtype: str, shape: tuple[int, int, int], layout: str) -> None:
    m, n, k = shape
    a = randn(m, k, dtype=dtype) if layout[0] == "N" else randn(k, m, dtype=dtype).mT
    b = randn(k, n, dtype=dtype, seed=1) if layout[1] == "N" else randn(n, k, dtype=dtype, seed=1).mT
    with hawkeye.emulate() as run:
        d = a @ b
        e = torch.empty(n, m, dtype=d.dtype).mT
        torch.mm(a, b, out=e)
    assert same(d, hawkeye.matmul(a, b, profile=only(run), out_dtype=d.dtype))
    assert same(d, e)
    assert e.stride() == torch.empty(n, m).mT.stride()
    assert run.calls == {"mm": 2}
    assert not run.left_out


def test_batches_vectors_integers() -> None:
    a, b, x = randn(3, 9, 40), randn(3, 40, 11, seed=1), randn(40, seed=2)
    i, j = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((24, 40), (40, 16)))
    with hawkeye.emulate() as run:
        batched, vector, integers = torch.bmm(a, b), torch.mv(a[0], x), torch._int_mm(i, j)
        wide = torch.bmm(a, b, out_dtype=torch.float32)
    by = {(json.loads(s)["op"], json.loads(s)["out"]["format"]): p for s, p in run.profiles.items()}
    assert same(batched, hawkeye.matmul(a, b, profile=by["bmm", "bf16"]))
    assert same(wide, hawkeye.matmul(a, b, profile=by["bmm", "f32"], out_dtype="f32"))
    assert same(vector, hawkeye.matmul(a[0], x, profile=by["mv", "bf16"]))
    assert same(integers, (i.int() @ j.int()).int())


def test_bias_is_linears() -> None:
    x, w, bias = randn(2, 9, 64), randn(48, 64, seed=1), randn(48, seed=2)
    with hawkeye.emulate() as run:
        y = torch.nn.functional.linear(x, w, bias)
    assert same(y, hawkeye.linear(x, w, bias, profile=only(run)))
    assert json.loads(next(iter(run.profiles)))["c"]["strides"] == [0, 0, 1]


def test_alpha_and_beta_take_the_profiles_form() -> None:
    a, b, c = randn(16, 64), randn(64, 32, seed=1), randn(16, 32, seed=2)
    alpha, beta = np.float32(1.7), np.float32(0.3)
    with hawkeye.emulate() as run:
        d = torch.addmm(c, a, b, alpha=1.7, beta=0.3)
        batched = torch.baddbmm(c[None], a[None], b[None], alpha=1.7, beta=0.3)
        plain = torch.addmm(c, a, b)
        unread = torch.addmm(torch.full_like(c, float("nan")), a, b, beta=0)
        mine, again = c.clone(), c[None].clone()
        mine.addmm_(a, b, alpha=1.7, beta=0.3)
        again.baddbmm_(a[None], b[None], alpha=1.7, beta=0.3)
    forms = {p.to_dict()["epilogue"]["form"] for s, p in run.profiles.items() if "c" in json.loads(s)}
    assert forms == {"fma-alpha", "round-then-add"}
    acc = hawkeye.matmul(a, b, profile="hopper/bf16", out_dtype="f32").numpy()
    addend = c.float().numpy()
    # fma-alpha: the product alpha*acc is exact in f64, and so nearly always is its sum with the rounded beta*c.
    once = alpha.astype("f8") * acc.astype("f8") + (beta * addend).astype("f8")
    assert same(d, torch.from_numpy(once.astype("f4")).bfloat16())
    assert same(plain, torch.from_numpy(acc).bfloat16() + c)
    assert same(unread, torch.from_numpy(acc).bfloat16())
    assert same(batched[0], d)
    assert same(mine, d)
    assert same(again[0], d)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_addmv_rounds_its_scalars(tmp_path: Path, dtype: str) -> None:
    """As torch does on a GPU, before it calls the library; a recording holds what was asked for, and verifies."""
    a, x, c = randn(64, 96, dtype=dtype), randn(96, dtype=dtype, seed=1), randn(64, dtype=dtype, seed=2)
    with hawkeye.emulate(), hawkeye.record(tmp_path / "run.hawk", outputs="full", display=False):
        d = torch.addmv(c, a, x, alpha=0.3, beta=0.7)
        rounded = {name: float(torch.tensor(v, dtype=c.dtype)) for name, v in (("alpha", 0.3), ("beta", 0.7))}
        same_again = torch.addmv(c, a, x, **rounded)
    assert same(d, same_again)
    assert [v.verdict for v in hawkeye.open_set(tmp_path / "run.hawk")] == ["exact", "exact"]


def test_addmv_and_out() -> None:
    a, x, c = randn(33, 64, dtype="float32"), randn(64, dtype="float32", seed=1), randn(33, dtype="float32", seed=2)
    out = torch.empty(0)
    with hawkeye.emulate() as run:
        d = torch.addmv(c, a, x)
        torch.addmv(c, a, x, out=out)
        e = c.clone().addmv_(a, x)
        overlapping = c.clone()
        torch.addmv(overlapping, a, x, out=overlapping)
    assert run.calls == {"addmv": 4}
    assert all(same(d, other) for other in (out, e, overlapping))
    product = hawkeye.matmul(a, x, profile=only(run).to_dict() | {"epilogue": {"out": "f32", "form": "add"}})
    assert same(d, product + c)


def test_scaled_mm() -> None:
    a, b = randn(32, 64).to(torch.float8_e4m3fn), randn(48, 64, seed=1).to(torch.float8_e4m3fn).mT
    one, two = torch.tensor(0.37), torch.tensor(1.9)
    rows, columns = torch.rand(32, 1) + 0.5, torch.rand(1, 48) + 0.5
    for fast in (False, True):
        with hawkeye.emulate() as run:
            d = torch._scaled_mm(a, b, one, two, out_dtype=torch.bfloat16, use_fast_accum=fast)
        assert same(d, hawkeye.matmul(a, b, profile=only(run), scale_a=one, scale_b=two))
        promoted = "promote" in only(run).to_dict()["plan"]
        assert promoted is not fast
        with hawkeye.emulate() as run:
            d = torch._scaled_mm(a, b, rows, columns, out_dtype=torch.bfloat16, use_fast_accum=fast)
        assert same(d, hawkeye.matmul(a, b, profile=only(run), scale_a=rows, scale_b=columns))
    with hawkeye.emulate() as run, pytest.raises(hawkeye.UnsupportedError, match="scales of"):
        torch._scaled_mm(a, b, torch.rand(32, 2), torch.rand(2, 48), out_dtype=torch.bfloat16)
    with hawkeye.emulate(), pytest.raises(hawkeye.UnsupportedError, match="output in"):
        torch._scaled_mm(a, b, one, two)


def test_flags_decide_as_on_the_gpu() -> None:
    a, b = randn(32, 64, dtype="float32"), randn(64, 32, dtype="float32", seed=1)
    with hawkeye.emulate() as run:
        torch.backends.cuda.matmul.allow_tf32 = False
        full = a @ b
        torch.backends.cuda.matmul.allow_tf32 = True
        rounded = a @ b
        torch.backends.cuda.matmul.allow_fp16_accumulation = False
        f32 = a.half() @ b.half()
        torch.backends.cuda.matmul.allow_fp16_accumulation = True
        f16 = a.half() @ b.half()
    assert len(run.profiles) == 4
    assert same(full, hawkeye.matmul(a, b, profile="hopper/f32"))
    assert same(rounded, hawkeye.matmul(a, b, profile="hopper/tf32"))
    assert same(f32, hawkeye.matmul(a.half(), b.half(), profile="hopper/f16"))
    assert f16.shape == f32.shape


def test_the_newer_interface_of_tf32() -> None:
    script = "import torch, hawkeye; from hawkeye import _dispatch\n"
    script += "torch.backends.cuda.matmul.fp32_precision = 'tf32'; assert _dispatch._tf32()\n"
    script += "torch.backends.cuda.matmul.fp32_precision = 'ieee'; assert not _dispatch._tf32()\n"
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        pytest.skip("this torch has no fp32_precision")
    import subprocess
    import sys
    from pathlib import Path

    path = str(Path(hawkeye.__file__).parents[1])
    subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": path}, check=True)


# ---- whole programs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", [False, True])
def test_whatever_torch_makes_of_products(inference: bool) -> None:
    x, w = randn(2, 6, 32), randn(24, 32, seed=1)
    with torch.inference_mode(inference), hawkeye.emulate(strict=True) as run:
        results = [
            torch.nn.functional.linear(x, w),
            x @ w.mT,
            torch.einsum("bik,nk->bin", x, w),
            torch.tensordot(x, w, dims=([2], [1])),
        ]
    assert sum(run.calls.values()) == 4
    expected = hawkeye.matmul(x, w.mT, profile="hopper/bf16")
    assert all(same(r, expected) for r in results)


def test_backward_is_emulated_and_autograd_unharmed() -> None:
    x, w = randn(16, 32).requires_grad_(), randn(24, 32, seed=1).requires_grad_()
    with hawkeye.emulate() as run:
        y = torch.nn.functional.linear(x, w)
        y.backward(torch.ones_like(y))
    assert run.calls == {"mm": 3}
    ones = torch.ones(16, 24, dtype=torch.bfloat16)
    assert same(x.grad, hawkeye.matmul(ones, w.detach(), profile="hopper/bf16"))
    assert same(w.grad, hawkeye.matmul(ones.mT, x.detach(), profile="hopper/bf16"))


def test_expanded_and_gapped_operands_are_as_torch_hands_them_on() -> None:
    base = randn(40, 64)
    one = torch.ones((), dtype=torch.bfloat16).expand(16, 40)
    with hawkeye.emulate() as run:
        d, e = one @ base, base[:, ::2] @ base[:32, :8]
    layouts = [json.loads(s)["a"]["strides"] for s in run.profiles]
    assert layouts == [[640, 40, 1], [1280, 32, 1]]
    assert same(d, hawkeye.matmul(one, base, profile="hopper/bf16"))
    assert same(e, hawkeye.matmul(base[:, ::2], base[:32, :8], profile="hopper/bf16"))


def test_empty_products_are_torchs() -> None:
    c = randn(4, 5)
    with hawkeye.emulate() as run:
        assert same(torch.mm(randn(4, 0), randn(0, 5)), torch.zeros(4, 5, dtype=torch.bfloat16))
        assert same(torch.addmm(c, randn(4, 0), randn(0, 5), beta=2), c * 2)
        assert torch.mm(randn(0, 3), randn(3, 5)).shape == (0, 5)
        assert torch.bmm(randn(0, 3, 4), randn(0, 4, 5)).shape == (0, 3, 5)
    assert not run.calls


def test_a_signature_is_chosen_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from hawkeye import _dispatch

    asked: list[str] = []
    original = _dispatch._likeliest
    monkeypatch.setattr(_dispatch, "_likeliest", lambda s: asked.append(s) or original(s))
    a, b = randn(16, 32), randn(32, 16, seed=1)
    with hawkeye.emulate() as run:
        for _ in range(5):
            a @ b
        a @ b.mT.contiguous().mT
    assert len(asked) == len(run.profiles) == 2
    assert "6 products" in str(run)


# ---- what is not emulated --------------------------------------------------------------------------------------------


def test_left_out_is_counted_or_refused() -> None:
    x = torch.ones(8)
    with hawkeye.emulate() as run:
        torch.dot(x, x)
        torch.ones(2, 2, dtype=torch.int32) @ torch.ones(2, 2, dtype=torch.int32)
        torch.nn.functional.scaled_dot_product_attention(*[torch.randn(1, 2, 8, 8)] * 3)
    assert sum(run.left_out.values()) == 3
    assert "left to torch" in str(run)
    with hawkeye.emulate(strict=True), pytest.raises(hawkeye.UnsupportedError, match="dot multiplies"):
        torch.dot(x, x)


def test_scalars_of_zero() -> None:
    """As on an H200: alpha 0 and beta 1 copy the addend, beta 0 does not read it, K = 0 scales it."""
    a, b, c = randn(4, 8), randn(8, 4), randn(4, 4)
    nan = torch.full_like(c, torch.nan)
    with hawkeye.emulate():
        assert torch.equal(torch.addmm(c, a * torch.nan, b, alpha=0), c)
        assert torch.equal(torch.addmm(nan, a * torch.nan, b, alpha=0, beta=0), torch.zeros(4, 4).to(c.dtype))
        assert not torch.addmm(nan, a, b, beta=0).isnan().any()


def test_refusals() -> None:
    a, b = randn(4, 8), randn(8, 4)
    with pytest.raises(hawkeye.ArgumentError, match=r"h200-torch2\.11"):
        hawkeye.emulate("h100")
    with hawkeye.emulate():
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            torch.mm(a, a)
        with pytest.raises(RuntimeError, match="dimensions"):
            torch.ops.aten.mm(a[0], b)
        with pytest.raises(RuntimeError, match="out in"):
            torch.mm(a, b, out=torch.empty(4, 4))
    assert torch.mm(a, b).shape == (4, 4)


def test_forked_workers_compute_for_themselves() -> None:
    a, b = randn(4, 8), randn(8, 4)
    plain = a @ b
    with hawkeye.emulate() as run:
        a @ b
        child = os.fork()
        if child == 0:
            os._exit(0 if same(a @ b, plain) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert run.calls == {"mm": 1}


# ---- the C function -------------------------------------------------------------------------------------------------


def record(m: int, n: int, k: int, **fields: Any) -> dict[str, Any]:
    def tensor(rows: int, columns: int) -> dict[str, Any]:
        return {"format": "bf16", "shape": [1, rows, columns], "strides": [rows * columns, columns, 1]}

    out = {"format": "bf16", "shape": [1, m, n]}
    return {"record_version": "1.0", "id": "", "op": "mm", "a": tensor(m, k), "b": tensor(k, n), "out": out, **fields}


def test_choose_looks_at_kernels_and_stops_at_most() -> None:
    blind = choose(record(1, 8, 4096), 3)
    assert blind["count"] > len(blind["candidates"]) == 3
    assert not blind["determined"]
    assert choose(record(1, 8, 4096), 0)["candidates"] == []
    named = choose(record(1, 8, 4096, kernels=["nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"]))
    assert named["determined"]
    assert named["candidates"][0]["profile_id"] == hawkeye.profile(named["candidates"][0]["profile"]).id
    for m, n, k in ((0, 4, 4), (4, 0, 4), (4, 4, 0)):
        choose(record(m, n, k))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"record_version": "2.0"}, "record_version"),
        ({"out": {"format": "bf16", "shape": [1, 4, 5]}}, "out.shape"),
        ({"out": {"shape": [1, 4, 4]}}, "out.format"),
        ({"a": {"format": "bf16", "shape": [1, 4, 4], "strides": [1]}}, "a.strides"),
        ({"a": {"format": "bf16", "shape": [1, 4, 1 << 60], "strides": [0, 0, 0]}}, "out of range"),
        ({"a": {"format": "q3", "shape": [1, 4, 4], "strides": [16, 4, 1]}}, "q3"),
    ],
)
def test_choose_refuses_records_that_say_no_product(change: dict[str, Any], words: str) -> None:
    with pytest.raises(hawkeye.ArgumentError, match=words):
        choose(record(4, 4, 4) | change)
    with pytest.raises(hawkeye.ArgumentError, match="negative"):
        choose(record(4, 4, 4), -1)


# ---- recorded on an H200 --------------------------------------------------------------------------------------------

DTYPES = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "i8": torch.int8,
    "i32": torch.int32,
}


def tensor(pattern: Any, name: str, transposed: bool = False) -> Any:
    if transposed:
        pattern = np.ascontiguousarray(np.swapaxes(pattern, -1, -2))
    signed = np.ascontiguousarray(pattern).view(f"i{pattern.dtype.itemsize}")
    result = torch.from_numpy(signed).view(DTYPES[name])
    return result.mT if transposed else result


def replay(s: dict[str, Any]) -> Any:
    """A golden line's product, asked of torch as the recorder asked."""
    import inputs

    seed, out = s["seed"], DTYPES[s["out"]]
    sizes = s["batch"], s["m"], s["n"], s["k"]
    a, b = inputs.operands(s["a"], s["b"], s["kind"], seed, *sizes)
    a, b = tensor(a, s["a"], s["layout"][0] == "T"), tensor(b, s["b"], s["layout"][1] == "T")
    c = None
    if s.get("c"):
        count = s["n"] if s["c"] == "bias" else s["batch"] * s["m"] * s["n"]
        addend = inputs.elements(s["out"], "normal", (seed * 3 << 20) + 7, count, s["c_lower"])
        c = tensor(addend if s["c"] == "bias" else addend.reshape(s["batch"], s["m"], s["n"]), s["out"])
    matmul = torch.backends.cuda.matmul
    matmul.allow_tf32, matmul.allow_fp16_accumulation = bool(s.get("tf32")), bool(s.get("f16acc"))
    scalars = {"alpha": s.get("alpha", 1.0), "beta": s.get("beta", 1.0)}
    if s["op"] == "scaled_mm":
        if s["scaling"] == "row":
            signed = [inputs.elements("f32", "normal", (seed * 3 + i) << 21, s[x]) for i, x in ((1, "m"), (2, "n"))]
            x, y = tensor(signed[0], "f32").abs()[:, None], tensor(signed[1], "f32").abs()[None, :]
        else:
            x, y = torch.tensor(s["scale_a"]), torch.tensor(s["scale_b"])
        return torch._scaled_mm(a[0], b[0], x, y, out_dtype=out, use_fast_accum=bool(s.get("fast")))
    calls = {
        "mm": lambda: torch.mm(a[0], b[0]) if s["out"] == s["a"] else torch.mm(a[0], b[0], out_dtype=out),
        "linear": lambda: torch.nn.functional.linear(a[0], b[0].mT, c),
        "addmm": lambda: torch.addmm(c[0], a[0], b[0], **scalars),
        "bmm": lambda: torch.bmm(a, b),
        "baddbmm": lambda: torch.baddbmm(c, a, b, **scalars),
        "mv": lambda: torch.mv(a[0], b[0, :, 0]),
        "int_mm": lambda: torch._int_mm(a[0], b[0]),
    }
    return calls[s["op"]]()


@pytest.mark.parametrize(("name", "least"), [("h200-torch2.11", 90), ("h200-fresh", 60)])
def test_golden_products_through_torch(name: str, least: int) -> None:
    """Where the likeliest plan is the one that the recorded kernels leave, torch's output has the recorded hash."""
    exact: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    same_plan, agree = 0, 0
    for line in (GOLDENS / f"{name}.jsonl").read_text().splitlines():
        s = json.loads(line)
        if "about" in s or s["batch"] * s["m"] * s["n"] * s["k"] > BIG:
            continue
        with hawkeye.emulate(strict=True) as run:
            output = replay(s)
        ((signature, used),) = run.profiles.items()
        known = choose(json.loads(signature) | {"kernels": s["kernels"], "launches": s.get("launches", [])})
        agreed = hashlib.sha256(bits(output).tobytes()).hexdigest() == s["sha256"]
        agree += agreed
        family = known["family"]
        if known["determined"] and known["candidates"][0]["profile_id"] == used.id:
            same_plan += 1
            assert agreed, f"{s['id']}: {family} with the recorded plan has other bits"
        if not any("split" in kernel.lower() for kernel in s["kernels"]):
            tried[family] += 1
            exact[family] += agreed
    print(f"{name}: {agree} exact, {same_plan} with the likeliest plan, as the kernels' names leave no other")
    print(", ".join(f"{family} {exact[family]} of {count}" for family, count in tried.most_common()))
    assert same_plan >= least
    for family, some in (("nvjet", 50), ("nvjet promoted", 10)):
        assert exact[family] == tried[family] >= some


# ---- grouped products, and profiles from elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize("ragged", ["m", "n", "k", ""])
def test_grouped_products_are_their_groups(ragged: str) -> None:
    sizes = [8, 0, 24, 16]
    ends = torch.tensor(sizes).cumsum(0).to(torch.int32)
    total = sum(sizes)
    shapes = {
        "m": ((total, 40), (4, 40, 32)),
        "n": ((4, 48, 40), (40, total)),
        "k": ((48, total), (total, 32)),
        "": ((4, 48, 40), (4, 40, 32)),
    }[ragged]
    a, b = (torch.randn(shape).bfloat16() for shape in shapes)
    with hawkeye.emulate() as run:
        out = torch._grouped_mm(a, b, offs=ends if ragged else None)
        parts = [slice(int(end) - size, int(end)) for size, end in zip(sizes, ends)]
        for i, part in enumerate(parts):
            left = {"m": a[part], "k": a[:, part]}.get(ragged, a[i] if a.dim() == 3 else a)
            right = {"n": b[:, part], "k": b[part]}.get(ragged, b[i] if b.dim() == 3 else b)
            place = {"m": out[part], "n": out[:, part]}.get(ragged, out[i] if out.dim() == 3 else out)
            if 0 in (*left.shape, *right.shape):
                assert not place.any()
                continue
            want = hawkeye.matmul(left, right, profile="hopper/bf16", out_dtype="bf16")
            assert torch.equal(place.view(torch.int16), torch.as_tensor(want).view(torch.int16))
    assert run.calls == {"grouped_mm": 4 if ragged == "" else 3}
    assert not run.left_out


def test_other_grouped_products_are_torch_s_own() -> None:
    a, b = torch.randn(2, 8, 16), torch.randn(2, 16, 8)
    with hawkeye.emulate() as run, contextlib.suppress(RuntimeError):  # not every torch has f32 ones
        torch._grouped_mm(a, b)
    assert run.calls == {}
    assert run.left_out == {"_grouped_mm of torch.float32": 1}
    with hawkeye.emulate(strict=True), pytest.raises(hawkeye.UnsupportedError):
        torch._grouped_mm(a, b)


def test_profiles_of_a_trace(tmp_path: Path) -> None:
    """A trace says how its products were summed; products like them are computed so."""
    a, b, c = torch.randn(64, 96).bfloat16(), torch.randn(48, 96).bfloat16(), torch.randn(48).bfloat16()
    with hawkeye.emulate() as plain, hawkeye.record(tmp_path / "run.hawk", display=False):
        for _ in range(2):
            out = torch.addmm(c, a, b.t())
        small = a[:, :32].contiguous() @ b[:, :32].t()
    report = hawkeye.verify(tmp_path / "run.hawk")
    assert report.ok
    with hawkeye.emulate(profiles=report) as again:
        assert torch.equal(torch.addmm(c, a, b.t()), out)
        assert torch.equal(a[:, :32].contiguous() @ b[:, :32].t(), small)
    assert {p.id for p in again.profiles.values()} <= {v.profile.id for v in report.exact if v.profile}
    other = hawkeye.profile("ampere/bf16")  # of another GPU: it shows
    with hawkeye.emulate(profiles=dict.fromkeys(plain.profiles, other)) as swapped:
        wide = torch.addmm(c, a * 2.0**-60, b.t() * 2.0**60)
        torch.addmm(c, a.repeat(1, 2), b.repeat(1, 2).t())  # no product like it
    first, second = swapped.profiles.values()
    assert first.id == other.id != second.id
    assert wide.shape == out.shape
    with pytest.raises(hawkeye.ArgumentError, match="profiles: want"):
        hawkeye.emulate(profiles={"x": other})
    with pytest.raises(hawkeye.ArgumentError, match="set in a file"):
        hawkeye.emulate(profiles=hawkeye.verify(GOLDENS / "h200-tails.jsonl"))

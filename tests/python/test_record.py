"""Recording torch programs: what a trace holds is what torch multiplied, and recording changes nothing."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import hawkeye
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing can be recorded")
nn = torch.nn

from trace_check import Trace, bits, merkle, strided  # noqa: E402


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run.hawk"


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(1)


def record(folder: Path, **options: Any) -> Any:
    return hawkeye.record(folder, display=False, **options)


def one(folder: Path) -> tuple[Trace, dict[str, Any]]:
    trace = Trace(folder)
    (line,) = trace.lines
    return trace, line


def sha(t: Any) -> str:
    return hashlib.sha256(bits(t)).hexdigest()


def same(a: Any, b: Any) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bits(a) == bits(b)


def modes() -> int:
    return int(torch._C._len_torch_dispatch_stack())


def again(trace: Trace, line: dict[str, Any]) -> Any:
    """Runs a line's operation on its operands as they lay in memory; the result has three dimensions."""

    def get(name: str) -> Any:
        return strided(trace.get(line, name), line[name]["strides"])

    def number(name: str) -> float:
        form, _, digits = line["scalars"][name].partition(":0x")
        kind = {"f32": (torch.int32, torch.float32), "f64": (torch.int64, torch.float64)}[form]
        value = int(digits, 16)
        value -= (1 << 4 * len(digits)) if value >> (4 * len(digits) - 1) else 0
        return float(torch.tensor(value, dtype=kind[0]).view(kind[1]))

    a, b, op = get("a"), get("b"), line["op"]
    both = {"alpha": number("alpha"), "beta": number("beta")} if "alpha" in line.get("scalars", {}) else {}
    if op == "mm":
        return torch.mm(a[0], b[0])[None]
    if op == "addmm":
        c = get("c")[0]
        return torch.addmm(c[0] if line["c"]["strides"][1] == 0 else c, a[0], b[0], **both)[None]
    if op in ("bmm", "grouped_mm"):
        return torch.bmm(a, b)
    if op == "baddbmm":
        return torch.baddbmm(get("c"), a, b, **both)
    if op == "mv":
        return torch.mv(a[0], b[0, :, 0])[None, :, None]
    if op == "addmv":
        return torch.addmv(get("c")[0, :, 0], a[0], b[0, :, 0], **both)[None, :, None]
    if op == "dot":
        return torch.dot(a[0, 0], b[0, :, 0])[None, None, None]
    if op == "int_mm":
        return torch._int_mm(a[0], b[0])[None]
    raise AssertionError(op)


def check_all(trace: Trace, *, least: int) -> None:
    """Every recorded output is what torch makes of the recorded operands."""
    assert len(trace.lines) >= least
    for line in trace.lines:
        assert sha(again(trace, line)) == line["out"]["sha256"], line


# ---- single operators -----------------------------------------------------------------------------------------------

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def operands(dtype: Any, *shape: int) -> Any:
    return torch.randn(*shape).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT", "padded", "strided"])
@pytest.mark.parametrize("inference", [False, True])
def test_mm(folder: Path, dtype: Any, layout: str, inference: bool) -> None:
    m, n, k = 5, 7, 11
    a = operands(dtype, k, m).t() if layout[0] == "T" else operands(dtype, m, k)
    b = operands(dtype, n, k).t() if layout[-1] == "T" else operands(dtype, k, n)
    if layout == "padded":
        a, b = operands(dtype, m, k + 3)[:, 2 : 2 + k], operands(dtype, k + 1, n + 4)[1:, :n]
    if layout == "strided":
        a, b = operands(dtype, m, 2 * k)[:, ::2], operands(dtype, n + 2, k).t()[:, 1 : n + 1]
    with record(folder, outputs="full"), torch.inference_mode(inference):
        out = torch.mm(a, b)
    trace, line = one(folder)
    assert (line["op"], line["pass"], line["step"], line["call"]) == ("mm", "forward", 0, 0)
    for name, t in (("a", a), ("b", b)):
        assert same(trace.get(line, name)[0], t)
        assert line[name]["strides"][1:] == list(t.stride())
        assert line[name].get("offset", 0) == t.storage_offset()
        assert ("stored" in line[name]) == (t.t().is_contiguous() and not t.is_contiguous())
    assert sha(out) == line["out"]["sha256"]
    assert "c" not in line
    assert "scalars" not in line
    check_all(trace, least=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("addend", ["full", "bias", "column", "one"])
def test_addmm(folder: Path, dtype: Any, addend: str) -> None:
    a, b = operands(dtype, 4, 9), operands(dtype, 9, 6)
    c = operands(dtype, *{"full": (4, 6), "bias": (6,), "column": (4, 1), "one": (1,)}[addend])
    with record(folder):
        out = torch.addmm(c, a, b, alpha=0.3, beta=-1.7)
    trace, line = one(folder)
    assert same(trace.get(line, "c")[0], c.expand(4, 6).contiguous())
    assert line["c"]["strides"][1:] == list(c.expand(4, 6).stride())
    assert sha(out) == line["out"]["sha256"]
    if dtype is torch.float64:
        assert line["scalars"] == {"alpha": "f64:0x3fd3333333333333", "beta": "f64:0xbffb333333333333"}
    else:
        assert line["scalars"] == {"alpha": "f32:0x3e99999a", "beta": "f32:0xbfd9999a"}


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("shape", [(6,), (1, 6), (1,)])
def test_a_bias_is_told_from_a_copied_addend(folder: Path, shape: tuple[int, ...], rows: int) -> None:
    """The library adds a vector by another epilogue than what torch copies into the output; a record tells which."""
    a, b, c = torch.randn(rows, 9), torch.randn(9, 6), torch.randn(shape)
    with record(folder):
        torch.addmm(c, a, b)
    trace, line = one(folder)
    assert same(trace.get(line, "c")[0], c.expand(rows, 6).contiguous())
    assert (line["c"]["strides"][1] == 0) == (shape == (6,))
    check_all(trace, least=1)


def test_addend_is_kept_before_it_becomes_the_output(folder: Path) -> None:
    a, b, c, v = torch.randn(4, 9), torch.randn(9, 6), torch.randn(4, 6), torch.randn(4)
    before, vector = c.clone(), v.clone()
    batched = torch.randn(2, 4, 6)
    batch_before = batched.clone()
    with record(folder):
        c.addmm_(a, b)
        first = c.clone()
        torch.addmm(c, a, b, out=c)
        second = c.clone()
        batched.baddbmm_(torch.randn(2, 4, 3), torch.randn(2, 3, 6), beta=0.5)
        v.addmv_(a, b[:, 0].contiguous())
    trace = Trace(folder)
    for line, want in zip(trace.lines, (before, first, batch_before, vector[:, None])):
        assert same(trace.get(line, "c"), want if want.dim() == 3 else want[None])
    outs = (first, second, batched, v)
    assert [line["out"]["sha256"] for line in trace.lines] == [sha(t) for t in outs]
    check_all(trace, least=4)


def test_a_result_upon_its_operands_is_no_product(folder: Path) -> None:
    """torch computes it all the same, reading what it has written: a verifier would find it wrong."""
    a, b, c = torch.randn(4, 4), torch.randn(4, 4), torch.randn(8, 4)
    with record(folder):
        torch.mm(a, b, out=a)
        torch.bmm(a[None], b[None], out=b[None])
        torch.mm(c[2:6], b, out=c[:4])
        torch.mv(a, b[0], out=b[0])
        torch.mm(c[4:], b, out=c[:4])  # beside it
        torch.addmm(a, c[:4], b, out=a)
        a.addmm_(c[:4], b)
    trace = Trace(folder)
    assert trace.manifest["coverage"]["skipped"] == {"output overlaps an operand": 4}
    check_all(trace, least=3)


def test_out_variants(folder: Path) -> None:
    a, b = torch.randn(3, 5), torch.randn(5, 4)
    outs = [torch.empty(0), torch.empty(4, 3).t(), torch.empty(2, 3, 4), torch.empty(3), torch.empty(())]
    with record(folder):
        torch.mm(a, b, out=outs[0])
        torch.matmul(a, b, out=outs[1])
        torch.bmm(a.expand(2, 3, 5), b.expand(2, 5, 4), out=outs[2])
        torch.mv(a, b[:, 1], out=outs[3])
        torch.dot(a[0], b[:, 2], out=outs[4])
    trace = Trace(folder)
    assert [line["op"] for line in trace.lines] == ["mm", "mm", "bmm", "mv", "dot"]
    assert [line["out"]["sha256"] for line in trace.lines] == [sha(t) for t in outs]
    check_all(trace, least=5)
    assert trace.lines[2]["a"]["strides"][0] == 0


@pytest.mark.parametrize("inference", [False, True])
def test_everything_made_of_them(folder: Path, inference: bool) -> None:
    x, y = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    w, bias = torch.randn(6, 4), torch.randn(6)
    with record(folder), torch.inference_mode(inference):
        results = [
            x @ y,
            torch.einsum("bij,bjk->bik", x, y),
            nn.functional.linear(x, w, bias),
            nn.functional.linear(x[0], w),
            torch.baddbmm(torch.randn(2, 1, 5), x, y, alpha=2),
            torch.tensordot(x, y, dims=([2], [1])),
            w @ x[0, 0],
            x[0, 0] @ x[0, 1],
            torch.inner(x, w),
            torch.linalg.multi_dot([x[0], y[0], torch.randn(5, 2)]),
            torch.vdot(x[0, 0], x[0, 1]),
        ]
    trace = Trace(folder)
    check_all(trace, least=12)
    recorded = {line["out"]["sha256"] for line in trace.lines}
    assert all(sha(r) in recorded for r in results if r.dim() != 4)
    assert trace.manifest["coverage"]["skipped"] == {}


def test_inference_mode_changes_no_bit(folder: Path) -> None:
    """Operators that arrive whole run torch's own code, not a decomposition of ours."""
    import torch._decomp  # registers decompositions in Python

    x, w, bias = torch.randn(3, 7, 33), torch.randn(9, 33), torch.randn(9)
    with torch.inference_mode():
        plain = [nn.functional.linear(x, w, bias), x @ w.t(), torch.einsum("bij,kj->bik", x, w)]
        with record(folder):
            seen = [nn.functional.linear(x, w, bias), x @ w.t(), torch.einsum("bij,kj->bik", x, w)]
    assert all(same(p, s) for p, s in zip(plain, seen))
    check_all(Trace(folder), least=3)


@pytest.mark.parametrize("scaling", ["tensor", "row"])
@pytest.mark.parametrize("fast", [False, True])
def test_scaled_mm(folder: Path, scaling: str, fast: bool) -> None:
    m, n, k = 16, 32, 48
    a = torch.randn(m, k).to(torch.float8_e4m3fn)
    b = torch.randn(n, k).to(torch.float8_e4m3fn).t()
    sa = torch.tensor(0.37) if scaling == "tensor" else torch.rand(m, 1) + 0.5
    sb = torch.tensor(1.25) if scaling == "tensor" else torch.rand(1, n) + 0.5
    with record(folder, outputs="full"):
        try:
            out = torch._scaled_mm(a, b, sa, sb, out_dtype=torch.bfloat16, use_fast_accum=fast)
        except RuntimeError as error:
            pytest.skip(f"this torch has no such product on the CPU: {error}")
    trace, line = one(folder)
    assert line["op"] == "scaled_mm"
    assert line["flags"]["use_fast_accum"] is fast
    assert (line["a"]["format"], line["out"]["format"]) == ("e4m3", "bf16")
    assert line["b"]["stored"] == "transposed"
    assert same(trace.get(line, "b")[0], b)
    assert sha(out) == line["out"]["sha256"]
    if scaling == "tensor":
        assert line["scalars"] == {"scale_a": "f32:0x3ebd70a4", "scale_b": "f32:0x3fa00000"}
        assert "scale_a" not in line
    else:
        assert same(trace.get(line, "scale_a"), sa[:, 0])
        assert same(trace.get(line, "scale_b"), sb[0])
        assert line["scale_a"]["strides"] == [1]


def test_int_mm(folder: Path) -> None:
    a, b = (torch.randint(-128, 128, s, dtype=torch.int8) for s in ((17, 24), (24, 16)))
    with record(folder):
        torch._int_mm(a, b)
    trace, line = one(folder)
    assert (line["op"], line["a"]["format"], line["out"]["format"]) == ("int_mm", "s8", "s32")
    check_all(trace, least=1)


@pytest.mark.skipif(not hasattr(torch, "_grouped_mm"), reason="this torch has no grouped products")
@pytest.mark.parametrize("ragged", ["m", "n", "k", "none"])
def test_grouped_mm(folder: Path, ragged: str) -> None:
    ends = [8, 8, 24, 32]
    offs = torch.tensor(ends, dtype=torch.int32)

    def make(*shape: int) -> Any:
        return torch.randn(*shape).bfloat16()

    a, b = {
        "m": (make(32, 16), make(4, 24, 16).mT),
        "n": (make(4, 16, 24), make(32, 24).t()),
        "k": (make(32, 16).t(), make(32, 24)),
        "none": (make(4, 8, 16), make(4, 24, 16).mT),
    }[ragged]
    with record(folder, outputs="full"):
        out = torch._grouped_mm(a, b, offs=None if ragged == "none" else offs)
    trace = Trace(folder)
    if ragged == "none":
        assert len(trace.lines) == 1
        assert sha(out) == trace.lines[0]["out"]["sha256"]
        return
    spans = list(zip([0, *ends], ends))
    assert trace.manifest["coverage"]["skipped"] == {"empty group": 1}
    assert [line["group"] for line in trace.lines] == [0, 2, 3]
    for line in trace.lines:
        g = line["group"]
        s = slice(*spans[g])
        want_a, want_b, want = {
            "m": lambda s=s, g=g: (a[s], b[g], out[s]),
            "n": lambda s=s, g=g: (a[g], b[:, s], out[:, s]),
            "k": lambda s=s, g=g: (a[:, s], b[s], out[g]),
        }[ragged]()
        assert same(trace.get(line, "a")[0], want_a)
        assert same(trace.get(line, "b")[0], want_b)
        assert line["a"]["strides"][1:] == list(want_a.stride())
        assert line["b"]["offset"] == want_b.storage_offset()
        assert sha(want) == line["out"]["sha256"]


def test_special_values_and_single_rows(folder: Path) -> None:
    a = torch.tensor([[float("nan"), -0.0, float("inf"), 1e-45]])
    a.view(torch.int32)[0, 0] = 0x7FC12345  # a NaN with a payload
    b = torch.randn(1, 4).t()
    with record(folder, outputs="full"):
        torch.mm(a, b)
        torch.mm(a, torch.randn(4, 3))
    trace = Trace(folder)
    assert same(trace.get(trace.lines[0], "a")[0], a)
    check_all(trace, least=2)


def test_what_is_no_case_is_counted(folder: Path) -> None:
    c = torch.randn(2, 2, dtype=torch.complex64)
    q = torch.randn(1, 2, 8, 16)
    with record(folder) as rec:
        c @ c
        torch.ones(2, 2, dtype=torch.int64) @ torch.ones(2, 2, dtype=torch.int64)
        torch.ones(2, 0) @ torch.ones(0, 2)
        torch.ones(0, 2) @ torch.ones(2, 2)
        torch.addbmm(torch.ones(2, 2), torch.ones(3, 2, 2), torch.ones(3, 2, 2))
        nn.functional.conv1d(torch.ones(1, 1, 5), torch.ones(1, 1, 2))
        nn.functional.scaled_dot_product_attention(q, q, q)
        sparse = torch.eye(3).to_sparse()
        torch.mm(sparse, torch.ones(3, 3))
    trace = Trace(folder)
    assert trace.lines == []
    skipped = trace.manifest["coverage"]["skipped"]
    for reason in ("dtype complex64", "dtype int64", "k = 0", "empty", "addbmm", "convolution", "layout sparse_coo"):
        assert skipped.pop(reason) == 1
    assert list(skipped.values()) == [1]
    assert "scaled_dot_product" in next(iter(skipped))
    assert "8 skipped" in rec.summary()
    assert trace.manifest["coverage"]["missed"] == "not measured"


# ---- programs -------------------------------------------------------------------------------------------------------


class Block(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width, bias=False)

    def forward(self, x: Any) -> Any:
        return x + self.fc2(nn.functional.gelu(self.fc1(self.norm(x))))


class Net(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self, width: int = 24, depth: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def train(steps: int = 3, *, autocast: bool = False, rec: Any = None) -> list[Any]:
    torch.manual_seed(7)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for _ in range(steps):
        x, y = torch.randn(6, 3, 24), torch.randint(5, (18,))
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = net(x)
        loss = nn.functional.cross_entropy(logits.float().reshape(-1, 5), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rec is not None:
            rec.step()
    return [logits, *net.state_dict().values()]


@pytest.mark.parametrize("autocast", [False, True])
def test_recording_changes_no_bit_of_a_training(folder: Path, autocast: bool) -> None:
    plain = train(autocast=autocast)
    with record(folder):
        recorded = train(autocast=autocast)
    assert all(same(p, r) for p, r in zip(plain, recorded))
    trace = Trace(folder)
    check_all(trace, least=3 * 14)
    assert {line["a"]["format"] for line in trace.lines} == {"bf16" if autocast else "f32"}
    assert {line["step"] for line in trace.lines} == {0, 1, 2}


def test_modules_and_passes(folder: Path) -> None:
    with record(folder):
        train(1)
    lines = Trace(folder).lines
    names = ["layers.0.fc1", "layers.0.fc2", "layers.1.fc1", "layers.1.fc2", "head"]
    forward = [line["module"] for line in lines if line["pass"] == "forward"]
    backward = [line["module"] for line in lines if line["pass"] == "backward"]
    assert forward == [f"Net.{name}" for name in names]
    assert backward == [f"Net.{name}" for name in reversed(names) for _ in range(2)]
    assert [line["call"] for line in lines] == list(range(15))


def test_modules_by_pattern_and_by_name(folder: Path, tmp_path: Path) -> None:
    with record(folder, modules=["*.fc1", "Net.head"]):
        train(1)
    trace = Trace(folder)
    assert {line["module"] for line in trace.lines} == {"Net.layers.0.fc1", "Net.layers.1.fc1", "Net.head"}
    assert trace.manifest["coverage"]["skipped"] == {"modules": 6}
    assert trace.manifest["settings"]["modules"] == ["*.fc1", "Net.head"]
    net = Net()
    with record(tmp_path / "named.hawk", modules=net):
        net.layers[0](torch.randn(2, 24))  # without the outer module's forward
    assert [line["module"] for line in Trace(tmp_path / "named.hawk").lines] == [
        "Net.layers.0.fc1",
        "Net.layers.0.fc2",
    ]


def test_weights_changed_right_after_the_call(folder: Path) -> None:
    a, w = torch.randn(64, 64), torch.randn(64, 64)
    want_a, want_w = a.clone(), w.clone()
    with record(folder, outputs="full"):
        out = a @ w
        want = out.clone()
        w.zero_()
        a.fill_(7)
        out.relu_()
    trace, line = one(folder)
    assert same(trace.get(line, "a")[0], want_a)
    assert same(trace.get(line, "b")[0], want_w)
    assert line["out"]["sha256"] == sha(want)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(folder: Path, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    block = Block(8)
    with record(folder):
        checkpoint(block, torch.randn(3, 8, requires_grad=True), use_reentrant=reentrant).sum().backward()
    trace = Trace(folder)
    check_all(trace, least=7)
    kinds = [(line["pass"], line.get("recomputed", False), line["module"]) for line in trace.lines]
    assert kinds[:2] == [("forward", False, "Block.fc1"), ("forward", False, "Block.fc2")]
    repeated = [k for k in kinds if k[1]]  # the other kind stops where it has everything that was saved
    assert repeated == [("forward", True, "Block.fc1"), ("forward", True, "Block.fc2")][: 1 + reentrant]
    assert [k[2] for k in kinds if k[0] == "backward"] == ["Block.fc2", "Block.fc2", "Block.fc1", "Block.fc1"]


def test_threads_of_autograd_are_seen(folder: Path) -> None:
    """Backwards nested deeper than 60 go on in a thread of the engine's, as every backward on a GPU does."""
    seen = []

    class Nested(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with torch.enable_grad():
                x = torch.randn(2, 2, requires_grad=True)
                if ctx.depth:
                    Nested.apply(x, ctx.depth - 1).sum().backward()
                else:
                    seen.append(threading.get_ident())
                    torch.mm(x, x).sum().backward()
            return grads[0], None

    with record(folder):
        Nested.apply(torch.randn(2, 2, requires_grad=True), 70).sum().backward()
    assert seen != [threading.get_ident()]
    trace = Trace(folder)
    check_all(trace, least=3)
    assert {line["pass"] for line in trace.lines} == {"backward"}


def test_other_threads(folder: Path) -> None:
    a = torch.randn(8, 8)

    def silent() -> None:
        a @ a

    def attached(rec: Any) -> None:
        with rec.attach():
            for _ in range(20):
                a @ a
        assert modes() == 0

    with record(folder) as rec:
        threads = [threading.Thread(target=silent)] + [threading.Thread(target=attached, args=(rec,)) for _ in range(4)]
        for t in threads:
            t.start()
        for _ in range(20):
            a @ a
        for t in threads:
            t.join()
    trace = Trace(folder)
    assert len(trace.lines) == 100
    assert sorted(line["call"] for line in trace.lines) == list(range(100))


def test_subclasses_unfold_first(folder: Path) -> None:
    class Wrapped(torch.Tensor):  # type: ignore[misc,name-defined]
        @staticmethod
        def __new__(cls, inner: Any) -> Any:
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner: Any) -> None:
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            return func(*plain, **(kwargs or {}))

    a = torch.randn(3, 3)
    with record(folder):
        out = torch.mm(Wrapped(a), a)
    trace, line = one(folder)
    assert same(trace.get(line, "a")[0], a)
    assert sha(out) == line["out"]["sha256"]


def test_other_modes_keep_their_place(folder: Path) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    a = torch.randn(4, 4)
    with record(folder, every=2, seed=3) as rec, counter:
        for _ in range(8):
            a @ a
            rec.step()
    assert modes() == 0
    assert not torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    assert counter.get_total_flops() == 8 * 2 * 4**3
    assert len(Trace(folder).lines) == sum(chosen(f"step:0:{s}", 3) % 2 == 0 for s in range(8))


def test_torch_compile_stays_compiled(folder: Path) -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    f = torch.compile(lambda x, w: (x @ w).relu(), backend=counter)
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    with record(folder):
        out = f(x, w)
    assert counter.frame_count == 1
    assert same(out, (x @ w).relu())
    check_all(Trace(folder), least=1)


def test_generated_inside_inference_then_trained(folder: Path) -> None:
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    with record(folder):
        with torch.inference_mode():
            net(torch.randn(2, 24))
        with torch.no_grad():
            net(torch.randn(2, 24))
        net(torch.randn(2, 24)).sum().backward()
        optimizer.step()
    trace = Trace(folder)
    check_all(trace, least=15 + 9)
    assert "" not in {line["module"] for line in trace.lines}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("outside", [False, True])
def test_steps_that_end_inside_inference_mode(folder: Path, every: int, seed: int, outside: bool) -> None:
    """The end of the block puts the thread's dispatch keys back: no mode may be missing then, nor a key too many."""
    a = torch.randn(4, 4)
    if outside:
        with torch.inference_mode(), record(folder, every=every, seed=seed) as rec:
            for _ in range(12):
                a @ a
                rec.step()
                torch.empty(2)
            torch.empty(2)
    else:
        with record(folder, every=every, seed=seed) as rec:
            for _ in range(3):
                with torch.inference_mode():
                    for _ in range(4):
                        a @ a
                        rec.step()
                        torch.empty(2)
                torch.empty(2)
    torch.empty(2)  # has no tensor arguments: fails where a key was left behind
    assert modes() == 0
    want = [s for s in range(12) if chosen(f"step:0:{s}", seed) % every == 0]
    assert [line["step"] for line in Trace(folder).lines] == want


# ---- sampling -------------------------------------------------------------------------------------------------------


def chosen(message: str, seed: int) -> int:
    digest = hmac.new(str(seed).encode(), message.encode(), hashlib.sha256).digest()
    return int.from_bytes(digest[:8], "big")


def test_steps_are_sampled_by_their_hash(folder: Path) -> None:
    a = torch.randn(4, 4)
    depths = []
    with record(folder, every=4, seed=11) as rec:
        for _ in range(60):
            depths.append(modes())
            assert not nn.modules.module._global_forward_pre_hooks
            a @ a
            rec.step()
    want = [s for s in range(60) if chosen(f"step:0:{s}", 11) % 4 == 0]
    assert 5 < len(want) < 30
    assert [s for s, depth in enumerate(depths) if depth] == want
    trace = Trace(folder)
    assert [line["step"] for line in trace.lines] == want
    assert trace.manifest["coverage"]["steps"]["sampled"] - len(want) in (0, 1)  # the step begun after the last one
    assert modes() == 0


def test_an_unsampled_step_has_no_mode(folder: Path) -> None:
    seen = []

    class Spy(nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            seen.append(modes())
            return x @ x

    spy = Spy()
    parameter = nn.Parameter(torch.randn(2, 2))
    optimizer = torch.optim.SGD([parameter], 0.1)
    with record(folder, every=3, seed=5):
        for _ in range(30):
            optimizer.zero_grad()
            spy(parameter).sum().backward()
            optimizer.step()
    want = [int(chosen(f"step:0:{s}", 5) % 3 == 0) for s in range(30)]
    assert seen == want
    assert 0 in want
    assert {line["step"] for line in Trace(folder).lines} == {s for s in range(30) if want[s]}


def test_fraction_of_calls(folder: Path) -> None:
    a = torch.randn(4, 4)
    with record(folder, fraction=0.25, seed=2):
        for _ in range(200):
            a @ a
    want = [c for c in range(200) if chosen(f"call:0:0:{c}", 2) < 2**62]
    trace = Trace(folder)
    assert [line["call"] for line in trace.lines] == want
    assert trace.manifest["coverage"]["skipped"] == {"fraction": 200 - len(want)}


def test_rec_step_and_optimizers_count_a_step_once(folder: Path, tmp_path: Path) -> None:
    with record(folder) as rec:
        train(3, rec=rec)
    assert {line["step"] for line in Trace(folder).lines} == {0, 1, 2}
    with record(tmp_path / "other.hawk") as rec:
        for _ in range(3):
            torch.ones(2, 2) @ torch.ones(2, 2)
            rec.step()
    assert [line["step"] for line in Trace(tmp_path / "other.hawk").lines] == [0, 1, 2]


# ---- what is written ------------------------------------------------------------------------------------------------


def test_samples_are_at_the_known_indices(folder: Path) -> None:
    from inputs import sample_indices

    with record(folder, outputs="samples"):
        small = torch.randn(3, 4).bfloat16() @ torch.randn(4, 5).bfloat16()
        large = torch.randn(100, 4) @ torch.randn(4, 101)
    for line, out in zip(Trace(folder).lines, (small, large)):
        kept = out.reshape(-1)[torch.from_numpy(sample_indices(out.numel()))]
        assert line["out"]["samples"] == {"indices": "default", "data": bits(kept).hex()}
        assert "file" not in line["out"]


def test_a_weight_is_stored_once_whichever_way_it_is_used(folder: Path) -> None:
    w = torch.randn(6, 4)
    with record(folder):
        torch.randn(3, 4) @ w.t()
        torch.randn(3, 6) @ w
        torch.randn(2, 3, 4) @ w.t()
    trace = Trace(folder)
    assert len({line["b"]["file"] for line in trace.lines}) == 1
    assert [line["b"].get("stored") for line in trace.lines] == ["transposed", None, "transposed"]


def test_repeated_elements_are_stored_once(folder: Path) -> None:
    bias, row = torch.randn(64), torch.randn(1, 5, 7)
    with record(folder):
        torch.addmm(bias, torch.randn(32, 8), torch.randn(8, 64))
        torch.bmm(row.expand(6, 5, 7), torch.randn(6, 7, 3))
        torch.bmm(torch.randn(6, 3, 5), row.expand(6, 5, 7))
        torch.bmm(torch.randn(6, 3, 7), row.expand(6, 5, 7).mT)
    trace = Trace(folder)
    first, second, third, fourth = trace.lines
    assert (first["c"]["stored"], first["c"]["strides"], first["c"]["shape"]) == ("once", [0, 0, 1], [1, 32, 64])
    assert same(trace.get(first, "c"), bias.expand(1, 32, 64))
    assert second["a"]["file"] == third["b"]["file"] == fourth["b"]["file"]
    assert [third["b"]["stored"], fourth["b"]["stored"]] == ["once", "once-transposed"]
    check_all(trace, least=4)


def test_fake_tensors_pass(folder: Path) -> None:
    """As where torch works out shapes, in FSDP for one: nothing is computed, and nothing is recorded."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with record(folder):
        with FakeTensorMode():
            torch.zeros_like(torch.empty(3))
            assert (torch.empty(2, 3) @ torch.empty(3, 4)).shape == (2, 4)
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert len(Trace(folder).lines) == 1


def test_max_bytes(folder: Path) -> None:
    with record(folder, max_bytes=20_000) as rec:
        for _ in range(10):
            torch.randn(16, 16) @ torch.randn(16, 16)
            time.sleep(0.01)
    trace = Trace(folder)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.suffix in (".safetensors", ".jsonl"))
    assert 0 < len(trace.lines) < 10
    assert size <= 20_000
    assert len(trace.lines) + trace.manifest["coverage"]["skipped"]["max_bytes"] == 10
    assert rec.failure is None


def test_dropping_and_waiting_when_memory_is_full(folder: Path, tmp_path: Path) -> None:
    a = torch.randn(32, 32)
    with record(folder, when_full="drop", pending_bytes=50_000):
        for _ in range(300):
            a @ a
    coverage = Trace(folder).manifest["coverage"]
    assert coverage["dropped"] > 0
    assert coverage["recorded"] + coverage["dropped"] == 300
    with record(tmp_path / "wait.hawk", pending_bytes=1):  # each larger than the room: one at a time
        for _ in range(5):
            a @ a
    assert len(Trace(tmp_path / "wait.hawk").lines) == 5


def test_a_disk_that_fails_stops_the_recording_and_not_the_program(folder: Path) -> None:
    """Files of at most 4,000 bytes: the index ends in the middle of a line."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    a = torch.randn(4, 4)
    with pytest.warns(RuntimeWarning, match="not sealed.*File too large"):  # noqa: PT031
        resource.setrlimit(resource.RLIMIT_FSIZE, (4000, before[1]))
        try:
            rec = record(folder).__enter__()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        for _ in range(10):
            assert same(a @ a, torch.mm(a, a))
        rec.__exit__(None, None, None)
    assert isinstance(rec.failure, OSError)
    trace = Trace(folder, sealed=False)
    assert 2 <= len(trace.lines) < 10
    assert trace.torn == 1


def test_a_writing_process_that_dies_stops_the_recording_and_not_the_program(folder: Path) -> None:
    a = torch.randn(4, 4)
    with pytest.warns(RuntimeWarning, match=r"not sealed.*has ended \(status -9\)"), record(folder) as rec:  # noqa: PT031
        a @ a
        rec.step()
        while rec.coverage()["recorded"] == 0:
            time.sleep(0.01)
        rec._writer._process.kill()
        for _ in range(10):
            assert same(a @ a, torch.mm(a, a))
            rec.step()
    assert isinstance(rec.failure, hawkeye.FileError)
    assert len(Trace(folder, sealed=False).lines) == 1


def test_a_fault_of_the_recorder_does_not_fail_the_program(folder: Path, monkeypatch: Any) -> None:
    from hawkeye.record import _recorder

    def broken(*_: Any) -> Any:
        raise KeyError("broken")

    monkeypatch.setattr(_recorder._flags, "flags", broken)
    a = torch.randn(4, 4)
    with pytest.warns(RuntimeWarning, match="could not be recorded.*broken"), record(folder):  # noqa: PT031
        out = a @ a
        a @ a
    assert same(out, a @ a)
    assert Trace(folder).manifest["coverage"]["skipped"] == {"KeyError while recording": 2}


def test_an_error_of_the_program_passes_and_the_trace_is_sealed(folder: Path) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), record(folder):  # noqa: PT012
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.ones(2, 3) @ torch.ones(2, 3)
    trace = Trace(folder)
    assert len(trace.lines) == 1
    assert trace.manifest["ended"] == "RuntimeError"
    assert modes() == 0


def test_flags(folder: Path) -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    try:
        with record(folder):
            for value in (True, False):
                matmul.allow_tf32 = value
                torch.ones(2, 2) @ torch.ones(2, 2)
    finally:
        matmul.allow_tf32 = before
    assert [line["flags"]["allow_tf32"] for line in Trace(folder).lines] == [True, False]


def test_refusals(folder: Path) -> None:
    for wrong in ({"every": 0}, {"fraction": 0.0}, {"fraction": 1.5}, {"outputs": "all"}, {"when_full": "stop"}):
        with pytest.raises(hawkeye.ArgumentError):
            record(folder, **wrong)
    with pytest.raises(hawkeye.ArgumentError, match="modules"):
        record(folder, modules=3)
    with pytest.raises(hawkeye.ArgumentError, match="max_bytes"):
        record(folder, commit=True, max_bytes=10)
    for name in ("every", "seed"):  # a reader could not compute the same choice from them
        with pytest.raises(hawkeye.ArgumentError, match=f"{name}: want a whole number, not 2.5"):
            record(folder, **{name: 2.5})
    with pytest.raises(hawkeye.ArgumentError, match="seed: want a text"):
        record(folder, seed="\ud800")
    with pytest.raises(hawkeye.FileError, match="cannot be written: embedded null byte"), record(Path(f"{folder}\0")):
        pass
    assert not folder.exists()
    with record(folder):
        pass
    assert Trace(folder).lines == []
    with pytest.raises(hawkeye.FileError, match="is in use"), record(folder):
        pass
    assert modes() == 0


def test_ranks_share_a_folder(folder: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("WORLD_SIZE", "3")
    recorders = []
    for rank in (1, 0, 2):
        monkeypatch.setenv("RANK", str(rank))
        recorders.append(record(folder))
    for rank, rec in zip((1, 0, 2), recorders):
        monkeypatch.setenv("RANK", str(rank))
        with rec:
            for _ in range(rank + 1):
                torch.ones(2, 2) @ torch.ones(2, 2)
        assert json.loads((folder / "manifest.json").read_text())["sealed"] is (rank == 2)
    trace = Trace(folder)
    assert [len(lines) for lines in trace.ranks.values()] == [1, 2, 3]
    assert trace.manifest["coverage"]["recorded"] == 6
    assert recorders[2].root == trace.manifest["root"]


def test_merkle_roots() -> None:
    from hawkeye.record._merkle import Merkle

    hashes = [hashlib.sha256(bytes([i])).digest() for i in range(70)]
    tree = Merkle()
    for i, h in enumerate(hashes):
        assert tree.root().hex() == merkle(hashes[:i])
        tree.add(h)


def test_files_are_safetensors(folder: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    a = torch.randn(3, 5).bfloat16()
    with record(folder):
        a @ torch.randn(5, 2).bfloat16()
    name = Trace(folder).lines[0]["a"]["file"]
    loaded = safetensors.load_file(folder / "tensors" / name[:2] / f"{name}.safetensors")
    assert list(loaded) == ["t"]
    assert same(loaded["t"][0], a)


# ---- hostile programs -----------------------------------------------------------------------------------------------


def test_threads_that_multiply_while_a_step_ends(folder: Path) -> None:
    """No call gets the number of a step that is not sampled, and none that of another."""
    a, stop = torch.ones(2, 2), threading.Event()

    def attached(rec: Any) -> None:
        with rec.attach():
            while not stop.is_set():
                a @ a

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with record(folder, every=2) as rec:
            threads = [threading.Thread(target=attached, args=(rec,)) for _ in range(3)]
            for t in threads:
                t.start()
            for _ in range(800):
                a @ a
                rec.step()
            stop.set()
            for t in threads:
                t.join()
    finally:
        stop.set()
        sys.setswitchinterval(before)
    recorded = hawkeye.open_set(folder).trace
    assert recorded is not None
    assert recorded["problem_count"] == 0, recorded["problems"]
    lines = [json.loads(line) for line in (folder / "rank-0000.jsonl").read_text().splitlines()]
    assert len({(line["step"], line["call"]) for line in lines}) == len(lines) > 400


def test_threads_that_multiply_when_recording_ends(tmp_path: Path) -> None:
    """They wait for no room that nobody gives back."""
    a = torch.ones(64, 64)
    for turn in range(4):
        stop = threading.Event()

        def attached(rec: Any, stop: threading.Event = stop) -> None:
            with rec.attach():
                while not stop.is_set():
                    a @ a

        with record(tmp_path / f"{turn}.hawk", pending_bytes=40_000) as rec:
            threads = [threading.Thread(target=attached, args=(rec,), daemon=True) for _ in range(6)]
            for t in threads:
                t.start()
            time.sleep(0.1)
        stop.set()
        for t in threads:
            t.join(10)
        assert not any(t.is_alive() for t in threads)
        assert rec.failure is None


def test_steps_before_and_after_the_recording(folder: Path) -> None:
    rec = record(folder, pending_bytes=10)
    rec.step()
    a = torch.ones(2, 2)
    with rec:
        a @ a
    for _ in range(5):
        rec.step()
        a @ a
        assert modes() == 0
    assert [line["step"] for line in Trace(folder).lines] == [0]


def test_a_forked_child_that_takes_steps(folder: Path) -> None:
    """Nothing of the child's is recorded, and it waits for no thread that only the parent has."""
    a = torch.ones(8, 8)
    with record(folder, pending_bytes=10) as rec:
        child = os.fork()
        if child == 0:
            for _ in range(5):
                a @ a
                rec.step()
            os._exit(modes())
        end = time.monotonic() + 20
        while (done := os.waitpid(child, os.WNOHANG)) == (0, 0) and time.monotonic() < end:
            time.sleep(0.01)
        if done == (0, 0):
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert done == (child, 0)
        a @ a
    assert len(Trace(folder).lines) == 1


def test_a_product_while_the_recorder_takes_a_number(folder: Path) -> None:
    """As a signal's handler, or a destructor, may multiply at any moment."""
    a, done = torch.ones(2, 2), threading.Event()

    def interrupted(rec: Any) -> None:
        with rec.attach(), rec._lock, rec._modules._lock, rec._background._changed:
            a @ a
            nn.Linear(2, 2)(a)
            done.set()

    with record(folder) as rec:
        thread = threading.Thread(target=interrupted, args=(rec,), daemon=True)
        thread.start()
        assert done.wait(10)
        thread.join()
    assert len(Trace(folder).lines) == 2


INTERRUPTED = """
import faulthandler, random, signal, time, torch, hawkeye
class Interrupted(Exception): pass
def interrupt(*_): raise Interrupted
signal.signal(signal.SIGALRM, interrupt)
faulthandler.dump_traceback_later(60, exit=True)
choose, a, turns = random.Random(1), torch.ones(16, 16), 0
with hawkeye.record("run.hawk", display=False, pending_bytes=8000) as rec:
    begun = time.monotonic()
    while time.monotonic() - begun < 4:
        try:
            signal.setitimer(signal.ITIMER_REAL, choose.random() * 0.002 + 0.0002)
            while True:
                a @ a
        except Interrupted:
            turns += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
    a @ a
print(turns, rec.failure)
"""


def test_a_program_that_interrupts_itself(tmp_path: Path, environment: dict[str, str]) -> None:
    """A handler that raises, as for a time-out: no room stays taken by calls that were never queued."""
    command = [sys.executable, "-c", INTERRUPTED]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    turns, failure = done.stdout.split()
    assert int(turns) > 100
    assert failure == "None"
    recorded = hawkeye.open_set(tmp_path / "run.hawk").trace
    assert recorded is not None
    assert (recorded["sealed"], recorded["problem_count"]) == (True, 0)


@pytest.mark.parametrize(("rank", "world"), [("-1", "1"), ("70000", "80000"), ("0", "0"), ("x", "1")])
def test_ranks_that_are_none(folder: Path, monkeypatch: Any, rank: str, world: str) -> None:
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", world)
    with record(folder):
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert [line["id"] for line in Trace(folder).lines] == ["r0-000000"]


@pytest.mark.parametrize("kind", ["closed", "broken", "none"])
def test_a_program_without_standard_error(folder: Path, monkeypatch: Any, kind: str) -> None:
    here, there = os.pipe()
    os.close(here)
    stream = None if kind == "none" else os.fdopen(there, "w")
    if kind == "closed":
        assert stream is not None
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with hawkeye.record(folder):
        torch.ones(2, 2) @ torch.ones(2, 2)
    monkeypatch.undo()
    if kind == "broken" and stream is not None:
        with contextlib.suppress(BrokenPipeError):
            stream.close()
    assert len(Trace(folder).lines) == 1


def test_a_fault_where_warnings_are_errors(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    from hawkeye.record import _recorder

    monkeypatch.setattr(_recorder._flags, "flags", lambda *_: 1 / 0)
    a = torch.ones(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with record(folder):
            assert same(a @ a, torch.mm(a, a))
    assert "could not be recorded" in capsys.readouterr().err


def test_a_manifest_that_the_program_destroys(folder: Path) -> None:
    with pytest.warns(RuntimeWarning, match="not sealed"), record(folder) as rec:  # noqa: PT031
        torch.ones(2, 2) @ torch.ones(2, 2)
        (folder / "manifest.json").write_text("no JSON")
    assert isinstance(rec.failure, ValueError)


def test_no_python_to_write_with(folder: Path, monkeypatch: Any) -> None:
    for name in ("", None):
        monkeypatch.setattr(sys, "executable", name)
        with pytest.raises(hawkeye.FileError, match=r"sys\.executable names none"), record(folder):
            pass
    assert not folder.exists()


def test_modules_that_the_writing_process_must_not_find(folder: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "others").mkdir()
    for name in ("numpy", "json", "hawkeye"):
        (tmp_path / "others" / f"{name}.py").write_text("raise SystemExit(9)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "others"))
    monkeypatch.setenv("PYTHONINSPECT", "1")
    with record(folder):
        torch.ones(2, 2) @ torch.ones(2, 2)
    assert len(Trace(folder).lines) == 1


CLOSED = """
import os, signal, sys, time, torch, hawkeye
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
a = torch.ones(4, 4)
with hawkeye.record("run.hawk", display=False) as rec:
    a @ a
    rec.step()
    while not rec.coverage()["recorded"]:
        time.sleep(0.01)
    if sys.argv[1] == "killed":
        rec._writer._process.kill()
        rec._writer._process.wait()
    else:
        os.closerange(3, 1000)
        files = [open("/dev/zero", "rb") for _ in range(30)]
    for _ in range(5):
        a @ a
        rec.step()
if sys.argv[1] == "closed":
    assert all(file.read(1) == b"\\0" for file in files)
print(rec.failure)
"""


@pytest.mark.parametrize(("what", "said"), [("closed", "has closed the descriptor"), ("killed", "has ended")])
def test_a_program_that_takes_the_writing_process_away(
    tmp_path: Path, environment: dict[str, str], what: str, said: str
) -> None:
    """Neither other files that have the descriptors' numbers by then are touched, nor does SIGPIPE end the program."""
    command = [sys.executable, "-c", CLOSED, what]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
    assert len(Trace(tmp_path / "run.hawk", sealed=False).lines) == 1


# ---- processes ------------------------------------------------------------------------------------------------------


class Multiplied(torch.utils.data.Dataset):  # type: ignore[misc,name-defined]
    """Its items are products, made in a worker."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        x = torch.full((3, 3), float(index))
        return x @ x, modes()


def test_data_loader_with_forked_workers(folder: Path) -> None:
    net = nn.Linear(3, 2)
    with record(folder) as rec:
        loader = torch.utils.data.DataLoader(Multiplied(), num_workers=2, multiprocessing_context="fork")
        for x, depth in loader:
            assert depth.item() == 0
            net(x[0])
            rec.step()
    trace = Trace(folder)
    assert [line["module"] for line in trace.lines] == ["Linear"] * 8
    check_all(trace, least=8)


def test_a_forked_child_that_leaves_the_block(folder: Path) -> None:
    a = torch.randn(3, 3)
    with record(folder):
        a @ a
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with hawkeye.record(folder.parent / "child.hawk", display=False):
                    a @ a
                status = 0 if modes() == 0 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        a @ a
    assert len(Trace(folder).lines) == 2
    assert len(Trace(folder.parent / "child.hawk").lines) == 1


SCRIPT = """
import sys, torch
import helper
assert __name__ == "__main__"
print(sys.argv[1:], helper.value)
torch.manual_seed(0)
a = torch.randn(4, 4)
print((a @ a).sum().item())
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("status", [0, 3])
def test_command_line(tmp_path: Path, environment: dict[str, str], status: int) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text("value = 42\n")
    command = ["-o", "run.hawk", "--outputs", "full", "--seed", "k", "sub/../train.py", str(status), "-o", "x"]
    (tmp_path / "sub").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "hawkeye.record", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, done.stderr
    assert f"['{status}', '-o', 'x'] 42" in done.stdout
    assert "keep it private" in done.stderr
    assert "1 multiplications of 1 sampled steps (of 1) recorded, 0 skipped, 0 dropped" in done.stderr
    trace = Trace(tmp_path / "run.hawk")
    assert trace.manifest["root"] in done.stderr
    check_all(trace, least=1)


def test_recording_never_loads_the_library(tmp_path: Path, environment: dict[str, str]) -> None:
    script = (
        "import hawkeye, torch\n"
        "with hawkeye.record('run.hawk'): torch.ones(2, 2) @ torch.ones(2, 2)\n"
        "assert 'libhawkeye' not in open('/proc/self/maps').read()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(Trace(tmp_path / "run.hawk").lines) == 1


KILLED = """
import os, random, signal, sys, time
import torch, hawkeye
torch.set_num_threads(1)
with hawkeye.record(os.path.join(sys.argv[1], "first"), display=False):
    torch.ones(2, 2) @ torch.ones(2, 2)  # loads here, once, what torch loads when a mode first sees an operator
choose = random.Random(4)
for turn in range(int(sys.argv[2])):
    started, starting = os.pipe()
    child = os.fork()
    if child == 0:
        with hawkeye.record(os.path.join(sys.argv[1], f"{turn}.hawk"), display=False) as rec:
            w, begun = torch.randn(16, 16), False
            while True:
                w.copy_(torch.randn(4, 16).t() @ torch.randn(4, 16))
                rec.step()
                if not begun and rec.coverage()["recorded"]:
                    begun = os.write(starting, b".") == 1
    os.read(started, 1)
    time.sleep(choose.random() / 10)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
time.sleep(2)  # what the writing processes have in hand they write to its end
"""


def test_killed_at_any_moment(tmp_path: Path, environment: dict[str, str]) -> None:
    """What a killed recording leaves opens, and every finished line is whole: 50 times, at moments drawn by a seed."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), "50"]
    subprocess.run(command, env=environment, check=True, timeout=600)
    traces = [Trace(tmp_path / f"{turn}.hawk", sealed=False) for turn in range(50)]
    assert all(trace.torn <= 1 for trace in traces)
    assert len({len(trace.lines) for trace in traces}) > 10  # they did not all die at the same line
    for trace in traces[:5]:
        check_all(trace, least=0)


def test_a_torn_line_is_the_last_and_alone(folder: Path) -> None:
    """The checker of these tests sees what a death in the middle of a write would leave."""
    with record(folder):
        for _ in range(3):
            torch.ones(2, 2) @ torch.ones(2, 2)
    index = folder / "rank-0000.jsonl"
    index.write_bytes(index.read_bytes()[:-20])
    manifest = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**manifest, "sealed": False}))
    trace = Trace(folder, sealed=False)
    assert (len(trace.lines), trace.torn) == (2, 1)

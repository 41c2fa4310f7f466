"""Kernel names in traces: what is read from a profile, and where the lines wait for it."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import hawkeye
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: nothing can be recorded")

from hawkeye.record import _recorder  # noqa: E402
from hawkeye.record._profile import Kernel, Seen, Taken, multiplies, seen  # noqa: E402
from trace_check import Trace  # noqa: E402

GEMM = "nvjet_tst_128x64_64x10_1x2_h_bz_TNT"
REDUCE = "void cublasLt::splitKreduce_kernel<32, 16, int, float>(int)"


MARK = "at::cuda::(anonymous namespace)::spin_kernel(long)"


def launch(correlation: int, tid: int, at: float, cat: str = "cuda_runtime") -> dict[str, Any]:
    return {"cat": cat, "name": "launch", "tid": tid, "ts": at, "dur": 1, "args": {"correlation": correlation}}


def kernel(correlation: int, name: str, at: float) -> dict[str, Any]:
    args = {"correlation": correlation, "grid": [correlation, 1, 1], "block": [128, 1, 1]}
    return {"cat": "kernel", "name": name, "tid": 7, "ts": at, "dur": 1, "args": args}


def marked(first: int, tid: int, begin: float, end: float) -> list[dict[str, Any]]:
    """The two marks of a call; first and first + 1 are their correlations."""
    return [
        launch(first, tid, begin),
        kernel(first, MARK, begin + 100),
        launch(first + 1, tid, end),
        kernel(first + 1, MARK, end + 100),
    ]


EVENTS = [
    {"cat": "cpu_op", "name": "aten::mm", "tid": 1, "ts": 0, "dur": 5},
    {"name": "process_name", "ph": "M"},
    {"cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "tid": 1, "ts": 900, "dur": 1, "args": {"cbid": 3}},
    *marked(3, 1, 30.5, 40.0),
    *marked(1, 1, 10.0, 20.0),
    *marked(5, 2, 12.0, 14.0),  # another thread, at the same time
    *marked(7, 1, 50.0, 60.0),
    launch(101, 1, 11.0),
    launch(102, 1, 19.0, "cuda_driver"),
    launch(103, 2, 13.0),
    launch(104, 1, 35.0),
    launch(105, 1, 25.0),  # between two calls
    launch(106, 1, 55.0),  # seen, and not recorded
    launch(107, 3, 13.0),  # a thread without marks
    launch(108, 1, 45.0),
    kernel(102, REDUCE, 210.0),
    kernel(101, GEMM, 200.0),  # kernels start in another order than they are listed
    kernel(103, "gemv2T_kernel_val", 205.0),
    kernel(104, "ampere_sgemm_32x32_sliced1x4_tn", 300.0),
    kernel(105, GEMM, 250.0),
    kernel(106, GEMM, 400.0),
    kernel(107, "void dot_kernel<float, 128>", 410.0),
    kernel(108, "void at::native::vectorized_elementwise_kernel<4>", 420.0),
]
FIRST = {
    1: [Kernel(GEMM, [101, 1, 1], [128, 1, 1]), Kernel(REDUCE, [102, 1, 1], [128, 1, 1])],
    2: [Kernel("ampere_sgemm_32x32_sliced1x4_tn", [104, 1, 1], [128, 1, 1])],
}
SECOND = {3: [Kernel("gemv2T_kernel_val", [103, 1, 1], [128, 1, 1])]}


def test_kernels_stand_between_the_marks_of_their_thread() -> None:
    assert seen(EVENTS, {1: [1, 2, -1], 2: [3]}) == Seen(FIRST | SECOND, 2, True)  # missed: 105 and 107


def test_a_profile_keeps_32_bits_of_a_thread() -> None:
    def of(tid: int) -> list[dict[str, Any]]:
        return [*marked(3, tid, 1.0, 2.0), launch(9, tid, 1.5), kernel(9, GEMM, 7.0)]

    for thread, tids in ((0x7F123B387000, (993554432,)), (0x7F12FB387000, (0xFB387000, 0xFB387000 - 2**32, 80187392))):
        for tid in tids:
            assert seen(of(tid), {thread: [5]}) == Seen({5: [Kernel(GEMM, [9, 1, 1], [128, 1, 1])]}, 0, True)
        assert not seen(of(tids[0] + 1), {thread: [5]}).whole


def test_a_thread_whose_marks_are_not_all_there_has_no_kernels() -> None:
    found = seen(EVENTS, {1: [1, 2, -1, -1], 2: [3]})
    assert found.calls == SECOND
    assert not found.whole
    assert not seen([e for e in EVENTS if e.get("cat") != "kernel"], {1: [1], 2: [3]}).whole


def test_names_of_kernels_that_multiply() -> None:
    from conftest import GOLDENS

    cases = map(json.loads, (GOLDENS / "h200-torch2.11.jsonl").read_text(encoding="utf-8").splitlines())
    for case in cases:
        names = case.get("kernels", [])
        assert sum(map(multiplies, names)) in (1, 2) if names else True, names
    for other in (
        REDUCE,
        "void at::native::reduce_kernel<512, 1>",
        "void at::native::elementwise_kernel<128, 2>",
        "memset",
    ):
        assert not multiplies(other)
    for other in ("triton_tem_fused_mm_3", "triton_mm", "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16"):
        assert multiplies(other)


class Profile:
    """In the place of torch's profiler: every marked call ran one kernel, named after its number, and one more ran."""

    broken = False
    stopped = 0
    folder = Path()
    marks: ClassVar[list[int]] = []

    def __init__(self) -> None:
        if self.broken:
            raise RuntimeError("the program profiles itself")
        self.marks.clear()

    @contextmanager
    def mark(self, number: int) -> Any:
        self.marks.append(number)
        yield

    def stop(self) -> Taken:
        type(self).stopped += 1
        events = [kernel(999, GEMM, 0.0)]
        for i, n in enumerate(self.marks):
            events += marked(2 * i + 2000, 1, 10.0 * i, 10.0 * i + 5)
            events += [launch(i + 1000, 1, 10.0 * i + 1), kernel(i + 1000, f"gemm_{n}", 10.0 * i)]
        path = self.folder / f"{self.stopped}.json"
        path.write_text(json.dumps({"traceEvents": events}))
        return Taken(path, {1: list(self.marks)})


@pytest.fixture
def profiled(monkeypatch: Any, tmp_path: Path) -> type[Profile]:
    monkeypatch.setattr(_recorder._kernels, "Profile", Profile)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Profile, "broken", False)
    monkeypatch.setattr(Profile, "stopped", 0)
    monkeypatch.setattr(Profile, "folder", tmp_path)
    return Profile


def products(rec: Any) -> None:
    for _ in range(3):
        torch.ones(2, 2) @ torch.ones(2, 2)
        torch.ones(3, 2) @ torch.ones(2, 3)
        rec.step()


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_lines_get_the_kernels_of_their_calls(tmp_path: Path, profiled: Any, fraction: float) -> None:
    with hawkeye.record(tmp_path / "run.hawk", kernels=True, fraction=fraction, display=False) as rec:
        products(rec)
    trace = Trace(tmp_path / "run.hawk")
    assert [line["kernels"] for line in trace.lines] == [[f"gemm_{n + 1}"] for n in range(len(trace.lines))]
    assert all(line["launches"][0]["block"] == [128, 1, 1] for line in trace.lines)
    coverage = trace.manifest["coverage"]
    assert coverage["named"] == coverage["recorded"] == len(trace.lines)
    assert coverage["missed"] == coverage["steps"]["sampled"] == profiled.stopped
    assert not list(tmp_path.glob("*.json"))
    assert fraction == 1 or -1 in Profile.marks or coverage["skipped"]["fraction"] == 6 - len(trace.lines)


def test_a_step_without_a_profile_is_recorded_without_names(tmp_path: Path, profiled: Any, monkeypatch: Any) -> None:
    with (  # noqa: PT031
        pytest.warns(RuntimeWarning, match="the program profiles itself"),
        hawkeye.record(tmp_path / "run.hawk", kernels=True, display=False) as rec,
    ):
        torch.ones(2, 2) @ torch.ones(2, 2)
        monkeypatch.setattr(Profile, "broken", True)
        rec.step()
        torch.ones(2, 2) @ torch.ones(2, 2)
        rec.step()
    trace = Trace(tmp_path / "run.hawk")
    assert ["kernels" in line for line in trace.lines] == [True, False]
    coverage = trace.manifest["coverage"]
    assert (coverage["recorded"], coverage["named"], coverage["missed"]) == (2, 1, "not measured")


def test_max_bytes_counts_lines_that_wait(tmp_path: Path, profiled: Any) -> None:
    folder = tmp_path / "run.hawk"
    with hawkeye.record(folder, kernels=True, max_bytes=30_000, display=False):
        for _ in range(20):
            torch.randn(4, 4) @ torch.randn(4, 4)
    trace = Trace(folder)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.suffix in (".safetensors", ".jsonl"))
    assert 0 < len(trace.lines) < 20
    assert size <= 30_000
    assert trace.manifest["coverage"]["skipped"]["max_bytes"] == 20 - len(trace.lines)


def test_without_a_gpu_nothing_is_named(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with hawkeye.record(tmp_path / "run.hawk", kernels=True, display=False):
        torch.ones(2, 2) @ torch.ones(2, 2)
    trace = Trace(tmp_path / "run.hawk")
    assert "kernels" not in trace.lines[0]
    assert trace.manifest["coverage"]["missed"] == "not measured"

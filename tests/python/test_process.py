"""The library in a process: forks, Ctrl-C, progress, threads of the host, and a library that is not there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import hawkeye
import numpy as np
import pytest
from hawkeye import Cancelled
from operands import random, same


def run(
    script: str, environment: dict[str, str], *arguments: str, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(script), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)


# ---- fork -----------------------------------------------------------------------------------------------------------

FORK = """
    import os, sys
    import numpy as np
    import hawkeye

    a = np.ones((3, 40), np.float16)
    if sys.argv[1] == "after":
        hawkeye.matmul(a, a.T)
    child = os.fork()
    if child == 0:
        code = 9
        try:
            hawkeye.matmul(a, a.T)
            code = 0
        except hawkeye.ForkError as error:
            assert "spawn" in str(error), error
            code = 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert hawkeye.matmul(a, a.T)[0, 0] == 40  # the parent goes on
    print(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(("when", "code"), [("before", "0"), ("after", "1")])
def test_fork(environment: dict[str, str], when: str, code: str) -> None:
    done = run(FORK, environment, when)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == code


FORKED_CALLS = """
    import os
    import numpy as np
    import hawkeye

    x = np.ones((2, 8), np.float16)
    p = hawkeye.profile(hawkeye.profile("hopper/f16").json())
    calls = [
        lambda: hawkeye.matmul(x, x.T, profile=p),
        lambda: hawkeye.compare(x, x),
        lambda: hawkeye.profiles(),
        lambda: hawkeye.profile("hopper/f16"),
        lambda: p.json(),
        lambda: p.describe(),
        lambda: hawkeye.threads(),
        lambda: hawkeye.instruction_set(),
        lambda: hawkeye.set_threads(1),
        lambda: hawkeye.open_set("x.jsonl"),
    ]
    child = os.fork()
    if child == 0:
        refused = 0
        for call in calls:
            try:
                call()
            except hawkeye.ForkError:
                refused += 1
        del p  # freeing the handle must not enter the library either
        os._exit(refused)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(calls))
"""


def test_every_call_of_a_forked_child_is_refused(environment: dict[str, str]) -> None:
    done = run(FORKED_CALLS, environment)
    assert done.returncode == 0, done.stderr
    refused, calls = done.stdout.split()
    assert refused == calls


LOADER = """
    import sys
    import torch
    import hawkeye

    class Products(torch.utils.data.Dataset):
        def __len__(self):
            return 6
        def __getitem__(self, i):
            x = torch.full((4, 40), float(i)).bfloat16()
            return hawkeye.matmul(x, x.t())

    if __name__ == "__main__":
        if sys.argv[1] == "after":
            hawkeye.threads()
        try:
            batches = list(torch.utils.data.DataLoader(Products(), num_workers=2, multiprocessing_context="fork"))
            print("values", sum(float(b[0, 0, 0]) for b in batches))
        except hawkeye.ForkError as error:
            print("refused", "forkserver" in str(error))
"""


@pytest.mark.parametrize(("when", "says"), [("before", f"values {40.0 * 55}"), ("after", "refused True")])
def test_data_loader_with_forked_workers(torch: Any, environment: dict[str, str], when: str, says: str) -> None:
    done = run(LOADER, environment, when, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == says


# ---- progress and cancellation --------------------------------------------------------------------------------------


def long_product() -> tuple[Any, Any]:
    """Operands of a product that takes seconds everywhere: on the oracle's level, thousands of times slower."""
    hawkeye.set_instruction_set("oracle")
    return random("bf16", (400, 2048), 1), random("bf16", (2048, 400), 2)


def test_progress_is_told_and_may_cancel() -> None:
    a, b = long_product()
    told: list[tuple[int, int]] = []
    thread = threading.get_ident()

    def progress(done: int, total: int) -> bool:
        assert threading.get_ident() == thread
        told.append((done, total))
        return len(told) < 3

    with pytest.raises(Cancelled):
        hawkeye.matmul(a, b, progress=progress)
    assert len(told) == 3
    assert all(total == 400 * 400 * 2048 and 0 <= done <= total for done, total in told)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_an_exception_of_the_callback_comes_out() -> None:
    a, b = long_product()

    def progress(done: int, total: int) -> None:
        raise ZeroDivisionError("mine")

    handler = signal.getsignal(signal.SIGINT)  # ignored where the tests are a background job
    with pytest.raises(ZeroDivisionError, match="mine"):
        hawkeye.matmul(a, b, progress=progress)
    assert signal.getsignal(signal.SIGINT) is handler


INTERRUPTED = """
    import signal, sys, time
    sys.path.insert(0, sys.argv[2])
    import numpy as np
    import hawkeye

    hawkeye.set_instruction_set("oracle")
    a = np.ones((600, 4096), np.float16)
    if sys.argv[1] == "handled":
        class Mine(Exception):
            pass
        def mine(*_):
            raise Mine
        signal.signal(signal.SIGINT, mine)
        expected = Mine
    else:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job starts with SIGINT ignored
        expected = KeyboardInterrupt
    print("go", flush=True)
    try:
        hawkeye.matmul(a, a.T, threads=2)
    except expected:
        print("stopped", flush=True)
    assert signal.getsignal(signal.SIGINT) is (mine if sys.argv[1] == "handled" else signal.default_int_handler)
    hawkeye.set_instruction_set("auto")
    assert hawkeye.matmul(a[:2], a[:2].T, out_dtype="f32")[0, 0] == 4096  # the library is as before
"""


@pytest.mark.parametrize("kind", ["default", "handled"])
def test_control_c_stops_a_long_call(environment: dict[str, str], kind: str) -> None:
    script = textwrap.dedent(INTERRUPTED)
    child = subprocess.Popen(
        [sys.executable, "-c", script, kind, "."],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "go"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:  # the whole product takes the scalar model many minutes
        output, errors = child.communicate(timeout=60)
    finally:
        child.kill()
    assert output.strip() == "stopped", errors
    assert child.returncode == 0, errors
    assert errors == ""


# ---- threads of the host --------------------------------------------------------------------------------------------


def test_calls_from_many_threads() -> None:
    a, b = random("bf16", (33, 300), 1, "wide"), random("bf16", (300, 29), 2, "wide")
    wanted = hawkeye.matmul(a, b)
    results: list[Any] = [None] * 8

    def work(i: int) -> None:
        for _ in range(5):
            results[i] = hawkeye.matmul(a, b, threads=1 + i % 3, progress=lambda *_: None)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        same(result, wanted)


def test_other_threads_run_while_a_product_is_computed() -> None:
    a, b = long_product()
    counted = 0
    stop = threading.Event()

    def count() -> None:
        nonlocal counted
        while not stop.is_set():
            counted += 1
            time.sleep(0.001)

    worker = threading.Thread(target=count)
    worker.start()
    with pytest.raises(Cancelled):
        hawkeye.matmul(a, b, threads=1, progress=lambda *_: counted < 50)
    stop.set()
    worker.join()
    assert counted >= 50


# ---- a library that is not there ------------------------------------------------------------------------------------

BROKEN = """
    import hawkeye
    try:
        hawkeye.threads()
    except hawkeye.LibraryError as error:
        print(error)
"""


def test_missing_library(environment: dict[str, str], tmp_path: Path) -> None:
    environment["HAWKEYE_LIBRARY"] = str(tmp_path / "nowhere.so")
    done = run(BROKEN, environment)
    assert done.returncode == 0, done.stderr
    assert "is missing at" in done.stdout
    assert "pip install ." in done.stdout
    assert done.stdout.count("\n") == 1


def test_a_file_that_is_no_library(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"not ELF")
    environment["HAWKEYE_LIBRARY"] = str(tmp_path / "x.so")
    assert "does not load" in run(BROKEN, environment).stdout


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler to build another library with")
def test_a_library_of_another_abi(environment: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("unsigned hawkeye_abi_version(void) { return 99; }\n", encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "other.so"), str(source)], check=True)
    environment["HAWKEYE_LIBRARY"] = str(tmp_path / "other.so")
    assert "speaks ABI 99" in run(BROKEN, environment).stdout


def test_musl_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from hawkeye import LibraryError, _native

    monkeypatch.setattr(_native, "_is_musl", lambda: True)
    with pytest.raises(LibraryError, match=r"needs glibc.*Alpine"):
        _native._load()


def test_structs_are_the_headers(checkout: Path, tmp_path: Path) -> None:
    """The size of every struct and the offset of every field, as the C compiler lays out include/hawkeye.h."""
    import ctypes

    from hawkeye import _native

    if shutil.which("cc") is None:
        pytest.skip("no C compiler to ask")
    structs = {
        "hawkeye_matrix": _native.Matrix,
        "hawkeye_gemm_args": _native.GemmArgs,
        "hawkeye_profile_info": _native.ProfileInfo,
        "hawkeye_comparison": _native.ComparisonStruct,
    }
    lines = []
    wanted = []
    for name, struct in structs.items():
        lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
        wanted.append(f"{name} {ctypes.sizeof(struct)}")
        for field, *_ in struct._fields_:
            lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
            wanted.append(f"{name}.{field} {getattr(struct, field).offset}")
    source = tmp_path / "layout.c"
    source.write_text("#include <hawkeye.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n")
    program = tmp_path / "layout"
    subprocess.run(["cc", f"-I{checkout / 'include'}", "-o", str(program), str(source)], check=True)
    assert subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split("\n")[:-1] == wanted


def test_numpy_is_not_disturbed_by_rounding_modes() -> None:
    """The library sets MXCSR for its kernels; numpy's arithmetic afterwards must be as before."""
    x = np.float32(1.0) + np.float32(2.0**-24) * np.float32(1.5)
    hawkeye.matmul(random("bf16", (70, 70)), random("bf16", (70, 70)))
    tiny = np.float32(2.0**-140)
    assert np.float32(1.0) + np.float32(2.0**-24) * np.float32(1.5) == x
    assert tiny * np.float32(1.0) == tiny
    assert os.getpid() > 0

"""The shared library: finding it, loading it once, its structs and signatures (include/hawkeye.h), and calling it.

Everything here is private but for the functions about the process as a whole: which instruction set is used, and how
many threads a call runs on.
"""

from __future__ import annotations

import ctypes as c
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Optional

from . import _errors as errors

ABI_VERSION = 1
#: names another library to load than the one beside this file
ENVIRONMENT = "HAWKEYE_LIBRARY"

#: a progress callback gets (done, total) multiply-adds; returning False stops the call
Progress = Callable[[int, int], Optional[bool]]


class Matrix(c.Structure):
    """hawkeye_matrix: strides and offset count elements."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("data", c.c_void_p),
        ("offset", c.c_int64),
        ("format", c.c_int32),
        ("reserved", c.c_int32),
        ("batch", c.c_int64),
        ("rows", c.c_int64),
        ("columns", c.c_int64),
        ("batch_stride", c.c_int64),
        ("row_stride", c.c_int64),
        ("column_stride", c.c_int64),
    ]


def matrix(address: int, code: int, sizes: Sequence[int], strides: Sequence[int], *, offset: int = 0) -> Matrix:
    """A batch of matrices at ``address`` in the format numbered ``code``: batch, rows, columns, and their strides.

    A dimension of one element is never stepped along, and frameworks leave any number in its stride: it becomes 0.
    """
    batch_stride, row_stride, column_stride = (step if size > 1 else 0 for size, step in zip(sizes, strides))
    return Matrix(
        struct_size=c.sizeof(Matrix),
        data=address,
        offset=offset,
        format=code,
        batch=sizes[0],
        rows=sizes[1],
        columns=sizes[2],
        batch_stride=batch_stride,
        row_stride=row_stride,
        column_stride=column_stride,
    )


ProgressFunction = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_uint64, c.c_uint64)


class GemmArgs(c.Structure):
    """hawkeye_gemm_args."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("profile", c.c_uint64),
        ("a", c.POINTER(Matrix)),
        ("b", c.POINTER(Matrix)),
        ("c", c.POINTER(Matrix)),
        ("d", c.POINTER(Matrix)),
        ("alpha", c.c_double),
        ("beta", c.c_double),
        ("scale_a", c.POINTER(c.c_float)),
        ("scale_a_count", c.c_int64),
        ("scale_b", c.POINTER(c.c_float)),
        ("scale_b_count", c.c_int64),
        ("rows", c.POINTER(c.c_int64)),
        ("row_count", c.c_int64),
        ("columns", c.POINTER(c.c_int64)),
        ("column_count", c.c_int64),
        ("threads", c.c_int32),
        ("reserved", c.c_int32),
        ("progress", ProgressFunction),
        ("progress_user", c.c_void_p),
    ]


class ReplayOptions(c.Structure):
    """hawkeye_replay_options."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("profile", c.c_uint64),
        ("progress", ProgressFunction),
        ("progress_user", c.c_void_p),
        ("threads", c.c_int32),
        ("blind", c.c_int32),
        ("rows", c.c_int64),
        ("suspects", c.POINTER(c.c_uint64)),
        ("suspect_count", c.c_int64),
    ]


class Signature(c.Structure):
    """hawkeye_signature."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("a", c.c_int32),
        ("b", c.c_int32),
        ("c", c.c_int32),
        ("d", c.c_int32),
        ("batch", c.c_int64),
        ("m", c.c_int64),
        ("n", c.c_int64),
        ("k", c.c_int64),
        ("alpha", c.c_double),
        ("beta", c.c_double),
        ("addend", c.c_int32),
        ("scaling", c.c_int32),
    ]


class MatmulCall(c.Structure):
    """hawkeye_matmul_call."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("a", c.c_void_p),
        ("b", c.c_void_p),
        ("c", c.c_void_p),
        ("d", c.c_void_p),
        ("scale_a", c.c_void_p),
        ("scale_b", c.c_void_p),
        ("a_size", c.c_uint64),
        ("b_size", c.c_uint64),
        ("c_size", c.c_uint64),
        ("d_size", c.c_uint64),
        ("scale_a_count", c.c_int64),
        ("scale_b_count", c.c_int64),
    ]


class DiscoverState(c.Structure):
    """hawkeye_discover_state."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("phase", c.c_char_p),
        ("calls", c.c_int64),
        ("questions", c.c_int64),
        ("done", c.c_int64),
        ("total", c.c_int64),
    ]


MatmulFunction = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(MatmulCall))
DiscoverProgressFunction = c.CFUNCTYPE(c.c_int32, c.c_void_p, c.POINTER(DiscoverState))


class DiscoverOptions(c.Structure):
    """hawkeye_discover_options."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("elements", c.c_int64),
        ("seed", c.c_uint64),
        ("max_calls", c.c_int64),
        ("hardware", c.c_char_p),
        ("library", c.c_char_p),
        ("suspects", c.POINTER(c.c_uint64)),
        ("suspect_count", c.c_int64),
        ("progress", DiscoverProgressFunction),
        ("progress_user", c.c_void_p),
        ("threads", c.c_int32),
        ("reserved", c.c_int32),
    ]


class ExplainOptions(c.Structure):
    """hawkeye_explain_options."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("m", c.c_int64),
        ("n", c.c_int64),
        ("k", c.c_int64),
        ("family", c.c_char_p),
        ("style", c.c_int32),
        ("full", c.c_int32),
        ("width", c.c_int32),
        ("reserved", c.c_int32),
    ]


class ProfileInfo(c.Structure):
    """hawkeye_profile_info."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("a", c.c_int32),
        ("b", c.c_int32),
        ("accumulator", c.c_int32),
        ("out", c.c_int32),
        ("takes_f32", c.c_int32),
        ("runnable", c.c_int32),
        ("id", c.c_char * 72),
        ("name", c.c_char * 128),
    ]


class ComparisonStruct(c.Structure):
    """hawkeye_comparison."""

    _fields_ = [
        ("struct_size", c.c_uint64),
        ("count", c.c_int64),
        ("differing", c.c_int64),
        ("first", c.c_int64),
        ("worst", c.c_int64),
        ("worst_ulps", c.c_uint64),
        ("first_expected", c.c_uint64),
        ("first_actual", c.c_uint64),
        ("worst_expected", c.c_uint64),
        ("worst_actual", c.c_uint64),
    ]


_TEXT = [c.c_char_p, c.c_size_t, c.POINTER(c.c_size_t)]
_MESSAGE = [c.c_char_p, c.c_size_t]
_PROGRESS = [ProgressFunction, c.c_void_p]

# Functions that return a status and end in (message, message_size): their arguments before those two.
_CALLS: dict[str, list[Any]] = {
    "hawkeye_set_instruction_set": [c.c_char_p],
    "hawkeye_set_threads": [c.c_int32],
    "hawkeye_profile_load": [c.c_char_p, c.POINTER(c.c_uint64)],
    "hawkeye_profile_parse": [c.c_char_p, c.c_size_t, c.POINTER(c.c_uint64)],
    "hawkeye_profile_free": [c.c_uint64],
    "hawkeye_profile_json": [c.c_uint64, *_TEXT],
    "hawkeye_profile_describe": [c.c_uint64, *_TEXT],
    "hawkeye_profile_get_info": [c.c_uint64, c.POINTER(ProfileInfo)],
    "hawkeye_profile_list": [*_TEXT],
    "hawkeye_rules_choose": [c.c_char_p, c.c_size_t, c.c_int32, *_TEXT],
    "hawkeye_explain_profile": [c.c_uint64, c.POINTER(ExplainOptions), *_TEXT],
    "hawkeye_explain_tree": [c.c_uint64, c.POINTER(ExplainOptions), *_TEXT],
    "hawkeye_gemm": [c.POINTER(GemmArgs)],
    "hawkeye_compare": [c.POINTER(Matrix), c.POINTER(Matrix), c.POINTER(ComparisonStruct)],
    "hawkeye_cuda_about": [c.c_int32, *_TEXT],
    "hawkeye_cuda_run": [c.c_int32, c.c_char_p, c.c_int64, *[c.c_void_p] * 4],
    "hawkeye_cuda_discover": [
        c.c_int32,
        c.c_char_p,
        c.c_int64,
        c.POINTER(DiscoverOptions),
        c.POINTER(c.c_uint64),
    ],
    "hawkeye_set_open": [c.c_char_p, c.POINTER(c.c_uint64), c.POINTER(c.c_int64)],
    "hawkeye_set_about": [c.c_uint64, *_TEXT],
    "hawkeye_set_replay": [c.c_uint64, c.c_int64, c.c_int32, *_PROGRESS, *_TEXT],
    "hawkeye_set_replay_with": [c.c_uint64, c.c_int64, c.POINTER(ReplayOptions), *_TEXT],
    "hawkeye_set_why": [c.c_uint64, c.c_int64, c.c_int64, c.POINTER(ReplayOptions), *_TEXT],
    "hawkeye_set_free": [c.c_uint64],
    "hawkeye_discover": [
        c.POINTER(Signature),
        MatmulFunction,
        c.c_void_p,
        c.POINTER(DiscoverOptions),
        c.POINTER(c.c_uint64),
    ],
    "hawkeye_discovery_json": [c.c_uint64, *_TEXT],
    "hawkeye_discovery_free": [c.c_uint64],
}
# Functions that return a plain value and cannot fail.
_VALUES: dict[str, Any] = {
    "hawkeye_abi_version": c.c_uint32,
    "hawkeye_version": c.c_char_p,
    "hawkeye_instruction_set": c.c_char_p,
    "hawkeye_instruction_sets": c.c_char_p,
    "hawkeye_threads": c.c_int32,
}

_lock = threading.Lock()
_library: c.CDLL | None = None
_loaded_by = 0  # the process that loaded it


def _forked() -> None:
    # A fork while another thread held the lock would leave it locked in the child for ever.
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forked)


def path() -> Path:
    """Where the library is, or should be."""
    chosen = os.environ.get(ENVIRONMENT)
    return Path(chosen) if chosen else Path(__file__).resolve().parent / "_lib" / "libhawkeye.so"


def loaded() -> bool:
    """Whether this process has loaded the library; from then on it must not fork and compute in the child."""
    return _library is not None


def _is_musl() -> bool:
    """Whether this Python runs on musl. Its loader's name in the process's memory map says so for certain."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            return any("/ld-musl-" in line or "/libc.musl-" in line for line in maps)
    except OSError:
        return False


def _load() -> c.CDLL:
    where = path()
    if not sys.platform.startswith("linux"):
        raise errors.LibraryError(f"Hawkeye's shared library runs on Linux with glibc, and this is {sys.platform}.")
    if _is_musl():
        raise errors.LibraryError(
            "Hawkeye's shared library needs glibc and this Python runs on musl (Alpine Linux): use an image based on "
            "Debian, Ubuntu or Fedora, or call the Go package core from a Go program."
        )
    if not where.is_file():
        raise errors.LibraryError(
            f"Hawkeye's shared library is missing at {where}: install the wheel, or in a checkout run "
            "`pip install .` (or `python setup.py build_library` to build it in place)."
        )
    try:
        library = c.CDLL(str(where))
        abi = library.hawkeye_abi_version
    except (OSError, AttributeError) as error:
        raise errors.LibraryError(f"Hawkeye's shared library {where} does not load: {error}.") from error
    abi.argtypes, abi.restype = [], c.c_uint32
    if abi() != ABI_VERSION:
        raise errors.LibraryError(
            f"Hawkeye's shared library {where} speaks ABI {abi()} and this package ABI {ABI_VERSION}: "
            "install both from the same release."
        )
    try:
        for name, result in _VALUES.items():
            function = getattr(library, name)
            function.argtypes, function.restype = [], result
        for name, arguments in _CALLS.items():
            function = getattr(library, name)
            function.argtypes, function.restype = [*arguments, *_MESSAGE], c.c_int32
    except AttributeError as error:
        raise errors.LibraryError(f"Hawkeye's shared library {where} lacks a function: {error}.") from error
    return library


def library() -> c.CDLL:
    """The library, loaded by the first call in a process; ForkError in a child forked after that."""
    global _library, _loaded_by
    found = _library
    if found is not None and _loaded_by == os.getpid():
        return found
    with _lock:
        if _library is None:
            _library, _loaded_by = _load(), os.getpid()
        elif _loaded_by != os.getpid():
            # Refused here, before any call: a Go function entered in a forked child would wait for ever.
            raise errors.ForkError(
                "This process was forked from one that had already loaded Hawkeye, whose runtime does not survive "
                "fork(): start workers with the 'spawn' or 'forkserver' method, or make the first call after the fork."
            )
        return _library


def call(name: str, *arguments: Any) -> None:
    """Calls a function of _CALLS and raises the exception its status stands for."""
    function = getattr(library(), name)
    message = c.create_string_buffer(1024)
    status = function(*arguments, message, len(message))
    if status != 0:
        raise errors.from_status(status, message.value.decode("utf-8", "replace"))


def text(name: str, *arguments: Any, size: int = 16384) -> str:
    """Calls a function that returns text through (buffer, buffer_size, needed), again if the buffer was too small."""
    function = getattr(library(), name)
    message = c.create_string_buffer(1024)
    while True:
        buffer, needed = c.create_string_buffer(size), c.c_size_t()
        status = function(*arguments, buffer, size, c.byref(needed), message, len(message))
        if status == 9 and needed.value > size:
            size = needed.value
            continue
        if status != 0:
            raise errors.from_status(status, message.value.decode("utf-8", "replace"))
        return buffer.value.decode("utf-8")


# ---- progress and cancellation ------------------------------------------------------------------------------------


class _Watch(threading.local):
    """What the call running on this thread wants to know. The library calls back on the calling thread only."""

    current: Watched | None = None


_watch = _Watch()


def _report(_user: Any, done: int, total: int) -> int:
    watched = _watch.current
    return watched.report(done, total) if watched is not None else 0


_on_progress = ProgressFunction(_report)  # one for the process: each costs executable memory

_NO_PROGRESS = ProgressFunction()  # a null function pointer


class Watched:
    """A long call: forwards its progress, and stops it for Ctrl-C, a callback that returns False, or one that raises.

    While C code runs, Python only notes a signal, and runs its handler at the next bytecode: the first one of the
    progress callback, where an exception could not be caught and would be lost. So for the length of the call SIGINT
    sets a flag instead, and the handler that was there is called afterwards, when the call has stopped.
    """

    def __init__(self, progress: Progress | None = None) -> None:
        self.progress = progress
        self.error: BaseException | None = None
        self.interrupted = False
        self.function = _NO_PROGRESS
        self._outer: Watched | None = None
        self._handler: Any = None

    def _note(self, _signal: int, _frame: Any) -> None:
        self.interrupted = True

    def report(self, done: int, total: int) -> int:
        try:
            if self.interrupted or self.error is not None:
                return 1
            return 1 if self.progress is not None and self.progress(done, total) is False else 0
        except BaseException as error:  # whatever it is, it must not cross the C frames
            self.error = error
            return 1

    def __enter__(self) -> Watched:
        self._outer, _watch.current = _watch.current, self
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                try:
                    signal.signal(signal.SIGINT, self._note)
                    self._handler = handler
                except ValueError:  # a subinterpreter has no signals
                    pass
        if self.progress is not None or self._handler is not None:
            self.function = _on_progress
        return self

    def call(self, name: str, *arguments: Any) -> bool:
        """Like the function ``call``; False where it stopped (or was not begun) for what __exit__ will raise."""
        if self.stopped:
            return False
        try:
            call(name, *arguments)
        except errors.Cancelled:
            if not self.stopped:
                raise
        return not self.stopped

    @property
    def stopped(self) -> bool:
        """Whether the call was asked to stop by a signal or by an exception of the caller's own callback."""
        return self.interrupted or self.error is not None

    def __exit__(self, _kind: Any, _error: BaseException | None, _trace: Any) -> None:
        _watch.current = self._outer
        if self._handler is not None:
            signal.signal(signal.SIGINT, self._handler)
        if self.error is not None:
            raise self.error
        if self.interrupted:
            self._handler(signal.SIGINT, None)  # raises KeyboardInterrupt unless the program says otherwise


class Asking(Watched):
    """A discovery while it runs: as Watched, with the two callbacks of a discovery.

    ``multiply`` carries out one call. It is the caller's own code and may take long, so the caller's handler of
    SIGINT is in place while it runs; what it raises is caught here, and raised again where the discovery has ended.
    """

    def __init__(
        self, multiply: Callable[[MatmulCall], None], state: Callable[[DiscoverState], bool | None] | None
    ) -> None:
        super().__init__(None)
        self._multiply, self._state = multiply, state

    def multiply(self, call: MatmulCall) -> int:
        try:
            if self.stopped:
                return 1
            if self._handler is None:
                self._multiply(call)
                return 0
            signal.signal(signal.SIGINT, self._handler)
            try:
                self._multiply(call)
            finally:
                signal.signal(signal.SIGINT, self._note)
            return 0
        except BaseException as error:  # whatever it is, it must not cross the C frames
            self.error = error
            return 1

    def state(self, state: DiscoverState) -> int:
        try:
            if self.stopped:
                return 1
            return 1 if self._state is not None and self._state(state) is False else 0
        except BaseException as error:
            self.error = error
            return 1


def _multiply(_user: Any, call: Any) -> int:
    asking = _watch.current
    return asking.multiply(call.contents) if isinstance(asking, Asking) else 1


def _discover_state(_user: Any, state: Any) -> int:
    asking = _watch.current
    return asking.state(state.contents) if isinstance(asking, Asking) else 1


on_multiply = MatmulFunction(_multiply)
on_discover_state = DiscoverProgressFunction(_discover_state)


def handles(profiles: Sequence[Any]) -> Any:
    """The handles of profiles as an array, None for none."""
    return (c.c_uint64 * len(profiles))(*(p._handle for p in profiles)) if profiles else None


# ---- the process as a whole ---------------------------------------------------------------------------------------


def version() -> str:
    """The library's release, such as "0.1.0"."""
    return str(library().hawkeye_version().decode())


def instruction_set() -> str:
    """The instruction set in use: "avx512", "avx2", "portable" or "oracle". All give the same bits."""
    return str(library().hawkeye_instruction_set().decode())


def instruction_sets() -> list[str]:
    """The instruction sets this processor can run, best first."""
    names: str = library().hawkeye_instruction_sets().decode()
    return names.split()


def set_instruction_set(name: str) -> None:
    """Chooses the instruction set for the whole process; "auto" is the best this processor has.

    The environment variable HAWKEYE_ISA makes the initial choice. Raises UnsupportedError (or ArgumentError) for one
    that this processor lacks.
    """
    call("hawkeye_set_instruction_set", name.encode())


def threads() -> int:
    """How many threads a call uses unless it says otherwise."""
    return int(library().hawkeye_threads())


def set_threads(count: int) -> None:
    """Sets how many threads calls use by default; 0 means one a processor. The bits do not depend on it."""
    call("hawkeye_set_threads", thread_count(count))


def row_count(count: int | None) -> int:
    """A rows= argument as the C interface takes it: None is all of them."""
    if count is None:
        return 0
    from operator import index

    number = index(count)
    if not 1 <= number < 1 << 31:
        raise errors.ArgumentError(f"rows is {number}: it must be 1 or more, and below 2^31.")
    return number


def thread_count(count: int | None) -> int:
    """A threads= argument as the C interface takes it: None and 0 are the default."""
    if count is None:
        return 0
    from operator import index

    number = index(count)
    if not 0 <= number <= 65536:
        raise errors.ArgumentError(f"threads is {number}: it must be between 0 (the default) and 65536.")
    return number

"""Recording a program: its steps, which calls are sampled, and what is copied of a call."""

from __future__ import annotations

import contextlib
import itertools
import math
import operator
import os
import shutil
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._emulate import Running
from .._errors import ArgumentError
from . import _answer, _flags, _kernels, _mode
from ._background import Background
from ._keep import Call, Kept, current
from ._lines import NOTHING_YET, About, StepEnd, Tally
from ._modules import Modules
from ._ops import Skip
from ._overloads import Overload
from ._process import Open
from ._profile import Taken
from ._sampling import Sampling
from ._size import Sizes, megabytes
from ._writer import Writer

_HERE = str(Path(__file__).parent)
OUTPUTS = ("hash", "samples", "full")
MAX_RANKS = 1 << 16  # as a reader of traces allows


class _Before(NamedTuple):
    """What is taken of a call before it runs."""

    arguments: dict[str, Any]  # by name; tensors as Kept
    fields: dict[str, Any]  # of the line
    room: int  # bytes of the copies


class Recorder:
    """Records while it is entered; see ``hawkeye.record``."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        every: int,
        fraction: float,
        seed: int | str,
        modules: Any,
        outputs: str,
        kernels: bool,
        max_bytes: int | None,
        when_full: str,
        pending_bytes: int,
        commit: bool,
        answer: tuple[str, float] | None,
        estimate: bool,
        display: bool,
    ) -> None:
        if answer is not None:
            part = answer[1]
            if not 0 < part <= 1:
                raise ArgumentError(f"answer: want a key and a part above 0 and up to 1, not {part}.")
            if estimate or commit:
                raise ArgumentError("answer: is for a trace that is there; leave out commit and estimate.")
            said = _answer.settings_of(Path(folder))
            every, fraction, seed = int(said["every"]), float(said["fraction"]), said["seed"]
            modules, outputs, kernels, max_bytes = said["modules"] or None, said["outputs"], said["kernels"], None
        every, fraction = _whole("every", every), float(fraction)
        seed = seed if isinstance(seed, str) else _whole("seed", seed)
        if isinstance(seed, str) and not seed.isascii():
            try:
                seed.encode("utf-8")
            except UnicodeEncodeError as error:
                raise ArgumentError(f"seed: want a text that UTF-8 can say, not {seed!r}.") from error
        max_bytes = None if max_bytes is None else int(max_bytes)
        if every < 1:
            raise ArgumentError(f"every: want a number of steps of at least 1, not {every}.")
        if not 0 < fraction <= 1:
            raise ArgumentError(f"fraction: want a part above 0 and up to 1, not {fraction}.")
        if outputs not in OUTPUTS:
            raise ArgumentError(f"outputs: want one of {', '.join(OUTPUTS)}, not {outputs!r}.")
        if when_full not in ("wait", "drop"):
            raise ArgumentError(f"when_full: want wait or drop, not {when_full!r}.")
        if commit and max_bytes is not None:
            raise ArgumentError("max_bytes: a trace that commits to its calls must have all of them.")
        self.folder = Path(folder)
        #: the step the program is in, from 0
        self.current_step = 0
        #: whether calls that arrive now are recorded
        self.listening = False
        #: the trace's Merkle root; known when recording has ended
        self.root = ""
        #: why recording stopped early, if it did
        self.failure: BaseException | None = None
        #: with estimate=True, how large the trace would be
        self.sizes = Sizes(every, fraction, outputs) if estimate else None
        self._settings: dict[str, Any] = {
            "every": every,
            "fraction": fraction,
            "seed": seed,
            "outputs": outputs,
            "kernels": kernels,
            "max_bytes": max_bytes,
            "when_full": when_full,
            "commit": commit,
        }
        self._every, self._fraction, self._seed = every, fraction, seed
        self._outputs, self._max_bytes, self._wait = outputs, max_bytes, when_full == "wait"
        self._pending_bytes, self._display = pending_bytes, display
        self._modules = Modules(modules)
        self._settings["modules"] = self._modules.patterns
        self._commit, self._kernels = commit, kernels
        self._mode = _mode.RecordMode(self)
        self._lock = threading.RLock()  # a signal's handler or a destructor may multiply while it is held
        self._numbers = itertools.count()  # of the calls of a step
        self._skipped: Counter[str] = Counter()
        self._dropped = self._sampled = self._left_out = self._calls = self._marks = self._step_bytes = 0
        self._queued = self._emulated = 0
        self._paths_by_node: dict[int, tuple[int, str]] = {}
        self._profile: _kernels.Profile | None = None
        self._answer = answer
        self._writer: Writer | None = None
        self._manual = self._warned = self._entered = self._running = False
        self._stepping = threading.RLock()
        self._changing, self._further = (
            False,
            0,
        )  # a signal's handler may end a step while one ends: then that comes next

    # ---- its life ----

    def __enter__(self) -> Recorder:
        if self._entered:
            raise ArgumentError("A recorder records once: call hawkeye.record again, with another folder.")
        self._entered = True
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self.rank, world = _rank()
        self._sampling = Sampling(self._every, self._fraction, self._seed, self.rank)
        if self.sizes is None:
            self._open(world)
        self._optimizers = register_optimizer_step_post_hook(self._optimizer_stepped)
        _active.add(self)
        self._running = True
        _mode.enter(self._mode)  # sampled or not, for steps that begin inside inference_mode() (_mode.py)
        self._begin_step()
        return self

    def _open(self, world: int) -> None:
        from .._version import version

        device = _flags.device()
        self._gpu_named = "gpu" in device
        about = {
            "hawkeye": version(),
            "torch": str(torch.__version__),
            "device": device,
            "settings": self._settings,
        }
        self._writer = Writer(
            Open(
                self.folder.absolute(),
                self.rank,
                world,
                about,
                self._outputs,
                self._kernels,
                self._max_bytes,
                self._commit,
                self._answer,
            )
        )
        self._background = Background(self._writer.write, self._pending_bytes)
        if not self._display:
            return
        if self._answer is not None:
            _say(f"answering for {self.folder}: the program runs again, and the tensors that are asked for are added")
        elif self._commit:
            _say(f"recording into {self.folder}; it will hold hashes alone")
        else:
            _say(f"recording into {self.folder}; it will hold weights and activations of the program: keep it private")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child left the block: the trace is the parent's
        with self._stepping:
            self._running = False
            self._stop_listening()
        if threading.get_ident() == self._thread:
            _mode.leave(self._mode)
        self._optimizers.remove()
        _active.discard(self)
        if self._writer is not None:
            self._close("complete" if kind is None else kind.__name__)
        if self._display:
            _say(self.summary())

    def _close(self, ended: str) -> None:
        assert self._writer is not None
        self._background.finish()
        self.failure = self._background.error
        try:
            if self.failure is None:
                self._writer.finish()
                device = _flags.device()
                if self._emulated and self._emulated == self._queued:
                    device.update(_flags.emulated(Running.machine))
                self.root = self._writer.seal(self.coverage(), {"device": device, "ended": ended})
        except Exception as failure:
            if (interruption := _by_handler(failure)) is not None:
                raise interruption from None
            self.failure = failure
        finally:
            self._writer.close()
        if isinstance(self.failure, _answer.DivergedError):
            _warn(
                f"The program did not do again what {self.folder} says: {self.failure}. The same seed, data, machine "
                "and versions are needed; the trace is as it was, and not answered for"
            )
        elif self.failure is not None:
            _warn(f"Recording stopped early and {self.folder} is not sealed: {self.failure}")

    def coverage(self) -> dict[str, Any]:
        """What was recorded until now and what was not, in numbers of calls.

        ``missed`` counts kernels of products that no call explains, where every sampled step was profiled
        (``kernels=True``); else nothing measured it.
        """
        with self._lock:
            written = self._tally
            measured = written.profiled and written.profiled == self._sampled
            found: dict[str, Any] = {
                "recorded": written.recorded,
                "skipped": dict(sorted((self._skipped + Counter(written.skipped)).items())),
                "dropped": self._dropped,
                "missed": written.missed if measured else "not measured",
                "steps": {"begun": self.current_step + 1, "sampled": self._sampled, "left_out": self._left_out},
            }
            if self._kernels:
                found["named"] = written.named
            return found

    @property
    def _tally(self) -> Tally:
        """What the writing process has said last."""
        return NOTHING_YET if self._writer is None else self._writer.tally

    def summary(self) -> str:
        """What came of it, in a line."""
        if self.sizes is not None:
            return str(self.sizes)
        c = self.coverage()
        skipped = sum(c["skipped"].values())
        reasons = ", ".join(f"{name}: {count}" for name, count in c["skipped"].items())
        steps = f"{c['steps']['sampled']:,} sampled steps (of {c['steps']['begun']:,})"
        text = f"{c['recorded']:,} multiplications of {steps} "
        text += "came out as in the trace" if self._answer is not None else "recorded"
        if "named" in c:
            text += f", {c['named']:,} with their kernels"
        text += f", {skipped:,} skipped"
        if reasons:
            text += f" ({reasons})"
        missed = "not measured (kernels=True does)" if c["missed"] == "not measured" else c["missed"]
        text += f", {c['dropped']:,} dropped, missed: {missed}; "
        if self._answer is not None:
            text += f"{megabytes(self._tally.bytes)} added to {self.folder}"
            return text + (f", root {self.root}" if self.root else ", which is not answered for")
        if not c["recorded"] and not skipped:
            text += "no product of torch was seen; "
        text += f"{megabytes(self._tally.bytes)} in {self.folder}"
        return text + (f", root {self.root}" if self.root else ", not sealed")

    # ---- steps ----

    def step(self) -> None:
        """Say that a step ends here. From the first such call on, optimizers no longer count."""
        first, self._manual = not self._manual, True
        if not first or self.current_step == 0:  # else the optimizer counted this very step
            self._next_step()

    def _optimizer_stepped(self, *_: Any) -> None:
        if not self._manual:
            self._next_step()

    def _next_step(self) -> None:
        if not self._running or os.getpid() != self._pid:  # nor in a forked child, whose locks may never come free
            return
        with self._stepping:
            self._further += 1
            if self._changing:
                return
            self._changing = True
            try:
                while self._further and self._running:
                    self._further -= 1
                    self._stop_listening()
                    with self._lock:
                        self.current_step += 1
                    self._begin_step()
            finally:
                self._changing, self._further = False, 0

    def _begin_step(self) -> None:
        if not self._sampling.step(self.current_step):
            return
        if self._writer is None:
            assert self.sizes is not None
            self.sizes.begin()
        elif self._background.error is not None or self._tally.full:
            self._left_out += 1
            return
        else:
            self._background.hold()
            if self._kernels:
                self._begin_profile()
        self._paths_by_node.clear()
        with self._lock:
            self._sampled += 1
            self._calls = self._step_bytes = 0
            self._numbers = itertools.count()
            self.listening = True
        if threading.get_ident() == self._thread:
            _mode.enter(self._mode)

    def _stop_listening(self) -> None:
        if threading.get_ident() == self._thread:
            _mode.rest(self._mode)
        if not self.listening:
            return
        with self._lock:  # after this no call takes a number of the step
            self.listening = False
        if self._writer is None:
            return
        if self._kernels:
            self._background.put(StepEnd(self._end_profile()), 0)
        if not self._gpu_named and torch.cuda.is_initialized():
            self._gpu_named = True
            self._background.put(About({"device": _flags.device()}), 0)
        self._background.go()
        if self._sampled == 1 and self._display and not self._commit:
            self._say_size()

    def _begin_profile(self) -> None:
        try:
            if torch.cuda.is_available():
                self._profile = _kernels.Profile()
        except Exception as error:
            self._profile = None
            self._fault(error, "The kernels of a step could not be recorded")

    def _end_profile(self) -> Taken | None:
        profile, self._profile = self._profile, None
        try:
            return None if profile is None else profile.stop()
        except Exception as error:
            self._fault(error, "The kernels of a step could not be recorded")
            return None

    def _say_size(self) -> None:
        """After the first sampled step, what it takes, beside what there is room for."""
        try:
            free = shutil.disk_usage(self.folder).free
        except OSError:
            return
        text = f"step {self.current_step}: {self._calls:,} multiplications, "
        text += f"up to {megabytes(self._step_bytes)} of tensors a sampled step; {megabytes(free)} are free"
        if free < 10 * self._step_bytes:
            text += ": room for fewer than 10 such steps (max_bytes, every and fraction bound a trace)"
        _say(text)

    def _forget(self) -> None:
        """In a forked child: nothing is recorded, and this thread's modes are as if nothing had been."""
        self.listening = False
        _mode.rest(self._mode)
        if self._writer is not None:
            self._writer.forget()

    @contextlib.contextmanager
    def attach(self) -> Iterator[Recorder]:
        """Record the calling thread too, while inside: torch's dispatch modes belong to one thread each."""
        if threading.get_ident() == self._thread:
            yield self
            return
        mode = _mode.RecordMode(self)
        _mode.enter(mode)
        try:
            yield self
        finally:
            _mode.leave(mode)

    # ---- calls ----

    def skip(self, reason: str) -> None:
        """Count a call that is not recorded."""
        with self._lock:
            self._skipped[reason] += 1

    def seen(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run an operator that multiplies and is not recorded, so that its kernels do not count as missed."""
        profile = self._profile  # another thread may end the step
        if profile is None:
            return func(*args, **kwargs)
        with profile.mark(-1):
            return func(*args, **kwargs)

    def call(self, func: Any, known: Overload, args: Any, kwargs: Any) -> Any:
        """Run a matrix multiplication and keep what a record of it needs. Nothing here may fail the program."""
        before: _Before | None = None
        try:
            with torch.no_grad(), _mode.hidden():
                before = self._before(known, args, kwargs)
        except Skip as reason:
            self.skip(str(reason))
        except Exception as error:
            self._fault(error)
        if before is None:
            return self.seen(func, args, kwargs)
        emulated, number = Running.products, 0
        profile = self._profile  # another thread may end the step
        if profile is None:
            result = func(*args, **kwargs)
        else:
            with self._lock:
                self._marks += 1
                number = self._marks
            with profile.mark(number):
                result = func(*args, **kwargs)
        try:
            room = before.room + result.numel() * result.itemsize
            with torch.no_grad(), _mode.hidden():
                out = Kept(result)
                stream = current(out)
            if Running.products != emulated:
                before.fields["device"] = _flags.emulated(Running.machine)
                self._emulated += 1
            if not self._background.put(Call(number, known.op, before.arguments, out, before.fields, stream), room):
                with self._lock:
                    self._dropped += 1
            else:
                self._queued += 1
        except Exception as error:
            self._fault(error)
        return result

    def _before(self, known: Overload, args: Any, kwargs: Any) -> _Before | None:
        """Everything that has to be taken before the call: operands may be its output too."""
        path, backward, recomputed = self._where()
        with self._lock:
            if not self.listening:  # another thread has ended the step since
                return None
            step, call = self.current_step, next(self._numbers)
            self._calls += 1
        if not self._modules.wanted(path):
            raise Skip("modules")
        if not self._sampling.call(step, call):
            raise Skip("fraction")
        named = known.named(args, kwargs)
        first = named[known.operand]
        cuda = first.is_cuda
        if cuda and torch.cuda.is_current_stream_capturing():
            raise Skip("CUDA graph capture")
        if self._tally.full:
            raise Skip("max_bytes")
        tensors = {name: t for name, t in named.items() if isinstance(t, torch.Tensor) and name != "out"}
        room = 0
        for tensor in tensors.values():
            if tensor.layout is not torch.strided:
                raise Skip(f"layout {str(tensor.layout).rpartition('.')[2]}")
            if not tensor.is_cuda and not tensor.is_cpu:
                raise Skip(f"device {tensor.device.type}")
            room += _distinct(tensor) * tensor.itemsize
        output = named.get(known.output)
        if output is not None and any(_overlap(output, t) for name, t in tensors.items() if name != known.addend):
            raise Skip("output overlaps an operand")  # torch computes it all the same, and it is no product then
        if self.sizes is not None:
            self.sizes.add(known.op, named, tensors)
            return None
        self._step_bytes += room
        if not self._background.admit(room, self._wait):
            with self._lock:
                self._dropped += 1
            return None
        for name, tensor in tensors.items():
            named[name] = Kept(tensor)
        fields: dict[str, Any] = {
            "step": step,
            "call": call,
            "module": path,
            "pass": "backward" if backward else "forward",
            "sampled": True,
            "flags": _flags.flags(first.dtype, bool(named.get("use_fast_accum"))),
        }
        if recomputed:
            fields["recomputed"] = True
        if not cuda and torch.cuda.is_initialized():
            fields["device"] = _flags.cpu()  # the trace's is the GPU
        return _Before(named, fields, room)

    def _where(self) -> tuple[str, bool, bool]:
        """The path of the module that this call belongs to, whether it is in a backward pass, and whether it repeats a
        forward inside one (checkpointing).

        Autograd numbers its nodes when the forward makes them, just before the operator arrives here, and says in the
        backward which node runs: so a backward call gets the path of its forward call.
        """
        path, node = self._modules.current(), torch._C._current_autograd_node()
        if node is None or path is not None:
            path = path or ""
            thread, number = threading.get_ident(), torch.autograd._get_sequence_nr() - 1
            other, _ = self._paths_by_node.setdefault(number, (thread, path))
            if other != thread:  # each thread counts for itself, and a node does not say which thread's number it has
                self._paths_by_node[number] = (other, "")
            return path, False, node is not None
        return self._paths_by_node.get(node._sequence_nr(), (0, ""))[1], True, False

    def _fault(
        self, error: Exception, what: str = "A multiplication could not be recorded, nor may others like it"
    ) -> None:
        if (interruption := _by_handler(error)) is not None:
            raise interruption
        self.skip(f"{type(error).__name__} while recording")
        if not self._warned:
            self._warned = True
            _warn(f"{what}: {type(error).__name__}: {error}")


def _distinct(tensor: Any) -> int:
    """How many elements of a tensor are copied: those along strides of 0 once."""
    strides = tensor.stride()
    if 0 not in strides:
        return int(tensor.numel())
    return math.prod(size for size, stride in zip(tensor.shape, strides) if stride or size < 1)


def _by_handler(error: BaseException) -> BaseException | None:
    """What a handler of signals of the program raised in the middle of our own code, which is the program's to catch;
    also where a lock that it interrupted has then raised another. None: the error is ours."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    functions = [getattr(handler, "__func__", handler) for handler in handlers if callable(handler)]
    codes = {getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None) for f in functions} - {None}
    found: BaseException | None = error
    while found is not None:
        code = [frame.f_code for frame, _ in traceback.walk_tb(found.__traceback__)]
        if any(c in codes for c in code) and any(c.co_filename.startswith(_HERE) for c in code):
            return found
        found = found.__context__
    return None


def _overlap(a: Any, b: Any) -> bool:
    """Whether two tensors lie in the same memory, from their first byte to their last."""
    first, second = a.data_ptr(), b.data_ptr()
    return bool(first < second + _extent(b) and second < first + _extent(a))


def _extent(tensor: Any) -> int:
    """How many bytes lie between a tensor's first and last."""
    if tensor.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return int((last + 1) * tensor.itemsize)


def _whole(name: str, value: Any) -> int:
    """A number as a trace's settings have it, from which a reader computes the same choice."""
    try:
        return int(operator.index(value))
    except TypeError as error:
        raise ArgumentError(f"{name}: want a whole number, not {value!r}.") from error


def _rank() -> tuple[int, int]:
    """This process's rank and how many there are, from torch.distributed or else the launcher's environment."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1
    return (rank, world) if 0 <= rank < MAX_RANKS and world >= 1 else (0, 1)


def _say(text: str) -> None:
    """A line on standard error, where the program has one that is open."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"hawkeye: {text}", file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    """A warning; only a line where warnings are errors, which would fail the program."""
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:
        _say(text)


_active: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_active):
        recorder._forget()
    _active.clear()


os.register_at_fork(after_in_child=_after_fork)

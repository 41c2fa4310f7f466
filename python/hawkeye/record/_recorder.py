"""Recording a program: steps, sampling, what is kept of a call, and the trace it goes into."""

from __future__ import annotations

import contextlib
import math
import os
import struct
import sys
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from .._errors import ArgumentError, UnsupportedError
from . import _flags, _mode
from ._background import Background
from ._keep import Hashes, Kept, data, name, tensor_record
from ._modules import Modules
from ._ops import FORMATS, Overload, Product, Skip
from ._sampling import Sampling, sample_indices
from ._trace import TensorFile, TraceWriter, tensor_file

RECORD_VERSION = "1.0"
OUTPUTS = ("hash", "samples", "full")


class Call(NamedTuple):
    """What is kept of a call until it is written."""

    product: Product  # without tensors but the ones below
    fields: dict[str, Any]
    a: Kept
    b: Kept
    c: Kept | None
    out: Kept
    scale_a: Kept | None
    scale_b: Kept | None
    ends: Kept | None


class Part(NamedTuple):
    """A tensor of one line: a view in the CPU's memory, and how the GPU saw it."""

    view: Any
    strides: tuple[int, ...]
    offset: int
    transposed: bool

    def slice(self, dim: int, start: int, end: int) -> Part:
        """The elements from start to end along a dimension."""
        view = self.view.narrow(dim, start, end - start)
        return self._replace(view=view, offset=self.offset + start * self.strides[dim])


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
        display: bool,
    ) -> None:
        if every < 1:
            raise ArgumentError(f"every: want a number of steps of at least 1, not {every}.")
        if not 0 < fraction <= 1:
            raise ArgumentError(f"fraction: want a part above 0 and up to 1, not {fraction}.")
        if outputs not in OUTPUTS:
            raise ArgumentError(f"outputs: want one of {', '.join(OUTPUTS)}, not {outputs!r}.")
        if when_full not in ("wait", "drop"):
            raise ArgumentError(f"when_full: want wait or drop, not {when_full!r}.")
        if kernels:
            raise UnsupportedError("kernels: the names of kernels cannot be recorded by this version.")
        self.folder = Path(folder)
        #: the step the program is in, from 0
        self.current_step = 0
        #: whether calls that arrive now are recorded
        self.listening = False
        #: the trace's Merkle root; known when recording has ended
        self.root = ""
        #: why recording stopped early, if it did
        self.failure: BaseException | None = None
        self._settings: dict[str, Any] = {
            "every": every,
            "fraction": fraction,
            "seed": seed,
            "outputs": outputs,
            "kernels": kernels,
            "max_bytes": max_bytes,
            "when_full": when_full,
        }
        self._every, self._fraction, self._seed = every, fraction, seed
        self._outputs, self._max_bytes, self._wait = outputs, max_bytes, when_full == "wait"
        self._pending_bytes, self._display = pending_bytes, display
        self._modules = Modules(modules)
        self._settings["modules"] = self._modules.patterns
        self._mode = _mode.RecordMode(self)
        self._lock = threading.Lock()
        self._hashes = Hashes()
        self._skipped: Counter[str] = Counter()
        self._dropped = self._recorded = self._sampled = self._left_out = self._calls = 0
        self._paths_by_node: dict[int, tuple[int, str]] = {}
        self._manual = self._full = self._warned = self._entered = False

    # ---- its life ----

    def __enter__(self) -> Recorder:
        if self._entered:
            raise ArgumentError("A recorder records once: call hawkeye.record again, with another folder.")
        self._entered = True
        self._pid, self._thread = os.getpid(), threading.get_ident()
        self.rank, world = _rank()
        self._sampling = Sampling(self._every, self._fraction, self._seed, self.rank)
        from .._version import version

        about = {
            "hawkeye": version(),
            "torch": str(torch.__version__),
            "device": _flags.device(),
            "settings": self._settings,
        }
        self._trace = TraceWriter(self.folder, rank=self.rank, world=world, about=about)
        self._background = Background(self._write, self._pending_bytes)
        self._optimizers = register_optimizer_step_post_hook(self._optimizer_stepped)
        _active.add(self)
        if self._display:
            _say(f"recording into {self.folder}; it will hold weights and activations of the program: keep it private")
        _mode.enter(self._mode)  # sampled or not, for steps that begin inside inference_mode() (_mode.py)
        self._begin_step()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if os.getpid() != self._pid:
            return  # a forked child left the block: the trace is the parent's
        self._stop_listening()
        if threading.get_ident() == self._thread:
            _mode.leave(self._mode)
        self._optimizers.remove()
        _active.discard(self)
        self._background.finish()
        self.failure = self._background.error
        ended = "complete" if kind is None else kind.__name__
        try:
            if self.failure is None:
                self.root = self._trace.seal(self.coverage(), {"device": _flags.device(), "ended": ended})
        except OSError as failure:
            self.failure = failure
        finally:
            self._trace.close()
        if self.failure is not None:
            _warn(f"Recording stopped early and {self.folder} is not sealed: {self.failure}")
        if self._display:
            _say(self.summary())

    def coverage(self) -> dict[str, Any]:
        """What was recorded until now and what was not, in numbers of calls. ``missed`` needs a profiler."""
        with self._lock:
            return {
                "recorded": self._recorded,
                "skipped": dict(sorted(self._skipped.items())),
                "dropped": self._dropped,
                "missed": "not measured",
                "steps": {"begun": self.current_step + 1, "sampled": self._sampled, "left_out": self._left_out},
            }

    def summary(self) -> str:
        """The coverage in a line."""
        c = self.coverage()
        skipped = sum(c["skipped"].values())
        reasons = ", ".join(f"{name}: {count}" for name, count in c["skipped"].items())
        steps = f"{c['steps']['sampled']:,} sampled steps (of {c['steps']['begun']:,})"
        text = f"{c['recorded']:,} multiplications of {steps} recorded, {skipped:,} skipped"
        if reasons:
            text += f" ({reasons})"
        text += f", {c['dropped']:,} dropped, missed: {c['missed']}; {self._trace.bytes / 1e6:,.1f} MB in {self.folder}"
        return text + (f", root {self.root}" if self.root else ", not sealed")

    # ---- steps ----

    def step(self) -> None:
        """Say that a step ends here. From the first such call on, optimizers no longer count."""
        first, self._manual = not self._manual, True
        if not first or self.current_step == 0:  # else the optimizer counted this very step
            self._next_step()

    def _optimizer_stepped(self, *_: Any) -> None:
        if not self._manual and os.getpid() == self._pid:
            self._next_step()

    def _next_step(self) -> None:
        self._stop_listening()
        self.current_step += 1
        self._begin_step()

    def _begin_step(self) -> None:
        if not self._sampling.step(self.current_step):
            return
        if self._background.error is not None or self._full:
            self._left_out += 1
            return
        self._sampled += 1
        self._calls = 0
        self._paths_by_node.clear()
        self._modules.watch()
        self.listening = True
        if threading.get_ident() == self._thread:
            _mode.enter(self._mode)

    def _stop_listening(self) -> None:
        if threading.get_ident() == self._thread:
            _mode.rest(self._mode)
        if self.listening:
            self.listening = False
            self._modules.unwatch()

    def _forget(self) -> None:
        """In a forked child: nothing is recorded, and this thread's modes are as if nothing had been."""
        self.listening = False
        _mode.rest(self._mode)
        self._modules.unwatch()

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

    def call(self, func: Any, known: Overload, args: Any, kwargs: Any) -> Any:
        """Run a matrix multiplication and keep what a record of it needs. Nothing here may fail the program."""
        kept: tuple[Product, dict[str, Any], list[Kept | None], int] | None = None
        try:
            with torch.no_grad(), _mode.hidden():
                kept = self._before(known, args, kwargs)
        except Skip as reason:
            self.skip(str(reason))
        except Exception as error:
            self._fault(error)
        if kept is None:
            return func(*args, **kwargs)
        product, fields, operands, room = kept
        queued = False
        try:
            result = func(*args, **kwargs)
            try:
                with torch.no_grad(), _mode.hidden():
                    out = Kept(product.view(result))
                a, b, c, scale_a, scale_b, ends = operands
                assert a is not None
                assert b is not None
                self._background.put(Call(_bare(product), fields, a, b, c, out, scale_a, scale_b, ends), room)
                queued = True
            except Exception as error:
                self._fault(error)
            return result
        finally:
            if not queued:
                self._background.release(room)

    def _before(
        self, known: Overload, args: Any, kwargs: Any
    ) -> tuple[Product, dict[str, Any], list[Kept | None], int] | None:
        """Everything that has to be taken before the call: operands may be its output too."""
        path, backward, recomputed = self._where()
        with self._lock:
            step, call = self.current_step, self._calls
            self._calls += 1
        if not self._modules.wanted(path):
            raise Skip("modules")
        if not self._sampling.call(step, call):
            raise Skip("fraction")
        product = known.product(args, kwargs)
        if product.a.is_cuda and torch.cuda.is_current_stream_capturing():
            raise Skip("CUDA graph capture")
        if self._full:
            raise Skip("max_bytes")
        views = [product.a, product.b, product.c, product.scale_a, product.scale_b, product.ends]
        room = sum(v.numel() * v.element_size() for v in views if v is not None)
        batch = product.ends.numel() if product.ragged == "k" else 1 if product.ragged else product.a.shape[0]
        room += batch * product.a.shape[1] * product.b.shape[2] * 8  # of the output, at most 8 bytes an element
        if not self._background.reserve(room, self._wait):
            with self._lock:
                self._dropped += 1
            return None
        try:
            operands = [None if v is None else Kept(v) for v in views]
        except BaseException:
            self._background.release(room)
            raise
        fields: dict[str, Any] = {
            "step": step,
            "call": call,
            "module": path,
            "pass": "backward" if backward else "forward",
            "sampled": True,
            "flags": _flags.flags(product.a.dtype, product.fast),
        }
        if recomputed:
            fields["recomputed"] = True
        return product, fields, operands, room

    def _where(self) -> tuple[str, bool, bool]:
        """The path of the module that this call belongs to, whether it is in a backward pass, and whether it repeats a
        forward inside one (checkpointing).

        Autograd numbers its nodes when the forward makes them, just before the operator arrives here, and says in the
        backward which node runs: so a backward call gets the path of its forward call.
        """
        frame, node = self._modules.current(), torch._C._current_autograd_node()
        if node is None or (frame is not None and frame.node is node):
            path = frame.path if frame is not None else ""
            thread, number = threading.get_ident(), torch.autograd._get_sequence_nr() - 1
            other, _ = self._paths_by_node.setdefault(number, (thread, path))
            if other != thread:  # each thread counts for itself, and a node does not say which thread's number it has
                self._paths_by_node[number] = (other, "")
            return path, False, node is not None
        return self._paths_by_node.get(node._sequence_nr(), (0, ""))[1], True, False

    def _fault(self, error: Exception) -> None:
        self.skip(f"{type(error).__name__} while recording")
        if not self._warned:
            self._warned = True
            _warn(f"A multiplication could not be recorded, nor may others like it: {type(error).__name__}: {error}")

    # ---- on the writing thread ----

    def _write(self, call: Call) -> None:
        with torch.no_grad():
            parts = {n: _part(getattr(call, n)) for n in ("a", "b", "c", "out", "scale_a", "scale_b")}
            ends = None if call.ends is None else [int(end) for end in call.ends.fetch().reshape(-1)]
            if ends is None:
                self._write_line(call, parts, {})
                return
            start = 0
            for group, end in enumerate(ends):
                if min(end - start, *call.a.shape, *call.b.shape) > 0:
                    cut = _group(call.product.ragged, parts, group, start, end)
                    self._write_line(call, cut, {"group": group, "groups": len(ends)})
                else:
                    self.skip("empty group")
                start = end

    def _write_line(self, call: Call, parts: dict[str, Part | None], more: dict[str, Any]) -> None:
        product, files = call.product, []
        record: dict[str, Any] = {
            "record_version": RECORD_VERSION,
            "id": f"r{self.rank}-{self._trace.lines:06d}",
            "op": product.op,
        }

        def entry(part: Part) -> dict[str, Any]:
            fields, file = tensor_record(part.view, part.strides, part.offset, part.transposed, self._hashes)
            files.append(file)
            return fields

        for operand in ("a", "b", "c"):
            part = parts[operand]
            if part is not None:
                record[operand] = entry(part)
        out = parts["out"]
        assert out is not None
        record["out"] = self._output(out, files)
        wide = out.view.dtype is torch.float64
        scalars = {n: _scalar(v, wide) for n, v in product.scalars.items()}
        scales = {n: p for n in ("scale_a", "scale_b") if (p := parts[n]) is not None}
        for side, scale in scales.items():
            if all(s.view.numel() == 1 for s in scales.values()):
                scalars[side] = _scalar(float(scale.view), False)
            else:
                flat = scale._replace(view=scale.view.reshape(-1), strides=scale.strides or (1,))
                record[side] = entry(flat)
        if scalars:
            record["scalars"] = scalars
        record.update(call.fields)
        record.update(more)
        if self._max_bytes is not None:
            new = {f.name: f.size for f in files if self._trace.is_new(f)}
            if self._trace.bytes + sum(new.values()) + len(self._trace.line(record)) > self._max_bytes:
                self._full = True
                self.skip("max_bytes")
                return
        for file in files:
            self._trace.store(file)
        self._trace.append(record)
        with self._lock:
            self._recorded += 1

    def _output(self, out: Part, files: list[TensorFile]) -> dict[str, Any]:
        view = out.view.contiguous()
        record: dict[str, Any] = {"format": FORMATS[view.dtype], "shape": list(view.shape)}
        record["sha256"] = sha256(data(view)).hexdigest()
        if self._outputs == "full":
            files.append(tensor_file(name(view.dtype), view.shape, data(view)))
            record["file"] = files[-1].name
        elif self._outputs == "samples":
            chosen = torch.tensor(sample_indices(view.numel()), dtype=torch.int64)
            rows = view.reshape(-1, 1).view(torch.uint8).reshape(-1, view.element_size())
            record["samples"] = {"indices": "default", "data": bytes(data(rows[chosen])).hex()}
        return record


def _part(kept: Kept | None) -> Part | None:
    return None if kept is None else Part(kept.fetch(), kept.strides, kept.offset, kept.transposed)


def _group(ragged: str, parts: dict[str, Part | None], group: int, start: int, end: int) -> dict[str, Part | None]:
    """One group of a grouped product: along the ragged size from start to end, else the group's own matrix."""
    axes = {"m": {"a": 1, "out": 1}, "n": {"b": 2, "out": 2}, "k": {"a": 2, "b": 1}}[ragged]
    cut = dict(parts)
    for operand in ("a", "b", "out"):
        part = parts[operand]
        assert part is not None
        cut[operand] = part.slice(axes[operand], start, end) if operand in axes else part.slice(0, group, group + 1)
    return cut


def _bare(product: Product) -> Product:
    """Without the program's tensors, which must not live longer because of us."""
    return Product(product.op, None, None, None, scalars=product.scalars, ragged=product.ragged)  # type: ignore[arg-type]


def _scalar(value: float, wide: bool) -> str:
    """A number by its bits, rounded as torch rounds alpha and beta: to f64 for f64 results, else to f32."""
    if wide:
        return f"f64:0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016x}"
    try:
        packed = struct.pack("<f", value)
    except OverflowError:
        packed = struct.pack("<f", math.copysign(math.inf, value))
    return f"f32:0x{struct.unpack('<I', packed)[0]:08x}"


def _rank() -> tuple[int, int]:
    """This process's rank and how many there are, from torch.distributed or else the launcher's environment."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return torch.distributed.get_rank(), torch.distributed.get_world_size()
    try:
        return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    except ValueError:
        return 0, 1


def _say(text: str) -> None:
    print(f"hawkeye: {text}", file=sys.stderr, flush=True)


def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=3)


_active: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _after_fork() -> None:
    for recorder in list(_active):
        recorder._forget()
    _active.clear()


os.register_at_fork(after_in_child=_after_fork)

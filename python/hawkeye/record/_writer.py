"""The program's end of the writing process: batches of copies go there, and what became of them comes back."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._errors import FileError
from ._background import BATCH_BYTES
from ._driver import copier
from ._keep import Call, Kept
from ._lines import NOTHING_YET, About, StepEnd, Whole
from ._memory import Memory, Pinned, room
from ._process import FINISH, Batch, Open, Place, Seal, receive, send

# As little as possible of the program's surroundings: its folder may hold a module called like one of Python's, and so
# may PYTHONPATH, which the program may have set for others. numpy is the program's own.
_START = (
    "import sys; sys.path[0] = sys.argv[1]; sys.path.append(sys.argv[2]); "
    "from hawkeye.record._process import main; main(int(sys.argv[3]))"
)
_NOT_INHERITED = ("PYTHONPATH", "PYTHONSAFEPATH", "PYTHONINSPECT", "PYTHONWARNINGS", "PYTHONDEVMODE")
_LEAST_MEMORY = 1 << 20

# Shared memory whose descriptors the program has closed: their numbers may be other files now, so that nothing may
# close them again, not even a destructor.
_abandoned: list[Any] = []


class Writer:
    """Starts the process and speaks with it. Requests are answered one after the other, each before the next."""

    def __init__(self, start: Open) -> None:
        if not sys.executable:
            raise FileError("The process that writes the trace needs a Python, and sys.executable names none.")
        start.trace(begun=False).close()
        try:
            here, there = socket.socketpair()
        except OSError as error:
            raise FileError(f"The process that writes the trace could not be started: {error}.") from error
        package, numpy = (str(Path(str(file)).resolve().parents[up]) for file, up in ((__file__, 2), (np.__file__, 1)))
        try:
            # A session of its own: Ctrl-C is the program's, and the trace must still be ended then.
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, package, numpy, str(there.fileno())],
                pass_fds=[there.fileno()],
                stdin=subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name not in _NOT_INHERITED},
                start_new_session=True,
            )
        except OSError as error:
            here.close()
            raise FileError(f"The process that writes the trace could not be started: {error}.") from error
        finally:
            there.close()
        self._channel, self._inode = here, os.fstat(here.fileno()).st_ino
        self._memory: Memory | None = None
        self._pinned: Pinned | None = None
        self._streams: dict[int, Any] = {}
        self._copy = copier()
        self._device = -1
        self._start: Open | None = start  # sent with the first request: until then the process takes its time to begin
        self.tally = NOTHING_YET

    def write(self, items: Sequence[Call | StepEnd | About]) -> None:
        """Bring copies to the CPU's memory, and have lines written of them."""
        self._check()
        sizes = [_bytes(item) for item in items]
        total = sum(sizes)
        descriptors: tuple[int, ...] = ()
        if total > (self._memory.size if self._memory is not None else 0):
            descriptors = self._grow(total, any(isinstance(i, Call) and i.stream is not None for i in items))
        sent: list[Any] = []
        at, beside = 0, self._beside(items)
        with torch.no_grad():
            for item, size in zip(items, sizes):
                sent.append(self._placed(item, at, beside) if isinstance(item, Call) else item)
                at += size
            for stream in beside.values():
                stream.synchronize()  # after that copies may also be freed, though their memory is another stream's
        self.tally = self._ask(Batch(sent, self._memory.size if descriptors and self._memory else 0), descriptors)

    def _beside(self, items: Sequence[Call | StepEnd | About]) -> dict[int, Any]:
        """For each GPU a stream beside the program's, on which the copies of all calls are there."""
        behind = {c.stream.number: c.stream for c in items if isinstance(c, Call) and c.stream is not None}
        beside = {}
        for _, device, _ in behind:
            if device not in self._streams:
                self._streams[device] = torch.cuda.Stream(device)
            beside[device] = self._streams[device]
        for stream in behind.values():
            stream.wait(beside[stream.number[1]])
        return beside

    def _grow(self, total: int, lock: bool) -> tuple[int, ...]:
        size = BATCH_BYTES if lock else _LEAST_MEMORY  # locking pages takes time, and is done once or twice
        while size < total:
            size *= 2
        self._free()
        self._memory = Memory.new(size)
        self._pinned = Pinned(self._memory, lock=lock)
        return (self._memory.descriptor,)

    def _placed(self, call: Call, at: int, beside: dict[int, Any]) -> Whole:
        """Start copies of a call into shared memory."""
        device = call.stream.number[1] if call.stream is not None else -1
        if device != self._device and device >= 0:
            torch.cuda.set_device(device)  # of this thread
            self._device = device
        arguments: dict[str, Any] = {}
        for name, value in call.arguments.items():
            if isinstance(value, Kept):
                arguments[name] = self._copied(value, at, beside)
                at += room(value.copy.numel() * value.copy.itemsize)
            elif value is None or isinstance(value, (bool, int, float)):
                arguments[name] = value
        out: Any = self._copied(call.out, at, beside)
        return Whole(call.number, call.op, arguments, out, call.fields)

    def _copied(self, kept: Kept, at: int, beside: dict[int, Any]) -> Place:
        copy = kept.copy
        shape, order, size = tuple(copy.shape), copy.stride(), copy.itemsize
        count = copy.numel() * size
        if count:
            assert self._pinned is not None
            stream = beside.get(copy.get_device()) if copy.is_cuda else None
            if stream is not None and self._copy is not None:
                self._copy(self._pinned.address + at, copy.data_ptr(), count, stream.cuda_stream)
            else:
                memory = self._pinned.bytes[at : at + count].view(copy.dtype).as_strided(shape, order)
                with contextlib.nullcontext() if stream is None else torch.cuda.stream(stream):
                    memory.copy_(copy, non_blocking=True)
        name = str(copy.dtype).rpartition(".")[2]
        return Place(at, size, shape, order, name, tuple(kept.shape), kept.strides, kept.offset)

    def finish(self) -> None:
        """Have lines written that still wait for the end of their step."""
        self.tally = self._ask(FINISH)

    def seal(self, coverage: dict[str, Any], about: dict[str, Any]) -> str:
        """End the trace; its root."""
        return str(self._ask(Seal(coverage, about)))

    def close(self) -> None:
        """End the process. A trace that was not sealed stays so."""
        open_still = self._open_still()
        self.forget()
        self._process.wait()
        if open_still:
            self._free()
        else:
            _abandoned.append((self._memory, self._pinned))

    def forget(self) -> None:
        """In a forked child of the program: leave the process to the parent."""
        if self._open_still():
            self._channel.close()
        else:
            self._channel.detach()

    def _open_still(self) -> bool:
        """Whether the descriptor is ours. Programs that become daemons close whatever is open, and open other files."""
        try:
            return os.fstat(self._channel.fileno()).st_ino == self._inode
        except OSError:
            return False

    def _check(self) -> None:
        if not self._open_still():
            raise FileError("The program has closed the descriptor of the process that writes the trace.")

    def _free(self) -> None:
        if self._pinned is not None:
            self._pinned.close()
        if self._memory is not None:
            with contextlib.suppress(BufferError):
                self._memory.close()
        self._memory = self._pinned = None

    def _ask(self, request: Any, descriptors: tuple[int, ...] = ()) -> Any:
        self._check()
        if self._start is not None:
            start, self._start = self._start, None
            self._ask(start)
        try:
            send(self._channel, request, descriptors)
            answer, _ = receive(self._channel)
        except (EOFError, OSError) as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            status = self._process.returncode
            raise FileError(f"The process that writes the trace has ended (status {status}).") from error
        if isinstance(answer, BaseException):
            raise answer
        return answer


def _bytes(item: Call | StepEnd | About) -> int:
    """What an item takes of the shared memory."""
    if isinstance(item, (StepEnd, About)):
        return 0
    return sum(room(k.copy.numel() * k.copy.itemsize) for k in _kept(item))


def _kept(call: Call) -> list[Kept]:
    return [call.out, *(value for value in call.arguments.values() if isinstance(value, Kept))]

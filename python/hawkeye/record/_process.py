"""The process that hashes and writes a trace: run beside the program, so that Python's lock is the program's alone.

It reads requests from a socket, one after the other, and answers each. Tensors come in shared memory. Where the
program's process is gone the socket ends, and so does this one: every line that is written is whole.
"""

from __future__ import annotations

import array
import pickle
import socket
import struct
import sys
from pathlib import Path
from typing import Any, NamedTuple

from .._challenge import Challenge
from ._answer import TraceFiller
from ._lines import About, Lines, StepEnd, Tally, Whole
from ._memory import Memory
from ._part import Part
from ._trace import TraceWriter

_LENGTH = struct.Struct("<Q")


class Open(NamedTuple):
    """The first request: where to write, and what."""

    folder: Path
    rank: int
    world: int
    about: dict[str, Any]
    outputs: str
    kernels: bool
    max_bytes: int | None
    commit: bool
    answer: tuple[str, float] | None

    def trace(self, begun: bool) -> TraceWriter | TraceFiller:
        """What is written to. It is begun in the program's process, which is told at once what is wrong with it."""
        if self.answer is not None:
            return TraceFiller(self.folder, rank=self.rank)
        return TraceWriter(self.folder, rank=self.rank, world=self.world, about=self.about, begun=begun)


class Place(NamedTuple):
    """A tensor in shared memory, and how the GPU saw it."""

    at: int
    size: int  # bytes an element
    kept: tuple[int, ...]  # the shape of the tensor that is there
    order: tuple[int, ...]  # and its strides
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Batch(NamedTuple):
    """Calls and ends of steps in their order. The memory comes with the first batch that uses it."""

    items: list[Any]  # a Whole with a Place for each Part, a StepEnd, or an About
    memory: int  # its size where there is a new one, else 0


class Seal(NamedTuple):
    """The last request; the answer is the root."""

    coverage: dict[str, Any]
    about: dict[str, Any]


def send(channel: socket.socket, message: Any, descriptors: tuple[int, ...] = ()) -> None:
    """One message, with descriptors. Where the other end is gone this raises, even where SIGPIPE ends programs."""
    text = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    head = _LENGTH.pack(len(text))
    sent = channel.sendmsg([head], beside, socket.MSG_NOSIGNAL)
    channel.sendall(head[sent:] + text, socket.MSG_NOSIGNAL)


def receive(channel: socket.socket) -> tuple[Any, list[int]]:
    """One message and its descriptors. Raises EOFError at the end. What it unpickles comes from the other end of a pair
    of sockets that has no name."""
    head, descriptors, _, _ = socket.recv_fds(channel, _LENGTH.size, 1)
    head += _exactly(channel, _LENGTH.size - len(head)) if head else b""
    if not head:
        raise EOFError
    return pickle.loads(_exactly(channel, _LENGTH.unpack(head)[0])), descriptors


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


class Server:
    """Answers requests."""

    def __init__(self) -> None:
        self._memory: Memory | None = None

    def answer(self, request: Any, descriptors: list[int]) -> Any:
        """What is sent back."""
        if isinstance(request, Open):
            return self._open(request)
        if isinstance(request, Batch):
            if descriptors:
                if self._memory is not None:
                    self._memory.close()
                self._memory = Memory(descriptors[0], request.memory)
            for item in request.items:
                self._lines.write(item if isinstance(item, (StepEnd, About)) else self._whole(item))
            return self._lines.tally()
        assert isinstance(request, Seal)
        return self._trace.seal(request.coverage, request.about)

    def _open(self, o: Open) -> None:
        challenge = None if o.answer is None else Challenge(*o.answer)
        self._trace = o.trace(begun=True)

        def keep(line: int) -> bool:
            return challenge.chosen(o.rank, line) if challenge is not None else not o.commit

        self._lines = Lines(self._trace, outputs=o.outputs, kernels=o.kernels, max_bytes=o.max_bytes, keep=keep)

    def finish(self) -> Tally:
        """Before the seal: lines that still wait."""
        self._lines.finish()
        return self._lines.tally()

    def _whole(self, call: Whole) -> Whole:
        arguments = {n: self._part(v) if isinstance(v, Place) else v for n, v in call.arguments.items()}
        out: Any = call.out  # a Place until here
        return call._replace(arguments=arguments, out=self._part(out))

    def _part(self, place: Place) -> Part:
        memory = memoryview(b"") if 0 in place.kept else self._view()[place.at :]
        return Part.of(memory, *place[1:])

    def _view(self) -> memoryview:
        assert self._memory is not None
        return self._memory.view


FINISH = "finish"


def main(descriptor: int) -> None:
    """Serve until the socket ends."""
    channel = socket.socket(fileno=descriptor)
    server = Server()
    while True:
        try:
            request, descriptors = receive(channel)
        except (EOFError, ConnectionError):
            sys.exit(0)
        try:
            answer = server.finish() if request == FINISH else server.answer(request, descriptors)
        except Exception as error:
            answer = error
        try:
            send(channel, answer)
        except (BrokenPipeError, ConnectionError):
            sys.exit(0)
        except Exception as error:  # an error that cannot be pickled
            send(channel, RuntimeError(f"{type(error).__name__}: {error}"))

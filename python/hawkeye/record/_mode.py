"""The dispatch mode that sees a sampled step's operators."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _python_dispatch as dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from ._overloads import overload

if TYPE_CHECKING:
    from ._recorder import Recorder

_PLAIN = {torch.Tensor, torch.nn.Parameter, getattr(torch.nn, "Buffer", torch.Tensor)}


def _compiler() -> Callable[[Any], None] | None:
    """What tells torch's compiler to leave a function and all it calls alone, once instead of at every call; None where
    this torch has none that is known."""
    try:
        frames = torch._C._dynamo.eval_frame
        skip = frames._FrameExecStrategy(frames._FrameAction.SKIP, frames._FrameAction.SKIP)
        frames.set_code_exec_strategy(_compiler.__code__, skip)
    except (AttributeError, TypeError):
        return None
    return lambda code: frames.set_code_exec_strategy(code, skip)


_leave_alone = _compiler()


class RecordMode(TorchDispatchMode):  # type: ignore[misc]  # torch has no types here
    """Hands matrix multiplications to the recorder and lets everything else pass.

    Autograd's threads see it too: the engine runs a graph under the dispatch modes of the thread that called backward.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Compiled code stays compiled: else a sampled step would run without it, and give other results."""
        return True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """torch would wrap the handler to keep its compiler out, at a third of an empty mode's cost; see below."""
        return _leave_alone is None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """See TorchDispatchMode."""
        kwargs = kwargs or {}
        if torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.FAKE) is not None:
            return func(*args, **kwargs)  # shapes are worked out, and nothing is computed
        for kind in types:
            if kind not in _PLAIN:
                return NotImplemented  # the subclass unfolds itself into plain tensors, which come here again
        if not isinstance(func, torch._ops.OpOverload) or not self._recorder.listening:
            return func(*args, **kwargs)
        known = overload(func)
        if known.multiplies:
            return self._recorder.call(func, known, args, kwargs)
        if known.uncovered:
            self._recorder.skip(known.uncovered)
            return self._recorder.seen(func, args, kwargs)
        if known.composite:
            with self:
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        return func(*args, **kwargs)


if _leave_alone is not None:
    _leave_alone(RecordMode.__dict__["__torch_dispatch__"].__code__)


# The mode is put below all others of the thread, and not through `with MODE:`: a step may begin or end inside such a
# block of the program's, whose end takes off whatever stands on top.


# Pushing the first mode and taking off the last one also flips the thread's Python dispatch key, and the end of an
# inference_mode() block puts that key back to what it was at the block's begin. A mode taken off inside such a block
# would leave the key without a mode, and torch's next factory would fail: there, the mode stays (see `rest`).


def enter(mode: RecordMode) -> None:
    """Put the mode under this thread's other modes; again if it is there, so that the dispatch key is certainly set."""
    leave(mode)
    stack = dispatch._get_current_dispatch_mode_stack()
    above = [dispatch._pop_mode() for other in stack if getattr(other, "_mode_key", None) is None]
    dispatch._push_mode(mode)
    for other in reversed(above):
        dispatch._push_mode(other)


def leave(mode: RecordMode) -> None:
    """Take the mode off this thread's stack, if it is there; other modes keep their order."""
    stack = dispatch._get_current_dispatch_mode_stack()
    if mode not in stack:
        return
    above = [dispatch._pop_mode() for _ in range(len(stack) - 1 - stack.index(mode))]
    dispatch._pop_mode()
    for other in reversed(above):
        dispatch._push_mode(other)


def rest(mode: RecordMode) -> None:
    """Take the mode off between steps; inside inference_mode() it stays, and only passes everything on."""
    if not torch.is_inference_mode_enabled():
        leave(mode)


def hidden() -> contextlib.AbstractContextManager[None]:
    """Keeps our own operators out of the sight of the thread's modes; mostly there are none above or below ours."""
    return _NOTHING if torch._C._len_torch_dispatch_stack() == 0 else _hidden()


_NOTHING = contextlib.nullcontext()


@contextlib.contextmanager
def _hidden() -> Iterator[None]:
    with dispatch._disable_current_modes():
        yield

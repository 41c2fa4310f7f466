"""Records the matrix multiplications of a torch program into a trace that anyone can verify without a GPU.

    >>> import hawkeye
    >>> with hawkeye.record("run.hawk", every=100):
    ...     train()

This module is itself the function: ``hawkeye.record(...)``. ``python -m hawkeye.record -o run.hawk train.py`` records a
script without a change to it. See docs/record.md for what is seen, what is kept and what is not covered.

Hawkeye's shared library is never loaded here, so a recorded program may fork as before; torch is loaded by the first
call.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._recorder import Recorder

__all__ = ["Recorder", "record"]


def record(
    folder: str | os.PathLike[str],
    every: int = 1,
    fraction: float = 1.0,
    seed: int | str = 0,
    modules: Any = None,
    outputs: str = "hash",
    kernels: bool = False,
    max_bytes: int | None = None,
    *,
    when_full: str = "wait",
    pending_bytes: int = 512 << 20,
    commit: bool = False,
    answer: tuple[str, float] | None = None,
    estimate: bool = False,
    display: bool = True,
) -> Recorder:
    """A context manager that records the matrix multiplications run inside it, forward and backward.

    Args:
        folder: the trace, made with mode 0700; it must not hold one already.
        every: one step in so many is sampled, chosen by a keyed hash of seed, rank and step. Steps are counted by
            optimizers' ``step()``, or by ``rec.step()`` where that is called.
        fraction: of the calls of a sampled step, so many are recorded, chosen by the same hash.
        seed: the key of the sampling.
        modules: a module, or several, to name in paths; or patterns (``"*.mlp.*"``) of the paths to record.
        outputs: what is kept of each result: ``"hash"``, ``"samples"`` (a few elements too), ``"full"``.
        kernels: also keep the names of the kernels that each recorded call ran, and their launches, by torch's
            profiler, which the program must not use itself; counts kernels of products that the recorder missed.
        max_bytes: recording stops before the trace's tensors and lines grow past it; what was left out is counted.
        when_full: when memory for copies is used up, ``"wait"`` for the disk or ``"drop"`` calls and count them.
        pending_bytes: how much memory copies may take until they are written; a larger single call still passes alone.
        commit: write every call's hashes and no tensor. Published, the root commits to all of them; ``answer`` adds the
            tensors that an auditor then asks for.
        answer: an auditor's key and the part of the lines it chooses. The program runs again, with the settings of
            ``folder``, a trace that is there; lines must come out as they are, and chosen tensors are added.
        estimate: keep nothing, and say at the end how large a trace would be (``rec.sizes``).
        display: say in a line on standard error what is recorded, and at the end what was.
    """
    from .._errors import UnsupportedError

    try:
        from ._recorder import Recorder
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UnsupportedError("What torch multiplies cannot be recorded here: torch is not installed.") from None

    return Recorder(
        folder,
        every=every,
        fraction=fraction,
        seed=seed,
        modules=modules,
        outputs=outputs,
        kernels=kernels,
        max_bytes=max_bytes,
        when_full=when_full,
        pending_bytes=pending_bytes,
        commit=commit,
        answer=answer,
        estimate=estimate,
        display=display,
    )


def __getattr__(name: str) -> Any:
    if name == "Recorder":
        from ._recorder import Recorder

        return Recorder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Callable(ModuleType):
    """Lets ``hawkeye.record`` be a function and ``python -m hawkeye.record`` a program at once."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return record(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable

"""Words for people: what a profile does, its summation tree, and why two recorded multiplications differ."""

from __future__ import annotations

import ctypes as c
import json
from dataclasses import dataclass, field
from typing import Any

from . import _errors as errors
from . import _native
from ._native import Progress
from ._profiles import ProfileLike
from ._profiles import profile as find
from ._sets import RecordedSet

_STYLES = {"text": 0, "dot": 1}


def _options(**values: Any) -> _native.ExplainOptions:
    for name in ("m", "n", "k", "width"):
        if values.get(name, 0) < 0:
            raise errors.ArgumentError(f"{name} is {values[name]}: it cannot be negative.")
    return _native.ExplainOptions(struct_size=c.sizeof(_native.ExplainOptions), **values)


def explain(profile: ProfileLike, *, m: int = 0, n: int = 0, k: int = 0, family: str = "") -> str:
    """How the profile makes an output element, in one paragraph: the order of the sum, and every rounding.

    ``m``, ``n`` and ``k`` are the sizes of the multiplication, ``family`` the kind of its kernel, such as "nvjet"; what
    is not given is not spoken of. With ``k`` it says how many accumulators there are and counts the roundings.
    """
    options = _options(m=m, n=n, k=k, family=family.encode() or None)
    chosen = find(profile)  # one that nobody else holds must live until the call has returned
    return _native.text("hawkeye_explain_profile", chosen._handle, c.byref(options))


def explain_tree(profile: ProfileLike, k: int, *, style: str = "text", full: bool = False, width: int = 0) -> str:
    """The profile's summation tree for K = ``k``: what each accumulator sums, and how they are joined.

    ``style`` is "text" (lines with box-drawing characters) or "dot" (Graphviz). Long lists of alike parts are counted
    unless ``full``. ``width`` is where lines of text are cut, and labels of dot wrapped.
    """
    if style not in _STYLES:
        raise errors.ArgumentError(f"style is {style!r}: it is one of {', '.join(_STYLES)}.")
    options = _options(k=k, style=_STYLES[style], full=full, width=width)
    chosen = find(profile)
    return _native.text("hawkeye_explain_tree", chosen._handle, c.byref(options))


@dataclass(frozen=True)
class Reasons:
    """Why the bits of two recorded multiplications differ; ``print`` shows all of it."""

    text: str
    same_arithmetic: bool  #: both give equal bits for equal operands
    differences: list[dict[str, str]]  #: {"part", "a", "b"}: what is not the same, in the order in which it acts
    element: dict[str, Any] | None  #: one output element of both, and where its partial sums part
    details: dict[str, Any] = field(repr=False)  #: everything the library said

    def __str__(self) -> str:
        return self.text


def why(
    recorded: RecordedSet,
    a: int | str,
    b: int | str,
    *,
    blind: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Reasons:
    """Why the bits of two cases of a set differ, such as the same row multiplied alone and in a batch.

    Both are replayed first. ``a`` and ``b`` are ids or indices; ``blind`` and ``threads`` as for
    ``RecordedSet.replay``.
    """
    options = _native.ReplayOptions(
        struct_size=c.sizeof(_native.ReplayOptions), threads=_native.thread_count(threads), blind=blind
    )
    first, second = recorded.index(a), recorded.index(b)
    buffer, needed = c.create_string_buffer(1 << 16), c.c_size_t()  # always suffices
    finished = False
    with _native.Watched(progress) as watched:
        options.progress = watched.function
        finished = watched.call(
            "hawkeye_set_why",
            recorded._handle,
            first,
            second,
            c.byref(options),
            buffer,
            len(buffer),
            c.byref(needed),
        )
    if not finished:  # the program's own handler of SIGINT let it pass
        raise errors.Cancelled("The comparison was stopped by a signal.")
    got: dict[str, Any] = json.loads(buffer.value)
    return Reasons(
        text=str(got["text"]),
        same_arithmetic=bool(got["same_arithmetic"]),
        differences=list(got["differences"]),
        element=got.get("element"),
        details=got,
    )

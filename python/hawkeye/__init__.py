"""Hawkeye re-executes NVIDIA GPU matrix multiplications on a CPU, bit for bit.

    >>> import hawkeye, torch
    >>> a, b = torch.randn(64, 4096).bfloat16(), torch.randn(4096, 64).bfloat16()
    >>> d = hawkeye.matmul(a, b, profile="hopper/bf16")
    >>> print(hawkeye.compare(recorded_on_the_gpu, d))
    4,096 elements, every bit equal

A profile (``hawkeye.profiles()``) is data that says everything about one multiplication's arithmetic: how many
products a tensor core sums at once, how many bits it keeps, in which order partial sums are merged, and how the result
is rounded.

Importing this package loads neither numpy nor the shared library: both are loaded by the first call that needs them, so
that a process which has imported it, and called nothing yet, runs no Go runtime and may still fork.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._compare import Comparison, compare
    from ._discover import Discovery, discover
    from ._discoveries import Discoveries, discover_instructions, discover_trace
    from ._emulate import emulate
    from ._errors import (
        ArgumentError,
        Cancelled,
        DeviceError,
        Error,
        FileError,
        ForkError,
        FormatError,
        GPUError,
        HandleError,
        InternalError,
        LibraryError,
        OverlapError,
        ProfileError,
        ShapeError,
        UnsupportedError,
    )
    from ._explain import Reasons, explain, explain_tree, why
    from ._matmul import linear, matmul
    from ._native import (
        instruction_set,
        instruction_sets,
        set_instruction_set,
        set_threads,
        threads,
    )
    from ._profiles import Profile, profile, profiles
    from ._sets import RecordedSet, Verdict, open_set
    from ._verify import Report, verify
    from .record import record

    __version__: str

# Where each public name lives. A table rather than imports: see the last paragraph of the module's docstring.
_HOMES = {
    "_compare": ("Comparison", "compare"),
    "_errors": (
        "ArgumentError",
        "Cancelled",
        "DeviceError",
        "Error",
        "FileError",
        "ForkError",
        "FormatError",
        "GPUError",
        "HandleError",
        "InternalError",
        "LibraryError",
        "OverlapError",
        "ProfileError",
        "ShapeError",
        "UnsupportedError",
    ),
    "_discover": ("Discovery", "discover"),
    "_discoveries": ("Discoveries", "discover_instructions", "discover_trace"),
    "_emulate": ("emulate",),
    "_explain": ("Reasons", "explain", "explain_tree", "why"),
    "_matmul": ("linear", "matmul"),
    "_native": ("instruction_set", "instruction_sets", "set_instruction_set", "set_threads", "threads"),
    "_profiles": ("Profile", "profile", "profiles"),
    "_sets": ("RecordedSet", "Verdict", "open_set"),
    "_verify": ("Report", "verify"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ArgumentError",
    "Cancelled",
    "Comparison",
    "DeviceError",
    "Discoveries",
    "Discovery",
    "Error",
    "FileError",
    "ForkError",
    "FormatError",
    "GPUError",
    "HandleError",
    "InternalError",
    "LibraryError",
    "OverlapError",
    "Profile",
    "ProfileError",
    "Reasons",
    "RecordedSet",
    "Report",
    "ShapeError",
    "UnsupportedError",
    "Verdict",
    "__version__",
    "compare",
    "discover",
    "discover_instructions",
    "discover_trace",
    "emulate",
    "explain",
    "explain_tree",
    "instruction_set",
    "instruction_sets",
    "linear",
    "matmul",
    "open_set",
    "profile",
    "profiles",
    "record",
    "set_instruction_set",
    "set_threads",
    "threads",
    "verify",
    "why",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from ._version import version

        value: object = version()
    elif name == "record":  # a module that is called, so that python -m hawkeye.record is a program too
        from importlib import import_module

        value = import_module(f"{__name__}.record")
    elif name in _HOME_OF:
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))

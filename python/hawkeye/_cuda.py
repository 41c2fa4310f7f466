"""Single matrix instructions of an NVIDIA GPU of this machine: which it has, running one, finding out what it computes.

The GPU is reached through its driver alone; neither torch nor CUDA's toolkit is needed (docs/instructions.md).
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _discover, _native
from . import _errors as errors
from . import _formats as formats
from ._discover import DiscoverProgress, Discovery
from ._profiles import ProfileLike
from ._profiles import profile as find

if TYPE_CHECKING:
    import numpy.typing as npt


def about(device: int = 0) -> dict[str, Any]:
    """The GPU and its instructions.

    {"device", "name", "capability", "driver", "instructions"}; an instruction is {"name", "a", "b", "accumulator", "m",
    "n", "k", "catalogue"}, where "catalogue" names the profile that describes it, "" for none. GPUError says what is
    missing.
    """
    answer: dict[str, Any] = json.loads(_native.text("hawkeye_cuda_about", _number(device), size=1 << 16))
    return answer


def run(
    name: str, a: npt.ArrayLike, b: npt.ArrayLike, c: npt.ArrayLike | None = None, *, device: int = 0
) -> npt.NDArray[Any]:
    """Runs an instruction: d = a b + c on one tile (m x k, k x n, m x n), or on a batch of tiles.

    Elements are of the instruction's formats, or their bits in unsigned integers of the same size; those of tf32 are
    f32. Without ``c`` the accumulators start at zero. The result is in numpy's dtype for the accumulator's format.
    """
    import numpy as np

    gpu = about(device)
    chosen = next((i for i in gpu["instructions"] if i["name"] == name), None)
    if chosen is None:
        known = ", ".join(i["name"] for i in gpu["instructions"])
        raise errors.ArgumentError(f"{gpu['name']} has no instruction called {name!r}; it has {known}.")
    m, n, k = (int(chosen[size]) for size in "mnk")
    x, y = _tiles("a", a, chosen["a"], (m, k)), _tiles("b", b, chosen["b"], (k, n))
    single = np.ndim(a) == 2
    start = None if c is None else _tiles("c", c, chosen["accumulator"], (m, n))
    if len({len(operand) for operand in (x, y, start) if operand is not None}) != 1:
        raise errors.ShapeError("The operands have not equally many tiles.")
    d = np.empty((len(x), m, n), np.dtype(formats.BY_NAME[chosen["accumulator"]].numpy))
    _native.call(
        "hawkeye_cuda_run",
        gpu["device"],
        name.encode(),
        len(x),
        x.ctypes.data,
        y.ctypes.data,
        None if start is None else start.ctypes.data,
        d.ctypes.data,
    )
    return d[0] if single else d


def _tiles(what: str, operand: Any, name: str, shape: tuple[int, int]) -> npt.NDArray[Any]:
    import numpy as np

    taken = formats.BY_NAME[name]
    array: npt.NDArray[Any] = np.asarray(operand)
    bits = array.dtype.kind == "u" and array.dtype.itemsize == taken.bytes
    if not bits and formats.parse(array.dtype) not in ((taken, formats.F32) if taken is formats.TF32 else (taken,)):
        raise errors.FormatError(
            f"{what} is {array.dtype}: the instruction takes {name}, or its bits in unsigned integers."
        )
    if array.ndim == 2:
        array = array[np.newaxis]
    if array.ndim != 3 or array.shape[1:] != shape:
        raise errors.ShapeError(f"{what} is {list(array.shape)}: a tile is {shape[0]} x {shape[1]}.")
    if len(array) == 0:
        raise errors.ShapeError(f"{what} has no tiles.")
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))


def discover(
    name: str,
    *,
    device: int = 0,
    tiles: int | None = None,
    elements: int | None = None,
    seed: int = 0,
    max_calls: int | None = None,
    threads: int | None = None,
    suspects: Iterable[ProfileLike] = (),
    progress: DiscoverProgress | None = None,
) -> Discovery:
    """Finds the profile of an instruction, and certifies it on fresh inputs; otherwise as ``hawkeye.discover``.

    ``tiles`` are run at once. The discovery's ``details`` say in addition what was asked ("instruction", "device",
    "name", "capability", "driver", "tiles") and, in "comparison", how the profile compares with the catalogue's.
    """
    tried = [find(p) for p in suspects]
    options = _native.DiscoverOptions(
        struct_size=ctypes.sizeof(_native.DiscoverOptions),
        elements=elements or 0,
        seed=seed,
        max_calls=max_calls or 0,
        suspects=_native.handles(tried),
        suspect_count=len(tried),
        progress=_native.on_discover_state,
        threads=_native.thread_count(threads),
    )
    handle, finished = ctypes.c_uint64(), False
    with _native.Asking(_unasked, None if progress is None else _discover._told(progress)) as asking:
        finished = asking.call(
            "hawkeye_cuda_discover",
            _number(device),
            name.encode(),
            tiles or 0,
            ctypes.byref(options),
            ctypes.byref(handle),
        )
    if not finished:  # the program's own handler of SIGINT let it pass
        raise errors.Cancelled("The discovery was stopped by a signal.")
    try:
        result: dict[str, Any] = json.loads(_native.text("hawkeye_discovery_json", handle.value, size=1 << 16))
    finally:
        _native.call("hawkeye_discovery_free", handle.value)
    return Discovery.from_result(result, f"{name} on {result['name']}")


def _unasked(_call: _native.MatmulCall) -> None:
    """The multiplication of a discovery that asks the GPU instead."""


def _number(device: int) -> int:
    if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < 1 << 31:
        raise errors.ArgumentError(f"device is {device!r}: it is the number of a GPU, from 0.")
    return device


#: what the columns of ``rows`` are
COLUMNS = ("instruction", "found", "catalogue", "compared")


def rows(discoveries: Iterable[Discovery]) -> list[tuple[str, str, str, str]]:
    """A table of discoveries: instruction, profile found, the catalogue's row, and "equal" or what differs."""
    return [row(found) for found in discoveries]


def row(found: Discovery) -> tuple[str, str, str, str]:
    """One line of ``rows``."""
    asked, compared = found.details["instruction"], found.details.get("comparison")
    name, known = str(asked["name"]), str(asked["catalogue"] or "")
    if compared is None:
        return name, f"none: {found.reason or 'the answers fit no profile'}", known, ""
    words = str(compared["found"])
    if not found:
        words += f" (not certified: {found.reason or 'no reason given'})"
    if not known:
        return name, words, "", "no row"
    if compared["equal"]:
        return name, words, known, "equal"
    return name, words, known, "; ".join(compared["differences"])

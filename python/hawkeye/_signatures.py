"""What the choice of a profile depends on, of emulated and of recorded products: so that one leads to the other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _errors as errors

if TYPE_CHECKING:
    from ._profiles import Profile
    from ._verify import Report

_FLAGS = ("allow_tf32", "allow_fp16_accumulation", "use_fast_accum", "allow_reduced_precision_reduction")
_ONES = ("f32:0x3f800000", "f64:0x3ff0000000000000")


def key(record: Mapping[str, Any]) -> str:
    """Of a case record, a trace's line or what ``run.profiles`` names a product by. Raises LookupError, TypeError or
    ValueError for what is none."""
    scalars = record.get("scalars") or {}
    flags = record.get("flags") or {}
    told = {
        "op": record["op"],
        "a": _layout(record["a"]),
        "b": _layout(record["b"]),
        "c": _addend(record.get("c")),
        "out": record["out"]["format"],
        "scalars": [scalars.get(name, _ONES[0]) in _ONES for name in ("alpha", "beta")],
        "scales": "rows" if "scale_a" in record else "one" if "scale_a" in scalars else "none",
        "flags": [bool(flags.get(name)) for name in _FLAGS],
    }
    return json.dumps(told, sort_keys=True)


def _addend(c: Mapping[str, Any] | None) -> str:
    """Which kind it is."""
    return "none" if c is None else "full" if int(c["strides"][1]) else "bias"


def _layout(tensor: Mapping[str, Any]) -> tuple[str, list[int], list[int]]:
    """Format, sizes, and strides of those that are no 1."""
    shape = [int(size) for size in tensor["shape"]]
    strides = [int(stride) if size > 1 else 0 for size, stride in zip(shape, tensor["strides"])]
    return str(tensor["format"]), shape, strides


def known(profiles: Mapping[str, Profile] | Report) -> dict[str, Profile]:
    """Profiles by key: of an emulation's ``profiles``, or of the exact lines of a trace's report."""
    from ._sets import open_set
    from ._verify import Report

    if not isinstance(profiles, Report):
        try:
            return {key(json.loads(signature)): found for signature, found in profiles.items()}
        except (AttributeError, LookupError, TypeError, ValueError):
            raise errors.ArgumentError(
                "profiles: want a report of hawkeye.verify of a trace, or the profiles of an emulation."
            ) from None
    if profiles.root is None:
        raise errors.ArgumentError("profiles: the report is of a set in a file; only a trace's lines have layouts.")
    exact = {verdict.id: verdict for verdict in profiles.exact}
    found: dict[str, Profile] = {}
    for line in open_set(profiles.path).cases():
        verdict = exact.get(str(line.get("id")))
        chosen = None if verdict is None else verdict.profile
        if chosen is not None:
            found.setdefault(key(line), chosen)
    return found

"""Profiles: data that says everything about one multiplication's arithmetic."""

from __future__ import annotations

import contextlib
import ctypes as c
import json
import os
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from . import _errors as errors
from . import _native
from ._formats import BF16, BY_CODE, E4M3, E5M2, F16, F32, F64, S8, Format

#: what names a profile: a Profile, a catalogue name, JSON, a dict of it, or the path of a JSON file
ProfileLike = Union["Profile", str, "Mapping[str, Any]", "os.PathLike[str]"]

# The profile of an operand pair when the caller names none. Hopper, because its arithmetic was measured (on an H200,
# docs/arithmetic.md). f32 is absent on purpose: whether cuBLAS rounds f32 operands to tf32 depends on a flag and on the
# kernel it chooses, so the caller must say.
_DEFAULTS: dict[tuple[Format, Format], str] = {
    (F16, F16): "hopper/f16",
    (BF16, BF16): "hopper/bf16",
    (E4M3, E4M3): "hopper/e4m3-fast",
    (E5M2, E5M2): "hopper/e5m2-fast",
    (E4M3, E5M2): "hopper/e4m3-e5m2-fast",
    (E5M2, E4M3): "hopper/e5m2-e4m3-fast",
    (F64, F64): "hopper/f64",
    (S8, S8): "hopper/s8",
}


#: how the names of discovered profiles begin; 12 digits of the identity follow
DISCOVERED = "discovered/"


def _free(handle: int, owner: int) -> None:
    # Not in a forked child: the library must not be entered there, and the child's copy dies with it.
    if os.getpid() == owner and _native.loaded():
        with contextlib.suppress(errors.Error):  # nobody is left to tell
            _native.call("hawkeye_profile_free", handle)


class Profile:
    """One multiplication's arithmetic. Made by ``hawkeye.profile`` and ``hawkeye.profiles``; immutable, hashable by its
    identity (the sha256 of its arithmetic), and picklable."""

    __slots__ = ("__weakref__", "_about", "_handle", "_info")

    def __init__(self, handle: int, about: Mapping[str, Any] | None = None) -> None:
        self._handle = handle
        self._about = dict(about) if about is not None else None
        info = _native.ProfileInfo()
        info.struct_size = c.sizeof(info)
        _native.call("hawkeye_profile_get_info", handle, c.byref(info))
        self._info = info
        weakref.finalize(self, _free, handle, os.getpid()).atexit = False

    @property
    def name(self) -> str:
        """Its name in the catalogue, such as "hopper/bf16"; "" for one from JSON."""
        return str(self._info.name.decode())

    @property
    def id(self) -> str:
        """The sha256 of its arithmetic, in hexadecimal: of the canonical JSON without name and provenance. It is the
        profile's identity in every verdict."""
        return str(self._info.id.decode())

    @property
    def a(self) -> str:
        """The format in which the step takes A's elements, such as "bf16"."""
        return BY_CODE[self._info.a].name

    @property
    def b(self) -> str:
        """The format in which the step takes B's elements."""
        return BY_CODE[self._info.b].name

    @property
    def accumulator(self) -> str:
        """The format partial sums are kept in: f32, f16, f64 or s32."""
        return BY_CODE[self._info.accumulator].name

    @property
    def out(self) -> str:
        """The output's format unless the call names another."""
        return BY_CODE[self._info.out].name

    @property
    def takes_f32(self) -> bool:
        """Whether f32 operands are taken too, being rounded to the step's format first (tf32)."""
        return bool(self._info.takes_f32)

    @property
    def runnable(self) -> bool:
        """False for arithmetic kept as data for its reference model: only the instruction set "oracle" runs it."""
        return bool(self._info.runnable)

    @property
    def summary(self) -> str:
        """One line for a table."""
        return str(self._catalogue().get("summary", ""))

    @property
    def source(self) -> str:
        """Where its numbers come from: measured on which GPU, or published where."""
        return str(self._catalogue().get("source", ""))

    @property
    def doubts(self) -> str:
        """What is not certain about it; "" where nothing is in doubt."""
        return str(self._catalogue().get("doubts") or "")

    def _catalogue(self) -> dict[str, Any]:
        if self._about is None:
            self._about = next((p for p in _listed() if p.get("id") == self.id), {})
        return self._about

    def json(self) -> str:
        """The canonical JSON (docs/profile.md)."""
        return _native.text("hawkeye_profile_json", self._handle)

    def to_dict(self) -> dict[str, Any]:
        """The canonical JSON, decoded."""
        decoded: dict[str, Any] = json.loads(self.json())
        return decoded

    def describe(self) -> str:
        """What it says, in a few sentences for a person."""
        return _native.text("hawkeye_profile_describe", self._handle)

    def __repr__(self) -> str:
        name = repr(self.name) if self.name else f"id={self.id[:12]}"
        kept = "" if self.runnable else ", data only"
        return f"<Profile {name}: {self.a} x {self.b} -> {self.out}, accumulated in {self.accumulator}{kept}>"

    def __str__(self) -> str:
        return self.name or self.id

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Profile) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        # A name alone is the catalogue's, and a profile from JSON may have any.
        return profile, (self.name if _named.get(self.name) is self else self.json(),)


_named: dict[str, Profile] = {}
_lock = threading.Lock()


def _forked() -> None:
    # Handles do not cross a fork, and the lock may have been held by a thread that the child does not have.
    global _lock
    _lock = threading.Lock()
    _named.clear()


os.register_at_fork(after_in_child=_forked)


def _load(name: str, about: Mapping[str, Any] | None = None) -> Profile:
    with _lock:
        found = _named.get(name)
    if found is not None:
        _native.library()  # a forked child must be refused here too
        return found
    handle = c.c_uint64()
    _native.call("hawkeye_profile_load", name.encode(), c.byref(handle))
    made = Profile(handle.value, about)
    with _lock:
        return _named.setdefault(name, made)


def _parse(text: str) -> Profile:
    encoded, handle = text.encode(), c.c_uint64()
    _native.call("hawkeye_profile_parse", encoded, len(encoded), c.byref(handle))
    return Profile(handle.value)


def _listed() -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(_native.text("hawkeye_profile_list", size=1 << 16))
    return listed


def profile(spec: ProfileLike) -> Profile:
    """The profile that ``spec`` names.

    ``spec`` is a catalogue name ("hopper/bf16"), profile JSON as text or as a dict, the path of a JSON file (a
    ``pathlib.Path``, or a string that ends in ".json"), or a Profile, which is returned as it is. A name that begins
    with "discovered/" is that of a profile which ``hawkeye.discover`` keeps in the user's cache. Raises ProfileError
    with the field at fault, or with the names that exist.
    """
    if isinstance(spec, Profile):
        return spec
    if isinstance(spec, Mapping):
        return _parse(json.dumps(spec))
    if isinstance(spec, str) and spec.lstrip().startswith("{"):
        return _parse(spec)
    if isinstance(spec, os.PathLike) or (isinstance(spec, str) and spec.endswith(".json")):
        try:
            return _parse(Path(spec).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise errors.FileError(f"The profile {os.fspath(spec)} cannot be read: {error}.") from error
    if isinstance(spec, str) and spec.startswith(DISCOVERED):
        return _discovered(spec)
    if isinstance(spec, str):
        return _load(spec)
    raise errors.ProfileError(
        f"A {type(spec).__name__} names no profile: pass a name such as 'hopper/bf16', JSON, a dict, or a path."
    )


def _discovered(name: str) -> Profile:
    """A profile of the user's cache, by what verdicts call it."""
    from ._cache import Cache

    wanted, cache = name[len(DISCOVERED) :], Cache()
    found = {p.id: p for p in (entry.profile for entry in cache if entry.certified) if p.id.startswith(wanted)}
    if len(found) == 1 and len(wanted) >= 8:
        return next(iter(found.values()))
    why = "several" if len(wanted) < 8 or found else "none"
    raise errors.ProfileError(f"Of the discovered profiles kept in {cache.folder}, {why} can be called {name}.")


def profiles() -> list[Profile]:
    """Every profile of the catalogue, in its order."""
    return [_load(str(about["name"]), about) for about in _listed()]


def default(a: Format, b: Format, scaling: str = "") -> Profile:
    """The profile of operands in these formats when the caller names none. ``scaling`` of f8: "tensor", "row" or ""."""
    name = _DEFAULTS.get((a, b))
    if name is not None and scaling:
        if not name.endswith("-fast"):
            raise errors.UnsupportedError(f"Scales are known for f8 operands alone, and these are {a} and {b}.")
        name += {"tensor": "-scaled", "row": "-row-scaled"}[scaling]
    if name is not None:
        return profile(name)
    if F32 in (a, b):
        raise errors.ProfileError(
            "Operands in f32 need a profile that says how the GPU took them: profile='hopper/tf32' where tf32 was "
            "allowed, profile='hopper/f32' where it was not."
        )
    raise errors.ProfileError(f"No default profile multiplies {a} by {b}; name one (hawkeye.profiles() lists them).")

"""Discovered profiles on disk: a folder with one JSON file a multiplication, found again by what the multiplication is.

A file's name is the sha256 of its key: the device, the library, the settings, and the signature (operation,
formats, sizes, strides, addend, factors, scales). The key stands within too and is compared when the file is read,
so that a file which was renamed or changed is no answer to another question. Files are written whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _errors as errors
from ._formats import BY_NAME, value

if TYPE_CHECKING:
    from ._profiles import Profile

#: names the folder instead of the user's cache directory
ENVIRONMENT = "HAWKEYE_CACHE"
FORMAT = 1
#: a file of more bytes was not written here
MOST_BYTES = 64 << 20

#: fields of a device that say which library computed; a record must have one, and those that it has must agree
_LIBRARIES = ("torch", "cuda", "nvidia-cublas", "nvidia-cublas-cu12")
#: environment variables that change which kernel a library chooses, as a record of the recorder has them
_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "DISABLE_ADDMM_CUDA_LT",
)
#: settings that count, by the formats of the operands that they count for; None for all
_FLAGS: dict[str, tuple[str, ...] | None] = {
    "allow_tf32": ("f32",),
    "allow_fp16_accumulation": ("f16",),
    "use_fast_accum": ("e4m3", "e5m2"),
    "allow_reduced_precision_reduction": ("f16", "bf16"),
    "deterministic": None,
    "preferred_blas": None,
}
#: what a record means that does not say; of the others nothing is known then, and any value agrees
_UNSAID: dict[str, Any] = {"allow_tf32": False, "allow_fp16_accumulation": False, "use_fast_accum": False}


def default_folder() -> Path:
    """Where profiles are kept unless one says: $HAWKEYE_CACHE, or hawkeye/profiles in the user's cache directory."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # noqa: PTH117  the standard ignores a relative one
        base = os.path.expanduser("~/.cache")  # noqa: PTH111  which, unlike Path.home, fails for nobody
    return Path(base) / "hawkeye" / "profiles"


@dataclass(frozen=True)
class Key:
    """What a discovered profile belongs to."""

    device: Mapping[str, Any]
    flags: Mapping[str, Any]
    signature: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """As the file has it."""
        parts = {"device": self.device, "flags": self.flags, "signature": self.signature}
        decoded: dict[str, Any] = json.loads(json.dumps(parts))  # as it will be read: lists, no tuples
        return decoded

    @property
    def digest(self) -> str:
        """The sha256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(canonical(self.to_dict()).encode("ascii")).hexdigest()


def canonical(what: Any) -> str:
    """JSON in its one spelling: keys sorted, no white space, ASCII."""
    return json.dumps(what, sort_keys=True, separators=(",", ":"))


# ---- what a multiplication is --------------------------------------------------------------------------------------


def signature(record: Mapping[str, Any]) -> dict[str, Any]:
    """What a library chooses its kernel by, of a case record (docs/cases.md): operands are as they lie in memory.

    Raises LookupError, TypeError or ValueError for what is no record of a multiplication.
    """
    if not isinstance(record.get("a"), Mapping):
        record = of_golden(record)
    addend = record.get("c")
    a, b = _tensor(record["a"]), _tensor(record["b"])
    kind, lies = "none", None
    if addend is not None:
        lies = _tensor(addend)
        kind = "full" if int(addend["strides"][1]) else "bias"
        if kind == "bias":
            lies = {"format": lies["format"], "strides": lies["strides"][2]}
    op = str(record["op"]).lstrip("_")
    if op == "linear":  # as torch carries it out
        op = "mm" if addend is None else "addmm"
    scalars = record.get("scalars") or {}
    return {
        "op": op,
        "a": a,
        "b": b,
        "addend": kind,
        "c": lies,
        "out": str(record["out"]["format"]),
        "alpha": _number(scalars.get("alpha")),
        "beta": _number(scalars.get("beta")) if addend is not None else 1.0,
        "scaling": "row" if "scale_a" in record else "tensor" if "scale_a" in scalars else "none",
    }


def _tensor(t: Mapping[str, Any]) -> dict[str, Any]:
    """Format, sizes, strides of those that are no 1, and the alignment of the first element, up to 16 bytes."""
    shape = [int(size) for size in t["shape"]]
    if len(shape) != 3:
        raise ValueError("an operand has batch, rows and columns")
    strides = [int(step) if size > 1 else 0 for size, step in zip(shape, t["strides"])]
    form = str(t["format"])
    at = int(t.get("offset") or 0) * BY_NAME[form].bytes
    return {"format": form, "shape": shape, "strides": strides, "aligned": 16 if at % 16 == 0 else at & -at}


def _number(scalar: Any) -> float:
    """A scalar of a case record: "f32:0x3f800000"."""
    if scalar is None:
        return 1.0
    if isinstance(scalar, (int, float)):
        return float(scalar)
    form, _, bits = str(scalar).partition(":")
    return value(BY_NAME[form], int(bits, 16))


def of_golden(case: Mapping[str, Any]) -> dict[str, Any]:
    """A line of a golden set (docs/cases.md) as a case record, without operands."""
    names = {"i8": "s8", "i32": "s32"}
    batch, m, n, k = int(case.get("batch", 1)), int(case["m"]), int(case["n"]), int(case["k"])
    layout = str(case.get("layout", "NN"))
    a, out = str(case.get("a", "bf16")), str(case.get("out", case.get("a", "bf16")))
    b = str(case.get("b", a))
    a, b, out = (names.get(form, form) for form in (a, b, out))
    record: dict[str, Any] = {
        "op": case["op"],
        "a": {"format": a, "shape": [batch, m, k], "strides": dense(m, k, layout[0])},
        "b": {"format": b, "shape": [batch, k, n], "strides": dense(k, n, layout[1])},
        "out": {"format": out, "shape": [batch, m, n]},
        "flags": {
            "allow_tf32": bool(case.get("tf32")),
            "allow_fp16_accumulation": bool(case.get("f16acc")),
            "use_fast_accum": bool(case.get("fast")),
        },
        "scalars": {name: float(case[name]) for name in ("alpha", "beta") if name in case},
    }
    if case.get("c"):
        strides = [0, 0, 1] if case["c"] == "bias" else dense(m, n, "N")
        record["c"] = {"format": out, "shape": [batch, m, n], "strides": strides}
    if case["op"] == "scaled_mm":
        if case.get("scaling") == "row":
            record["scale_a"] = {}
        else:
            record["scalars"] |= {"scale_a": 1.0, "scale_b": 1.0}
    return record


def dense(rows: int, columns: int, layout: str) -> list[int]:
    """Strides of batch, rows and columns: N lies row by row, T column by column."""
    return [rows * columns, columns, 1] if layout == "N" else [rows * columns, 1, rows]


def flags(said: Mapping[str, Any], form: str) -> dict[str, Any]:
    """Those settings that count for operands of a format; None for what the record does not say."""
    return {name: said.get(name, _UNSAID.get(name)) for name, forms in _FLAGS.items() if forms is None or form in forms}


def same_flags(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether settings agree as far as both say them."""
    return all(theirs.get(name) in (None, set_to) or set_to is None for name, set_to in mine.items())


def same_device(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Whether a record, by its device, was computed where a profile was found, and with the same library.

    A record does not know all that the profile's key has (the driver); what it names must be the same.
    """
    if theirs.get("emulated") or mine.get("emulated"):
        return False
    name = "cpu" if theirs.get("device") == "cpu" or not theirs.get("gpu") else "gpu"
    if not theirs.get(name) or theirs[name] != mine.get(name) or (name == "cpu") != ("gpu" not in mine):
        return False
    told = [field for field in _LIBRARIES if theirs.get(field) and (name == "gpu" or field == "torch")]
    if not told or any(str(theirs[field]) != str(mine.get(field)) for field in told):
        return False
    return all(str(theirs[field]) == str(mine.get(field)) for field in _VARIABLES if field in theirs)


# ---- the folder ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Entry:
    """One file: the key, what the discovery came to, and how it was asked."""

    key: dict[str, Any]
    result: dict[str, Any]
    version: str  # of the release that asked
    elements: int  # that were wanted of a certificate; a small output, or a slow one, may have given fewer
    path: Path

    @property
    def certified(self) -> bool:
        """Whether there is a profile."""
        return bool(self.result.get("profile") and self.result.get("certificate"))

    @property
    def profile(self) -> Profile:
        """The profile, which must be certified."""
        from ._profiles import profile

        return profile(self.result["profile"])


class _DamagedError(Exception):
    """Why a file is not one of the cache."""


class Cache:
    """The folder. It is made when something is first written to it."""

    def __init__(self, where: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(where) if where is not None else default_folder()

    def path(self, key: Key) -> Path:
        """Where the file of a key is, or would be."""
        return self.folder / f"{key.digest}.json"

    def get(self, key: Key) -> Entry | None:
        """What is kept of a key. A damaged file is as good as none, and warned of."""
        where = self.path(key)
        try:
            found = _read(where)
            if found.key != key.to_dict():
                raise _DamagedError("its key is another one")
        except FileNotFoundError:
            return None
        except _DamagedError as error:
            warn(where, error)
            return None
        return found

    def put(self, key: Key, result: Mapping[str, Any], version: str, elements: int) -> Path:
        """Keeps a result, in place of what was there."""
        where = self.path(key)
        entry = {"hawkeye_discovery": FORMAT, "version": version, "elements": elements}
        entry |= {"key": key.to_dict(), "result": result}
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".", suffix=".tmp")
            try:
                with open(handle, "w", encoding="ascii") as file:
                    json.dump(entry, file, indent=1)
                    file.write("\n")
                    file.flush()
                    os.fsync(file.fileno())
                Path(name).replace(where)
            except BaseException:
                Path(name).unlink(missing_ok=True)
                raise
        except OSError as error:
            raise errors.FileError(
                f"The discovered profile cannot be kept in {self.folder}: {error}. Name another folder with "
                f"{ENVIRONMENT}, or leave it out with cache=False."
            ) from error
        return where

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, in the order of the names; damaged files are left out, and warned of."""
        try:
            names = sorted(self.folder.glob("*.json"))
        except OSError as error:
            raise errors.FileError(f"The folder {self.folder} cannot be read: {error}.") from error
        for name in names:
            try:
                yield _read(name)
            except FileNotFoundError:
                continue
            except _DamagedError as error:
                warn(name, error)


def _read(where: Path) -> Entry:
    try:
        if where.stat().st_size > MOST_BYTES:
            raise _DamagedError("it is too long")
        found = json.loads(where.read_text(encoding="utf-8"))
        if found["hawkeye_discovery"] != FORMAT:
            raise _DamagedError(f"it has format {found['hawkeye_discovery']}, and this release reads {FORMAT}")
        key, result = found["key"], found["result"]
        if not all(isinstance(key[part], dict) for part in ("device", "flags", "signature")):
            raise _DamagedError("its key is none")
        if Key(**key).digest != where.stem:
            raise _DamagedError("its name is not that of its key")
        entry = Entry(key, dict(result), str(found["version"]), int(found["elements"]), where)
        if entry.certified:
            entry.profile  # noqa: B018  raises where it is none
        return entry
    except FileNotFoundError:
        raise
    except (OSError, ValueError, TypeError, LookupError, RecursionError, errors.ProfileError) as error:
        raise _DamagedError(str(error) or type(error).__name__) from error


def warn(where: Path, why: object) -> None:
    """Says that a file is not used."""
    warnings.warn(f"{where} is damaged and ignored: {why}. It is written again by a discovery.", stacklevel=3)


# ---- for verification -----------------------------------------------------------------------------------------------


class Known:
    """The certified profiles of a folder, by what they belong to: which of them may explain a recorded line."""

    def __init__(self, cache: Cache) -> None:
        self.folder = cache.folder
        self._by_signature: dict[str, list[Entry]] = {}
        self._profiles: dict[Path, Profile] = {}
        for entry in cache:
            if entry.certified:
                self._by_signature.setdefault(canonical(entry.key["signature"]), []).append(entry)

    def __bool__(self) -> bool:
        return bool(self._by_signature)

    def suspects(self, record: Mapping[str, Any], device: Mapping[str, Any]) -> list[Profile]:
        """Those of the same signature, settings, device and library; ``device`` is that of the set as a whole."""
        try:
            of = record if isinstance(record.get("a"), Mapping) else of_golden(record)
            told = signature(of)
            form = told["a"]["format"]
            settings = flags(of.get("flags") or {}, form)
        except (LookupError, TypeError, ValueError):
            return []
        entries = self._by_signature.get(canonical(told))
        if not entries:
            return []
        own = record.get("device")
        where = dict(device)
        if isinstance(own, Mapping):
            where = {name: device[name] for name in _LIBRARIES if name in device} | dict(own)
        found: list[Profile] = []
        for entry in entries:
            if same_device(entry.key["device"], where) and same_flags(entry.key["flags"], settings):
                chosen = self._profiles.get(entry.path)
                if chosen is None:
                    chosen = self._profiles[entry.path] = entry.profile
                if chosen not in found:
                    found.append(chosen)
        return found

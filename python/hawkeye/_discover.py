"""Finding the profile of a matrix multiplication by asking it questions: ``hawkeye.discover``."""

from __future__ import annotations

import ctypes as c
import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple, Optional

from . import _boxes as boxes
from . import _cache as caches
from . import _errors as errors
from . import _formats as formats
from . import _native
from ._formats import E4M3, E5M2, F32, S8, TF32, Format
from ._profiles import DISCOVERED, Profile, ProfileLike
from ._profiles import profile as find

#: certificates are over so many output elements unless the caller says
ELEMENTS = 65536
#: of the rule table's profiles for an operation of torch so many, the likeliest, are tried too
_LIKELY = 16

_ADDENDS = ("", "bias", "full", "start")
_SCALINGS = ("", "tensor", "row")


class Progress(NamedTuple):
    """How far a discovery is. A callback that returns False stops it."""

    phase: str  #: what is being found out, in a few words
    calls: int  #: of the multiplication so far
    questions: int  #: that they answered
    done: int  #: elements of the certificate
    total: int  #: that there will be; 0 before it is begun


DiscoverProgress = Callable[[Progress], Optional[bool]]


class Finding(NamedTuple):
    """One thing found out: ("fraction bits", "25")."""

    about: str
    answer: str


@dataclass(frozen=True)
class Discovery:
    """What asking a multiplication came to. True where a profile was certified; ``str`` is a summary."""

    profile: Profile | None  #: what explains every answer, and was certified; None where nothing was
    certificate: dict[str, Any] | None  #: "elements", "calls", "kinds", "date", "seed", "box": what it was held against
    reason: str  #: why there is no certificate; "" where there is one
    best: Profile | None  #: without a certificate, the profile that explains most
    broken: str  #: the test that ``best`` fails
    findings: list[Finding]  #: the questions and their answers, in order
    calls: int  #: of the multiplication
    questions: int  #: that they answered
    tried: int  #: profiles held against the answers
    seconds: float
    signature: str  #: what was asked, in words
    cached: bool  #: read from the cache: nothing was asked now
    path: Path | None  #: its file in the cache
    details: dict[str, Any] = field(repr=False)  #: everything that the library said (docs/discover.md)

    def __bool__(self) -> bool:
        return self.profile is not None

    @property
    def name(self) -> str:
        """What verdicts call the profile: "discovered/" and 12 digits of its identity; "" where there is none."""
        return name_of(self.profile)

    @classmethod
    def from_result(
        cls, result: Mapping[str, Any], signature: str, *, cached: bool = False, path: Path | None = None
    ) -> Discovery:
        """From the JSON of the library, decoded."""
        certificate = result.get("certificate")
        found = result.get("profile") if certificate else None
        best = result.get("best")
        return cls(
            profile=find(found) if found else None,
            certificate=dict(certificate) if certificate else None,
            reason=str(result.get("reason") or ""),
            best=find(best) if best else None,
            broken=str(result.get("broken") or ""),
            findings=[Finding(str(f["about"]), str(f["answer"])) for f in result.get("findings") or ()],
            calls=int(result.get("calls") or 0),
            questions=int(result.get("questions") or 0),
            tried=int(result.get("tried") or 0),
            seconds=float(result.get("seconds") or 0.0),
            signature=signature,
            cached=cached,
            path=path,
            details=dict(result),
        )

    def to_json(self) -> str:
        """All of it as one JSON object: what the library said, with what was asked."""
        return json.dumps({"signature": self.signature, "name": self.name, "cached": self.cached, **self.details})

    def __str__(self) -> str:
        lines = [f"{self.signature}: {self.outcome()}"]
        chosen = self.profile or self.best
        if chosen is not None:
            lines += ["", chosen.describe().strip()]
        if self.findings:
            width = max(len(f.about) for f in self.findings)
            lines += ["", *(f"{f.about + ':':<{width + 1}} {f.answer}" for f in self.findings)]
        lines += ["", self.effort()]
        return "\n".join(lines)

    def outcome(self) -> str:
        """Whether a profile was certified, or why not, in a sentence or two."""
        if self.profile is not None:
            told = self.certificate or {}
            kinds = ", ".join(f"{kind} {count:,}" for kind, count in (told.get("kinds") or {}).items())
            text = f"{self.name}, certified on {int(told.get('elements') or 0):,} elements of fresh inputs"
            return text + (f" ({kinds})" if kinds else "") + ", none of them differing."
        text = f"no profile was certified: {self.reason.rstrip('.')}."
        if self.best is not None:
            fails = self.broken.rstrip(".")
            text += (
                " The best one is below." if not fails or fails in text else f" The best one, below, fails: {fails}."
            )
        return text

    def effort(self) -> str:
        """What it took, in a sentence."""
        text = (
            f"{self.calls:,} calls, {self.questions:,} questions, {self.tried:,} profiles tried, {self.seconds:.1f} s"
        )
        return f"{text}; from {self.path}." if self.cached else f"{text}."


def name_of(found: Profile | None) -> str:
    """What a discovered profile is called in verdicts."""
    return f"{DISCOVERED}{found.id[:12]}" if found is not None else ""


def discover(
    f: Callable[..., Any] | str,
    *,
    m: int,
    n: int,
    k: int,
    dtype: Any,
    batch: int | None = None,
    layout: str | None = None,
    out_dtype: Any = None,
    bias: bool = False,
    addend: str | None = None,
    addend_dtype: Any = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    scaling: str | None = None,
    use_fast_accum: bool = False,
    flags: Mapping[str, bool] | None = None,
    device: Any = None,
    framework: str | None = None,
    elements: int | None = None,
    seed: int = 0,
    max_calls: int | None = None,
    threads: int | None = None,
    suspects: Iterable[ProfileLike] | None = None,
    progress: DiscoverProgress | None = None,
    cache: bool | str | os.PathLike[str] = True,
    name: str | None = None,
    again: bool = False,
) -> Discovery:
    """Finds the profile of a matrix multiplication by calling it, and certifies it on fresh inputs.

        >>> found = hawkeye.discover(torch.matmul, m=64, n=4096, k=4096, dtype="bf16")
        >>> print(found)
        >>> d = hawkeye.matmul(a, b, profile=found.profile)

    f: the multiplication. One of torch's own (mm, bmm, addmm, baddbmm, matmul, linear, mv, addmv, dot, _scaled_mm,
        _int_mm; also by name, "mm"), which is called with its own arguments; or any function f(a, b), or f(a, b, c)
        where there is an addend, with scale_a= and scale_b= where there are scales, that gives a @ b.
    m, n, k, batch: a is m x k and b k x n, in a batch of so many where ``batch`` is given.
    dtype: of the operands, or a pair of one each: "bf16", "f16", "f32", "f64", "e4m3", "e5m2", "s8", ... "tf32" is f32
        with torch's allow_tf32.
    layout: how a and b lie in memory, N row by row and T column by column: "NN" unless said, "NT" for linear and
        _scaled_mm, as torch has them.
    out_dtype: of the result; that which f gives, unless said.
    bias, addend, addend_dtype, alpha, beta: ``bias`` adds n elements to every row, ``addend="full"`` a whole matrix;
        "start" is one that the accumulators start from. A function of your own applies alpha and beta itself.
    scaling, use_fast_accum: of f8 operands: one scale an operand ("tensor"), or one a row of a and a column of b
        ("row").
    flags: settings of torch while it is asked: allow_tf32, allow_fp16_accumulation, allow_reduced_precision_reduction,
        deterministic. They are as they were afterwards.
    device: where torch multiplies: "cuda" where there is one, else "cpu".
    framework: "torch" or "numpy", what tensors f takes. Unless said, numpy's for numpy's own functions; else torch's
        where f is torch's, ``device`` is given, or torch has been imported; else numpy's (with ml_dtypes).
    elements: how many output elements must agree before a certificate is given (65,536; fewer of small outputs).
    seed, max_calls, threads: of the inputs; the most calls of f; of the replays.
    suspects: profiles to try beside what the answers suggest. Unless said, those that the rule table has for an
        operation of torch.
    progress: called with a ``Progress`` about ten times a second; returning False stops, which raises Cancelled.
    cache: where a certified profile is kept, and found again: True for the user's cache directory, a folder, or False.
        Used for torch's own functions, and for others where ``name`` says which they are. ``again`` asks all the same.

    That no profile fits is no exception: the discovery is False then and has a ``reason``. What f raises is raised
    as it is, and so is Ctrl-C, within a second. Raises a subclass of ``hawkeye.Error`` for what makes no sense.
    """
    asked = _asked(
        f,
        m=m,
        n=n,
        k=k,
        dtype=dtype,
        batch=batch,
        layout=layout,
        out_dtype=out_dtype,
        bias=bias,
        addend=addend,
        addend_dtype=addend_dtype,
        alpha=alpha,
        beta=beta,
        scaling=scaling,
        use_fast_accum=use_fast_accum,
        flags=flags,
        device=device,
        framework=framework,
        name=name,
    )
    return run(
        asked,
        elements=elements,
        seed=seed,
        max_calls=max_calls,
        threads=threads,
        suspects=suspects,
        progress=progress,
        cache=None if cache is False else caches.Cache(None if cache is True else cache),
        again=again,
    )


# ---- what is asked ---------------------------------------------------------------------------------------------------


@dataclass
class Asked:
    """A multiplication ready to be asked."""

    product: boxes.Product
    box: boxes.TorchBox | boxes.NumpyBox
    flags: dict[str, Any]  # those that count, as they are set
    device: dict[str, Any]
    name: str  # of a function of the caller's own; "" for one that is not kept
    hardware: str
    library: str

    def key(self) -> caches.Key | None:
        """What its profile is kept by; None where it cannot be known again."""
        p = self.product
        if not p.op and not self.name:
            return None
        told = caches.signature({**p.record(), "op": p.op or f"function {self.name}"})
        settings = dict(self.flags)
        if p.addend:  # a record cannot tell them apart where there is one row
            settings["addend"] = p.addend
        return caches.Key(self.device, settings, told)


def _asked(
    f: Callable[..., Any] | str,
    *,
    m: int,
    n: int,
    k: int,
    dtype: Any,
    batch: int | None,
    layout: str | None,
    out_dtype: Any,
    bias: bool,
    addend: str | None,
    addend_dtype: Any,
    alpha: float,
    beta: float,
    scaling: str | None,
    use_fast_accum: bool,
    flags: Mapping[str, bool] | None,
    device: Any,
    framework: str | None,
    name: str | None,
) -> Asked:
    op, kind = _operation(f, device, framework)
    if kind == "torch":
        _torch()
    m, n, k = (_size(word, size) for word, size in (("m", m), ("n", n), ("k", k)))
    batch = None if batch is None else _size("batch", batch)
    settings = dict(flags or {})
    a, b = _pair(dtype)
    if TF32 in (a, b) and kind == "torch":
        a = b = F32
        if settings.setdefault("allow_tf32", True) is not True:
            raise errors.ArgumentError('dtype "tf32" is f32 where torch may round it to tf32: leave out allow_tf32.')
    given = _addend(op, bias, addend)
    scaled = _choice("scaling", scaling, _SCALINGS)
    _fits(op, batch, m, n, given, scaled, f)
    if use_fast_accum and op and op != "scaled_mm":
        raise errors.ArgumentError(f"use_fast_accum is of scaled_mm, and {op} is asked: leave it out.")
    letters = (layout or boxes.OPERATIONS.get(op, "NN")).upper()
    if len(letters) != 2 or set(letters) - set("NT"):
        raise errors.ArgumentError(f"layout is {layout!r}: it must be NN, NT, TN or TT, a letter for a and one for b.")
    if op == "matmul":  # as torch carries it out
        op = "mm" if batch is None else "bmm"
    out = None if out_dtype is None else formats.parse(out_dtype)
    first = out or _usual(a, b)
    product = boxes.Product(
        op=op,
        a=a,
        b=b,
        out=first,
        batch=batch,
        m=m,
        n=n,
        k=k,
        a_strides=boxes.packed(m, k, letters[0]),
        b_strides=boxes.packed(k, n, letters[1]),
        c=None if not given else formats.parse(addend_dtype) if addend_dtype is not None else first,
        addend=given,
        alpha=_factor("alpha", alpha),
        beta=_factor("beta", beta),
        scaling=scaled,
        fast=bool(use_fast_accum),
    )
    own = (name or "") if not op else ""
    return prepared(f, product, kind, device, settings, name=own, out=out, addend_said=addend_dtype is not None)


def prepared(
    f: Callable[..., Any] | str,
    product: boxes.Product,
    framework: str,
    device: Any,
    flags: Mapping[str, bool],
    *,
    name: str = "",
    out: Format | None = None,
    addend_said: bool = True,
) -> Asked:
    """Makes the box of a product, and sees by one call what it gives: f's own errors come before anything is asked."""
    if framework == "numpy":
        if flags:
            raise errors.ArgumentError("flags are settings of torch, and the function takes arrays of numpy.")
        if device not in (None, "cpu"):
            raise errors.ArgumentError(f"device is {device!r}, and the function takes arrays of numpy.")
        make: Callable[[boxes.Product], boxes.TorchBox | boxes.NumpyBox] = lambda p: boxes.NumpyBox(f, p)  # noqa: E731
    else:
        torch = _torch()
        where = _device(torch, device)
        make = lambda p: boxes.TorchBox(f, p, where, flags)  # noqa: E731
    box = make(product)
    with box.settings():
        given = box.checked(box.blank())
        if framework == "torch":
            told, facts = _flags(product, box), device_facts(box.device)  # type: ignore[union-attr]
        else:
            told, facts = {}, {"device": "cpu", "cpu": _processor(), "numpy": version("numpy")}
    gives = formats.parse(given.dtype)
    if out is None and gives is not product.out:
        follows = product.c is not None and not addend_said
        product = replace(product, out=gives, c=gives if follows else product.c)
        box = make(product)
        with box.settings():
            given = box.checked(box.blank())
    with box.settings():
        box.bits_of(given)
    what = "numpy" if framework == "numpy" else f"torch {facts.get('torch')}"
    cublas = facts.get("nvidia-cublas") or facts.get("nvidia-cublas-cu12")
    library = name or (f"{what}, cuBLAS {cublas}" if cublas and "gpu" in facts else what)
    return Asked(product, box, told, facts, name, str(facts.get("gpu") or facts.get("cpu") or ""), library)


def _torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise errors.ArgumentError(
            "torch is not installed here, and the function takes its tensors: install torch, or say framework='numpy' "
            "for a function on arrays of numpy."
        ) from error
    return torch


def _operation(f: Any, device: Any, framework: str | None) -> tuple[str, str]:
    """The name of torch's operation, "" for none, and whose tensors f takes."""
    if framework not in (None, "torch", "numpy"):
        raise errors.ArgumentError(f"framework is {framework!r}: it must be 'torch' or 'numpy'.")
    if isinstance(f, str):
        op = f.lstrip("_")
        if op not in boxes.OPERATIONS or framework == "numpy":
            raise errors.ArgumentError(
                f"No operation of torch is called {f!r} here; known are {', '.join(boxes.OPERATIONS)}."
            )
        return op, "torch"
    if not callable(f):
        raise errors.ArgumentError(f"f is a {type(f).__name__}: give a function, or the name of an operation of torch.")
    if framework != "numpy" and (op := boxes.operation_of(f)):
        return op, "torch"
    if framework is not None:
        return "", framework
    home = str(getattr(f, "__module__", None) or type(f).__module__).partition(".")[0]
    if home == "numpy" or type(f).__module__.partition(".")[0] == "numpy":
        return "", "numpy"
    if home == "torch" or device is not None or "torch" in sys.modules:
        return "", "torch"
    return "", "numpy"


def _size(what: str, size: Any) -> int:
    from operator import index

    try:
        number = index(size)
    except TypeError:
        raise errors.ArgumentError(f"{what} is {size!r}: it must be a whole number.") from None
    if not 1 <= number <= 1 << 30:
        raise errors.ShapeError(f"{what} is {number}: it must be 1 to 2^30.")
    return number


def _factor(what: str, number: Any) -> float:
    import math

    factor = float(number)
    if not math.isfinite(factor) or factor == 0:
        raise errors.ArgumentError(f"{what} is {number}: with such a factor nothing of the operands would show.")
    return factor


def _pair(dtype: Any) -> tuple[Format, Format]:
    """The formats of a and b."""
    if isinstance(dtype, (tuple, list)):
        if len(dtype) != 2:
            raise errors.ArgumentError(f"dtype has {len(dtype)} formats: give one, or one of a and one of b.")
        return formats.parse(dtype[0]), formats.parse(dtype[1])
    one = formats.parse(dtype)
    return one, one


def _usual(a: Format, b: Format) -> Format:
    """The output's format where nobody says: the operands', bf16 of f8, s32 of s8."""
    if a in (E4M3, E5M2) or b in (E4M3, E5M2):
        return formats.BF16
    return formats.S32 if a is S8 else a


def _choice(what: str, given: str | None, known: tuple[str, ...]) -> str:
    if given is None or given == "none":
        return ""
    if given not in known:
        raise errors.ArgumentError(
            f"{what} is {given!r}: it must be {' or '.join(repr(x) for x in known if x)}, or None."
        )
    return given


def _addend(op: str, bias: bool, addend: str | None) -> str:
    given = _choice("addend", addend, _ADDENDS)
    if bias and given not in ("", "bias"):
        raise errors.ArgumentError(f"There is a bias or an addend: bias is true, and addend is {addend!r}.")
    return "bias" if bias else given or boxes.addend_of(op)


def _fits(op: str, batch: int | None, m: int, n: int, addend: str, scaling: str, f: Any) -> None:
    """Refuses what torch's operations do not have."""
    said = f if isinstance(f, str) else op

    def refuse(why: str) -> None:
        raise errors.ArgumentError(f"{said} {why}.")

    if not op:
        return
    if op in ("bmm", "baddbmm") and batch is None:
        refuse("multiplies batches: say batch")
    if op not in ("bmm", "baddbmm", "matmul") and batch is not None:
        refuse("has no batch: leave it out, or ask bmm")
    if addend and op not in ("addmm", "baddbmm", "addmv", "linear", "scaled_mm"):
        refuse("has no addend: ask addmm, baddbmm or linear")
    if addend == "start":
        refuse("starts from no addend: that is for single instructions")
    if op in ("linear", "scaled_mm") and addend == "full":
        refuse("has a bias and no whole addend: say bias, or ask addmm")
    if op in ("baddbmm", "addmv") and addend == "bias":
        refuse("has a whole addend and no bias")
    if op == "addmm" and not addend:
        refuse("has an addend: say bias or addend='full'")
    if op in ("mv", "addmv", "dot") and n != 1:
        refuse("multiplies by a vector: n must be 1")
    if op == "dot" and m != 1:
        refuse("multiplies two vectors: m and n must be 1")
    if (op == "scaled_mm") != bool(scaling):
        refuse(
            "scales its operands: say scaling='tensor' or 'row'"
            if op == "scaled_mm"
            else "has no scales: ask scaled_mm"
        )


# ---- where it runs ---------------------------------------------------------------------------------------------------


def _device(torch: Any, device: Any) -> Any:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise errors.ArgumentError(f"device is {device!r}, which torch does not know: {error}") from None
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise errors.DeviceError("device is 'cuda', and torch sees no GPU here: say device='cpu'.")
    return chosen


def device_facts(device: Any) -> dict[str, Any]:
    """What results depend on besides operands and settings, of the device that torch multiplies on."""
    import torch

    from .record._flags import cpu
    from .record._flags import device as recorded

    if device.type != "cuda":
        facts = {name: text for name, text in recorded().items() if name not in ("gpu", "cpu", "device")}
        for name in [name for name in facts if name.startswith(("nvidia", "cuda", "CU"))]:
            del facts[name]  # no library of a GPU computed
        return {**facts, **cpu(), "threads": torch.get_num_threads()}
    torch.cuda.init()
    with torch.cuda.device(device):
        facts = dict(recorded())
        facts["gpu"] = torch.cuda.get_device_name()
        major, minor = torch.cuda.get_device_capability()
    for name in ("device", "cpu"):
        facts.pop(name, None)
    return {**facts, "capability": f"{major}.{minor}", "driver": _driver(torch)}


def _driver(torch: Any) -> str:
    """The version of the GPU's driver, as far as this process may see it."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="ascii", errors="replace")
    except OSError:
        text = ""
    if found := re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text):
        return found[1]
    ask = getattr(torch._C, "_cuda_getDriverVersion", None)
    return f"CUDA {ask()}" if ask is not None else "not known"


def _processor() -> str:
    return platform.processor() or platform.machine()


def _flags(p: boxes.Product, box: Any) -> dict[str, Any]:
    """Those settings of torch that count for the operands, as they are now."""
    from .record._flags import flags

    told = flags(box.dtype(p.a), p.fast)
    return {name: told[name] for name in caches.flags({}, p.a.name) if name in told}


# ---- asking ----------------------------------------------------------------------------------------------------------


def run(
    asked: Asked,
    *,
    elements: int | None = None,
    seed: int = 0,
    max_calls: int | None = None,
    threads: int | None = None,
    suspects: Iterable[ProfileLike] | None = None,
    progress: DiscoverProgress | None = None,
    cache: caches.Cache | None = None,
    declined: bool = False,
    again: bool = False,
) -> Discovery:
    """Asks, unless the cache knows. ``declined``: what could not be certified is taken from it, and kept, too."""
    wanted = _count("elements", elements)
    limit = _count("max_calls", max_calls)
    if not 0 <= seed < 1 << 64:
        raise errors.ArgumentError(f"seed is {seed}: it must be 0 or more, and below 2^64.")
    words = f"{asked.product} on {asked.hardware}"
    key = asked.key() if cache is not None else None
    if cache is not None and key is not None and not again:
        kept = kept_of(cache, key, wanted or ELEMENTS, declined)
        if kept is not None:
            return Discovery.from_result(kept.result, words, cached=True, path=kept.path)
    tried = [find(p) for p in suspects] if suspects is not None else _likely(asked)
    text = _ask(asked, tried, wanted, seed, limit, _native.thread_count(threads), progress)
    result: dict[str, Any] = json.loads(text)
    found = Discovery.from_result(result, words)
    if cache is not None and key is not None and (found or declined):
        return replace(found, path=cache.put(key, result, _native.version(), wanted or ELEMENTS))
    return found


def kept_of(cache: caches.Cache, key: caches.Key, elements: int, declined: bool) -> caches.Entry | None:
    """What the cache has, where it answers: asked for as much, or, where wanted, that this release has none."""
    kept = cache.get(key)
    if kept is None:
        return None
    if kept.certified:
        return kept if kept.elements >= elements else None
    return kept if declined and kept.version == _native.version() else None


def _count(what: str, number: int | None) -> int:
    if number is None:
        return 0
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number < 1 << 62:
        raise errors.ArgumentError(f"{what} is {number!r}: it must be a whole number from 1.")
    return number


def _likely(asked: Asked) -> list[Profile]:
    """What the rule table has for such an operation of torch: the likeliest profiles, none where it does not know."""
    if not asked.product.op:
        return []
    record = json.dumps(
        {**asked.product.record(), "flags": {name: bool(v) for name, v in asked.flags.items()}}
    ).encode()
    try:
        choice = json.loads(_native.text("hawkeye_rules_choose", record, len(record), _LIKELY))
    except errors.ArgumentError:
        return []
    return [find(x["profile"]) for x in choice["candidates"]]


def _ask(
    asked: Asked,
    suspects: list[Profile],
    elements: int,
    seed: int,
    max_calls: int,
    threads: int,
    progress: DiscoverProgress | None,
) -> str:
    p = asked.product
    signature = _native.Signature(
        struct_size=c.sizeof(_native.Signature),
        a=p.a.code,
        b=p.b.code,
        c=p.c.code if p.c is not None else 0,
        d=p.out.code,
        batch=p.matrices,
        m=p.m,
        n=p.n,
        k=p.k,
        alpha=p.alpha,
        beta=p.beta,
        addend=_ADDENDS.index(p.addend),
        scaling=_SCALINGS.index(p.scaling),
    )
    options = _native.DiscoverOptions(
        struct_size=c.sizeof(_native.DiscoverOptions),
        elements=elements,
        seed=seed,
        max_calls=max_calls,
        hardware=asked.hardware.encode("utf-8", "replace")[:1024],
        library=asked.library.encode("utf-8", "replace")[:1024],
        suspects=_native.handles(suspects),
        suspect_count=len(suspects),
        progress=_native.on_discover_state,
        threads=threads,
    )
    handle, finished = c.c_uint64(), False
    with asked.box.settings(), _native.Asking(asked.box, None if progress is None else _told(progress)) as asking:
        finished = asking.call(
            "hawkeye_discover",
            c.byref(signature),
            _native.on_multiply,
            None,
            c.byref(options),
            c.byref(handle),
        )
    if not finished:  # the program's own handler of SIGINT let it pass
        raise errors.Cancelled("The discovery was stopped by a signal.")
    try:
        return _native.text("hawkeye_discovery_json", handle.value, size=1 << 16)
    finally:
        _native.call("hawkeye_discovery_free", handle.value)


def _told(progress: DiscoverProgress) -> Callable[[_native.DiscoverState], bool | None]:
    def report(state: _native.DiscoverState) -> bool | None:
        phase = (state.phase or b"").decode("utf-8", "replace")
        return progress(Progress(phase, state.calls, state.questions, state.done, state.total))

    return report

"""The settings that change a multiplication's arithmetic, and the machine it ran on."""

from __future__ import annotations

import functools
import os
import platform
from collections.abc import Callable
from typing import Any

import torch

from .._emulate import MACHINES

_BACKEND = torch.backends.cuda.matmul
_ENVIRONMENT = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUBLASLT_WORKSPACE_SIZE",
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "DISABLE_ADDMM_CUDA_LT",
)
_PACKAGES = ("nvidia-cublas", "nvidia-cublas-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12")
_REDUCTIONS = {
    torch.float16: "allow_fp16_reduced_precision_reduction",
    torch.bfloat16: "allow_bf16_reduced_precision_reduction",
}


_KNOWN: dict[tuple[Any, ...], dict[str, Any]] = {}


def _reader(name: str, otherwise: Callable[[], Any]) -> Callable[[], Any]:
    """torch's own function behind a property, where it is called as in the versions known: it is called much."""
    found: Callable[[], Any] = getattr(torch._C, name, None) or otherwise
    return found


def _tf32() -> bool:
    try:
        return bool(_read_tf32())
    except RuntimeError:  # set through the newer interface, which torch does not mix with this one
        return bool(_BACKEND.fp32_precision == "tf32")


_read_tf32 = _reader("_get_cublas_allow_tf32", lambda: _BACKEND.allow_tf32)
_read = {
    "allow_fp16_accumulation": _reader("_get_cublas_allow_fp16_accumulation", lambda: False),
    "deterministic": torch.are_deterministic_algorithms_enabled,
}
_read_reduction = {
    dtype: _reader(f"_get_cublas_{name}", functools.partial(getattr, _BACKEND, name, False))
    for dtype, name in _REDUCTIONS.items()
}
_read_preferred = _reader("_get_blas_preferred_backend", lambda: None)


def flags(dtype: Any, fast: bool) -> dict[str, Any]:
    """Of a call with operands of this dtype, at this moment. Not to be changed: calls of the same flags share one."""
    reduction = _read_reduction.get(dtype)
    values = (
        _tf32(),
        _read["allow_fp16_accumulation"](),
        _read["deterministic"](),
        reduction() if reduction else False,
        _read_preferred(),
        fast,
    )
    found = _KNOWN.get(values)
    if found is None:
        found = _KNOWN[values] = _spelled(*values)
    return found


def _spelled(tf32: bool, f16: Any, deterministic: bool, reduction: Any, preferred: Any, fast: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "allow_tf32": tf32,
        "allow_fp16_accumulation": bool(f16),
        "use_fast_accum": fast,
        "deterministic": deterministic,
        "allow_reduced_precision_reduction": bool(reduction[0] if isinstance(reduction, tuple) else reduction),
    }
    if preferred is not None:
        found["preferred_blas"] = str(preferred).rpartition(".")[2].lower()
    return found


def emulated(machine: str) -> dict[str, str]:
    """The device of a product that hawkeye.emulate computed: the GPU that it stands for, and by what name."""
    return {**MACHINES[machine], "emulated": machine}


def cpu() -> dict[str, str]:
    """The device of a product of CPU tensors."""
    return {"device": "cpu", "cpu": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"}


def device() -> dict[str, str]:
    """What results depend on besides operands and flags. Names the GPU only where the program has used one."""
    from importlib.metadata import PackageNotFoundError, version

    facts = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        facts["cuda"] = str(torch.version.cuda)
    for package in _PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            continue
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        facts["gpu"] = torch.cuda.get_device_name()
    else:
        facts.update(cpu())
    for name in _ENVIRONMENT:
        if name in os.environ:
            facts[name] = os.environ[name]
    return facts

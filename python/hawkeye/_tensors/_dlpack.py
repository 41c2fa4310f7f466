"""Any library's CPU tensors through DLPack (https://dmlc.github.io/dlpack), read in place by ctypes.

numpy cannot take bf16 or f8 over DLPack, so the exchange structs are read here. The capsule is only borrowed: it is
never renamed, so it stays the producer's to free, which it does when the view lets go of it.
"""

from __future__ import annotations

import ctypes as c
from typing import Any

from .._errors import ArgumentError, DeviceError, FormatError
from .._formats import (
    BF16,
    E2M1,
    E2M3,
    E3M2,
    E4M3,
    E4M3FNUZ,
    E5M2,
    E5M2FNUZ,
    E8M0,
    F16,
    F32,
    F64,
    S8,
    S32,
    U8,
    Format,
)
from .._shapes import Dims, contiguous
from . import View

# (DLDataTypeCode, bits) of one-lane elements. Codes 8 and above are DLPack 1.1's.
_FORMATS: dict[tuple[int, int], Format] = {
    (0, 8): S8,
    (0, 32): S32,
    (1, 8): U8,
    (2, 16): F16,
    (2, 32): F32,
    (2, 64): F64,
    (4, 16): BF16,
    (10, 8): E4M3,
    (11, 8): E4M3FNUZ,
    (12, 8): E5M2,
    (13, 8): E5M2FNUZ,
    (14, 8): E8M0,
}
# Sub-byte elements may be padded to a byte each (flag 2 below) or packed, which Hawkeye does not read.
_PADDED: dict[tuple[int, int], Format] = {(15, 6): E2M3, (16, 6): E3M2, (17, 4): E2M1}
_SUBBYTE_PADDED = 1 << 2
_CPU_DEVICES = (1, 3, 11)  # kDLCPU, kDLCUDAHost, kDLROCMHost: all are memory this process can read


class _Tensor(c.Structure):
    _fields_ = [
        ("data", c.c_void_p),
        ("device_type", c.c_int32),
        ("device_id", c.c_int32),
        ("ndim", c.c_int32),
        ("code", c.c_uint8),
        ("bits", c.c_uint8),
        ("lanes", c.c_uint16),
        ("shape", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("byte_offset", c.c_uint64),
    ]


class _Managed(c.Structure):
    _fields_ = [("tensor", _Tensor), ("context", c.c_void_p), ("deleter", c.c_void_p)]


class _ManagedVersioned(c.Structure):
    _fields_ = [
        ("major", c.c_uint32),
        ("minor", c.c_uint32),
        ("context", c.c_void_p),
        ("deleter", c.c_void_p),
        ("flags", c.c_uint64),
        ("tensor", _Tensor),
    ]


_is_valid = c.pythonapi.PyCapsule_IsValid
_is_valid.argtypes, _is_valid.restype = [c.py_object, c.c_char_p], c.c_int
_pointer = c.pythonapi.PyCapsule_GetPointer
_pointer.argtypes, _pointer.restype = [c.py_object, c.c_char_p], c.c_void_p


def _export(tensor: Any, name: str) -> tuple[_Tensor, int, Any]:
    """The exchanged struct, its flags, and what keeps it alive."""
    device = int(tensor.__dlpack_device__()[0])
    if device not in _CPU_DEVICES:
        raise DeviceError(
            f"Operand {name} is on DLPack device type {device}, and Hawkeye computes on the CPU: move it there first."
        )
    try:
        try:
            capsule = tensor.__dlpack__(max_version=(1, 1))
        except TypeError:  # a producer from before DLPack 1.0
            capsule = tensor.__dlpack__()
    except (BufferError, RuntimeError, ValueError) as error:
        raise FormatError(f"Operand {name} cannot be exported over DLPack: {error}") from error
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _ManagedVersioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        if versioned.major != 1:
            raise FormatError(f"Operand {name} speaks DLPack {versioned.major}.{versioned.minor}; Hawkeye reads 1.x.")
        return versioned.tensor, versioned.flags, (tensor, capsule)
    if _is_valid(capsule, b"dltensor"):
        return _Managed.from_address(_pointer(capsule, b"dltensor")).tensor, 0, (tensor, capsule)
    raise FormatError(f"Operand {name} gave a DLPack capsule that was already used.")


class DLPackAdapter:
    """See Adapter. Results are numpy arrays, which every DLPack library takes over in its turn."""

    def view(self, tensor: Any, name: str) -> View:
        raw, flags, owner = _export(tensor, name)
        key = (raw.code, raw.bits)
        fmt = _FORMATS.get(key) or (_PADDED.get(key) if flags & _SUBBYTE_PADDED else None)
        if fmt is None or raw.lanes != 1:
            raise FormatError(
                f"Operand {name} has DLPack type code {raw.code} with {raw.bits} bits and {raw.lanes} lanes, "
                "which is no operand that Hawkeye knows."
            )
        shape: Dims = tuple(raw.shape[i] for i in range(raw.ndim))
        strides = tuple(raw.strides[i] for i in range(raw.ndim)) if raw.strides else contiguous(shape)
        return View((raw.data or 0) + raw.byte_offset, fmt, shape, strides, owner)

    def output(self, tensor: Any, name: str) -> View:
        raise ArgumentError(f"{name} must be a numpy array or a torch tensor: DLPack operands are read only.")

    def empty(self, shape: Dims, fmt: Format) -> Any:
        from ._numpy import NumpyAdapter

        return NumpyAdapter().empty(shape, fmt)

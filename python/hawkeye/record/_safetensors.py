"""The safetensors format, as far as a trace needs it: files of one dense tensor named "t"."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

#: torch's dtype names and safetensors' names for them
DTYPES = {
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int8": "I8",
    "uint8": "U8",
    "int32": "I32",
}

#: hawkeye's names of them
FORMATS = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "int8": "s8",
    "uint8": "u8",
    "int32": "s32",
}


def header(dtype: str, shape: Sequence[int], nbytes: int) -> bytes:
    """All of the file before the elements: the JSON's length (8 bytes, little endian) and the JSON.

    The same tensor always gives the same bytes, because a trace names a file by its hash. Spaces fill the JSON up to a
    multiple of 8, so that the elements are aligned.
    """
    about = {"t": {"dtype": DTYPES[dtype], "shape": list(shape), "data_offsets": [0, nbytes]}}
    text = json.dumps(about, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text

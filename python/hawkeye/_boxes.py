"""Black boxes: functions on tensors as the multiplications that a discovery asks.

A box copies the bytes that the library hands over into tensors which lie in memory as the caller said, calls the
function, and copies the dense result back. Bits are moved as integers, so that no copy may touch a NaN.
"""

from __future__ import annotations

import contextlib
import ctypes as c
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from . import _errors as errors
from ._formats import TF32, Format
from ._native import MatmulCall

#: operations of torch by the names that records give them, with the layout of their operands unless said
OPERATIONS = {
    "mm": "NN",
    "bmm": "NN",
    "addmm": "NN",
    "baddbmm": "NN",
    "matmul": "NN",
    "linear": "NT",
    "mv": "NN",
    "addmv": "NN",
    "dot": "NN",
    "scaled_mm": "NT",
    "int_mm": "NN",
}
_ADDENDS = {"addmm": "full", "baddbmm": "full", "addmv": "full"}


@dataclass(frozen=True)
class Product:
    """What is multiplied: d = alpha a b + beta c, where the operands lie, and by which operation ("": a function)."""

    op: str
    a: Format
    b: Format
    out: Format
    batch: int | None  # None: matrices without a batch dimension
    m: int
    n: int
    k: int
    a_strides: tuple[int, int, int]  # of batch, rows and columns, in elements
    b_strides: tuple[int, int, int]
    c: Format | None = None
    addend: str = ""  # "", bias, full or start
    c_strides: tuple[int, int, int] | None = None  # of a whole addend
    alpha: float = 1.0
    beta: float = 1.0
    scaling: str = ""  # "", tensor or row
    fast: bool = False  # use_fast_accum of scaled_mm
    offsets: Mapping[str, int] = field(default_factory=dict)  # of a, b and c, elements before the first

    @property
    def matrices(self) -> int:
        """How many there are of each operand."""
        return 1 if self.batch is None else self.batch

    @property
    def result(self) -> tuple[int, ...]:
        """The shape that the function gives."""
        if self.op == "dot":
            return ()
        if self.op in ("mv", "addmv"):
            return (self.m,)
        return (self.m, self.n) if self.batch is None else (self.batch, self.m, self.n)

    def record(self) -> dict[str, Any]:
        """As a case record has it, but for operands, flags and device."""
        batch = self.matrices
        record: dict[str, Any] = {
            "record_version": "1.0",
            "id": "",
            "op": self.op,
            "a": self._tensor("a", self.a, (batch, self.m, self.k), self.a_strides),
            "b": self._tensor("b", self.b, (batch, self.k, self.n), self.b_strides),
            "out": {"format": self.out.name, "shape": [batch, self.m, self.n]},
        }
        if self.c is not None:
            strides = (0, 0, 1) if self.addend == "bias" else self.c_strides or (self.m * self.n, self.n, 1)
            record["c"] = self._tensor("c", self.c, (batch, self.m, self.n), strides)
        scalars: dict[str, Any] = {}
        if self.c is not None or self.alpha != 1:
            scalars = {"alpha": _scalar(self.alpha), "beta": _scalar(self.beta)}
        if self.scaling == "tensor":
            scalars |= {"scale_a": _scalar(1.0), "scale_b": _scalar(1.0)}
        elif self.scaling == "row":
            for name, size in (("scale_a", self.m), ("scale_b", self.n)):
                record[name] = {"format": "f32", "shape": [size], "strides": [1]}
        return record | ({"scalars": scalars} if scalars else {})

    def _tensor(
        self, name: str, form: Format, shape: tuple[int, int, int], strides: tuple[int, int, int]
    ) -> dict[str, Any]:
        return {
            "format": form.name,
            "shape": list(shape),
            "strides": list(strides),
            "offset": self.offsets.get(name, 0),
        }

    def __str__(self) -> str:
        formats = self.a.name if self.a is self.b else f"{self.a} by {self.b}"
        text = f"{self.op or 'function'} of {formats}, {self.m}x{self.k} by {self.k}x{self.n}"
        if self.batch is not None:
            text += f" in a batch of {self.batch}"
        if layout := self.layout:
            text += f", {layout}"
        if self.out is not self.a:
            text += f", to {self.out}"
        if self.addend:
            text += f", with {'a bias' if self.addend == 'bias' else 'an addend'}"
        if (self.alpha, self.beta) != (1.0, 1.0):
            text += f", alpha {self.alpha:g}, beta {self.beta:g}"
        if self.scaling:
            text += f", scaled by {self.scaling}"
        return text + (", fast accumulation" if self.fast else "")

    @property
    def layout(self) -> str:
        """N and T, where both operands are dense; "" where one is not."""
        found = ""
        for strides, rows, columns in ((self.a_strides, self.m, self.k), (self.b_strides, self.k, self.n)):
            for letter in "NT":
                wanted = packed(rows, columns, letter)
                if all(size == 1 or strides[i] == wanted[i] for i, size in enumerate((self.matrices, rows, columns))):
                    found += letter
                    break
        return found if len(found) == 2 else ""


def packed(rows: int, columns: int, layout: str) -> tuple[int, int, int]:
    """Strides of dense matrices: N row by row, T column by column."""
    return (rows * columns, columns, 1) if layout == "N" else (rows * columns, 1, rows)


def _scalar(number: float) -> str:
    import struct

    return f"f64:0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016x}"


class Box(Protocol):
    """What carries out the calls of a discovery."""

    def __call__(self, call: MatmulCall) -> None:
        """Computes call.d. What the function raises is passed on."""

    def settings(self) -> contextlib.AbstractContextManager[None]:
        """In which the calls are made."""


def _bytes(address: int, size: int) -> Any:
    return (c.c_char * size).from_address(address)


# ---- torch -----------------------------------------------------------------------------------------------------------


def operation_of(f: Any) -> str:
    """The name of an operation of torch; "" for any other function."""
    torch = sys.modules.get("torch")
    if torch is None:
        return ""
    functions = {
        name: getattr(torch, name, None) for name in ("mm", "bmm", "addmm", "baddbmm", "matmul", "mv", "addmv")
    }
    functions |= {"dot": torch.dot, "linear": torch.nn.functional.linear}
    functions |= {"scaled_mm": getattr(torch, "_scaled_mm", None), "int_mm": getattr(torch, "_int_mm", None)}
    return next((name for name, function in functions.items() if function is not None and function is f), "")


def addend_of(op: str) -> str:
    """The addend that an operation has anyway."""
    return _ADDENDS.get(op, "")


_INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}


class TorchBox:
    """A function on torch tensors; see Box."""

    def __init__(self, f: Any, product: Product, device: Any, flags: Mapping[str, bool]) -> None:
        import torch

        self._torch, self._f, self.product, self.device = torch, f, product, torch.device(device)
        self._flags = flags
        p, batch = product, product.matrices
        self._a = self._place("a", p.a, (batch, p.m, p.k), p.a_strides)
        self._b = self._place("b", p.b, (batch, p.k, p.n), p.b_strides)
        self._c: tuple[Any, Any] | None = None
        if p.c is not None:
            if p.addend == "bias":
                self._c = self._place("c", p.c, (p.n,), (1,))
            else:
                strides = p.c_strides or (p.m * p.n, p.n, 1)
                self._c = self._place("c", p.c, (batch, p.m, p.n), strides)
        self._out = self.dtype(p.out)

    def dtype(self, form: Format) -> Any:
        """torch's dtype of a format; f32 for tf32, which has none."""
        found = (
            getattr(self._torch, "float32" if form is TF32 else form.torch, None)
            if form.torch or form is TF32
            else None
        )
        if found is None:
            raise errors.FormatError(f"torch {self._torch.__version__} has no dtype for format {form}.")
        return found

    def _place(self, name: str, form: Format, shape: Sequence[int], strides: Sequence[int]) -> tuple[Any, Any]:
        """Memory that lies as it should: as integers to copy into, and as the operand."""
        integer = getattr(self._torch, _INTEGERS[form.bytes])
        offset = self.product.offsets.get(name, 0)
        extent = offset + 1 + sum((size - 1) * step for size, step in zip(shape, strides))
        storage = self._torch.zeros(extent, dtype=integer, device=self.device)
        bits = storage.as_strided(tuple(shape), tuple(strides), offset)
        # Viewed as the dtype before it is strided: a view of another dtype wants no stride in particular then.
        return bits, storage.view(self.dtype(form)).as_strided(tuple(shape), tuple(strides), offset)

    def _fill(self, place: tuple[Any, Any], address: int, size: int) -> Any:
        bits, tensor = place
        given = self._torch.frombuffer(_bytes(address, size), dtype=bits.dtype)
        bits.copy_(given.view(bits.shape))
        return tensor

    def _scale(self, address: int, count: int, column: bool) -> Any:
        if not address or not count:
            return None
        given = self._torch.frombuffer(_bytes(address, 4 * count), dtype=self._torch.float32)
        values = given.to(self.device, copy=True)
        if self.product.scaling == "tensor":
            return values.reshape(())
        return values[:, None] if column else values[None, :]

    def __call__(self, call: MatmulCall) -> None:
        a = self._fill(self._a, call.a, call.a_size)
        b = self._fill(self._b, call.b, call.b_size)
        addend = None if self._c is None else self._fill(self._c, call.c, call.c_size)
        scale_a = self._scale(call.scale_a, call.scale_a_count, True)
        scale_b = self._scale(call.scale_b, call.scale_b_count, False)
        d = self.bits_of(self.run(a, b, addend, scale_a, scale_b))
        c.memmove(call.d, d.data_ptr(), call.d_size)

    def blank(self) -> Any:
        """What the function gives for operands of zeros: to see what it returns before anything is asked."""
        p, scales = self.product, (None, None)
        if p.scaling:
            ones = [self._torch.ones(count, device=self.device) for count in (p.m, p.n)]
            scales = (ones[0][:, None], ones[1][None, :])
            if p.scaling == "tensor":
                scales = (ones[0][0].reshape(()), ones[1][0].reshape(()))
        return self.run(self._a[1], self._b[1], None if self._c is None else self._c[1], *scales)

    def run(self, a: Any, b: Any, addend: Any, scale_a: Any, scale_b: Any) -> Any:
        """One call, with a, b and a whole addend of three dimensions."""
        torch, p, op = self._torch, self.product, self.product.op
        if p.batch is None:
            a, b = a[0], b[0]
            if addend is not None and p.addend != "bias":
                addend = addend[0]
        scalars = {"alpha": p.alpha, "beta": p.beta}
        wider = {} if p.out is p.a else {"out_dtype": self._out}
        if op in ("mm", "bmm"):
            return getattr(torch, op)(a, b, **wider)
        if op in ("addmm", "baddbmm"):
            return getattr(torch, op)(addend, a, b, **scalars, **wider)
        if op == "matmul":
            return torch.matmul(a, b)
        if op == "linear":
            return torch.nn.functional.linear(a, b.mT, addend)
        if op == "mv":
            return torch.mv(a, b[:, 0])
        if op == "addmv":
            return torch.addmv(addend[..., 0], a, b[:, 0], **scalars)
        if op == "dot":
            return torch.dot(a[0], b[:, 0])
        if op == "int_mm":
            return torch._int_mm(a, b)
        if op == "scaled_mm":
            return torch._scaled_mm(a, b, scale_a, scale_b, bias=addend, out_dtype=self._out, use_fast_accum=p.fast)
        given = [a, b] if addend is None else [a, b, addend]
        return self._f(*given, **({"scale_a": scale_a, "scale_b": scale_b} if p.scaling else {}))

    def checked(self, d: Any) -> Any:
        """The result, where it is one."""
        if not isinstance(d, self._torch.Tensor):
            raise errors.FormatError(f"The function gave a {type(d).__name__}: it must give a torch tensor.")
        if tuple(d.shape) != self.product.result:
            raise errors.ShapeError(
                f"The function gave a result of {_shape(d.shape)}, and {_shape(self.product.result)} was asked for."
            )
        return d

    def bits_of(self, d: Any) -> Any:
        """The bits of the result in this machine's memory, dense and row-major."""
        d = self.checked(d)
        if d.dtype is not self._out:
            raise errors.FormatError(
                f"The function gave a result in {d.dtype}, and {self._out} was asked for: say it with out_dtype."
            )
        d = d.detach().resolve_neg().contiguous()
        return d.view(getattr(self._torch, _INTEGERS[d.element_size()])).cpu()

    @contextlib.contextmanager
    def settings(self) -> Iterator[None]:
        """Sets the flags that were asked for, and no gradients; all is as it was afterwards."""
        with self._torch.no_grad(), set_flags(self._torch, self._flags):
            if self.device.type == "cuda":
                with self._torch.cuda.device(self.device):
                    yield
            else:
                yield


@contextlib.contextmanager
def set_flags(torch: Any, flags: Mapping[str, bool]) -> Iterator[None]:
    """Settings of torch that change a multiplication's arithmetic, for a while."""
    matmul = torch.backends.cuda.matmul
    names = {
        "allow_tf32": ["allow_tf32"],
        "allow_fp16_accumulation": ["allow_fp16_accumulation"],
        "allow_reduced_precision_reduction": [
            "allow_fp16_reduced_precision_reduction",
            "allow_bf16_reduced_precision_reduction",
        ],
    }
    unknown = sorted(set(flags) - set(names) - {"deterministic"})
    if unknown:
        known = ", ".join([*names, "deterministic"])
        raise errors.ArgumentError(f"flags has {unknown[0]!r}, which is none of torch's; known are {known}.")
    before: list[tuple[str, Any]] = []
    deterministic = torch.are_deterministic_algorithms_enabled()
    try:
        for flag, wanted in flags.items():
            for name in names.get(flag, []):
                try:
                    had = getattr(matmul, name)
                    setattr(matmul, name, wanted)
                except (RuntimeError, AttributeError):  # torch does not mix its older and newer interface
                    if name != "allow_tf32":
                        if not wanted:
                            continue
                        raise errors.UnsupportedError(f"torch {torch.__version__} has no setting {name}.") from None
                    name, had = "fp32_precision", matmul.fp32_precision
                    matmul.fp32_precision = "tf32" if wanted else "ieee"
                before.append((name, had))
        if "deterministic" in flags:
            torch.use_deterministic_algorithms(bool(flags["deterministic"]))
        yield
    finally:
        for name, had in reversed(before):
            setattr(matmul, name, had)
        if "deterministic" in flags:
            torch.use_deterministic_algorithms(deterministic)


# ---- numpy -----------------------------------------------------------------------------------------------------------


class NumpyBox:
    """A function on numpy arrays; see Box."""

    def __init__(self, f: Any, product: Product) -> None:
        from ._tensors._numpy import dtype_of

        if not product.layout or product.offsets:
            raise errors.UnsupportedError("Arrays of numpy lie densely, row by row (N) or column by column (T).")
        self._f, self.product = f, product
        forms = {"a": product.a, "b": product.b, "c": product.c, "d": product.out}
        self._dtypes = {name: None if form is None else dtype_of(form, "be asked with") for name, form in forms.items()}

    def _array(self, name: str, address: int, size: int, shape: Sequence[int], layout: str = "N") -> Any:
        import numpy as np

        dtype = self._dtypes[name]
        assert dtype is not None
        x = np.frombuffer(_bytes(address, size), np.uint8).copy().view(dtype).reshape(shape)
        return x if layout == "N" else np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)

    def __call__(self, call: MatmulCall) -> None:
        import numpy as np

        p, batch = self.product, () if self.product.batch is None else (self.product.batch,)
        given = [
            self._array("a", call.a, call.a_size, (*batch, p.m, p.k), p.layout[0]),
            self._array("b", call.b, call.b_size, (*batch, p.k, p.n), p.layout[1]),
        ]
        if p.c is not None:
            shape = (p.n,) if p.addend == "bias" else (*batch, p.m, p.n)
            given.append(self._array("c", call.c, call.c_size, shape))
        scales = {}
        if p.scaling:
            for name, address, count in (
                ("scale_a", call.scale_a, call.scale_a_count),
                ("scale_b", call.scale_b, call.scale_b_count),
            ):
                values = np.frombuffer(_bytes(address, 4 * count), np.float32).copy()
                shape = () if p.scaling == "tensor" else (count, 1) if name == "scale_a" else (1, count)
                scales[name] = values.reshape(shape)
        d = self.bits_of(self._f(*given, **scales))
        c.memmove(call.d, d.ctypes.data, call.d_size)

    def blank(self) -> Any:
        """What the function gives for operands of zeros."""
        import numpy as np

        p, batch = self.product, () if self.product.batch is None else (self.product.batch,)
        given = []
        for name, shape, layout in (("a", (*batch, p.m, p.k), p.layout[0]), ("b", (*batch, p.k, p.n), p.layout[1])):
            zeros = np.zeros(shape if layout == "N" else (*shape[:-2], shape[-1], shape[-2]), self._dtypes[name])
            given.append(zeros if layout == "N" else zeros.swapaxes(-1, -2))
        if p.c is not None:
            given.append(np.zeros((p.n,) if p.addend == "bias" else (*batch, p.m, p.n), self._dtypes["c"]))
        scales = {}
        if p.scaling:
            shapes = ((), ()) if p.scaling == "tensor" else ((p.m, 1), (1, p.n))
            scales = {name: np.ones(shape, np.float32) for name, shape in zip(("scale_a", "scale_b"), shapes)}
        return self._f(*given, **scales)

    def checked(self, d: Any) -> Any:
        """The result, where it is one."""
        import numpy as np

        if not isinstance(d, (np.ndarray, np.generic)):
            raise errors.FormatError(
                f"The function gave a {type(d).__name__}: it must give a numpy array. Of a function on torch tensors "
                "say framework='torch'."
            )
        if tuple(d.shape) != self.product.result:
            raise errors.ShapeError(
                f"The function gave a result of {_shape(d.shape)}, and {_shape(self.product.result)} was asked for."
            )
        return d

    def bits_of(self, d: Any) -> Any:
        """The result as an array in memory, dense and row-major."""
        import numpy as np

        d = self.checked(d)
        if d.dtype != self._dtypes["d"]:
            raise errors.FormatError(
                f"The function gave a result in {d.dtype}, and {self._dtypes['d']} was asked for: say it with "
                "out_dtype."
            )
        return np.ascontiguousarray(d)

    def settings(self) -> contextlib.AbstractContextManager[None]:
        """None that matter."""
        return contextlib.nullcontext()


def _shape(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "no dimensions"

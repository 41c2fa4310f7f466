"""Operands of every framework and layout: the bits must not depend on where they come from or how they lie."""

from __future__ import annotations

from typing import Any

import hawkeye
import numpy as np
import pytest
from hawkeye import ArgumentError, DeviceError, FormatError
from hawkeye._formats import BY_NAME
from hawkeye._tensors import adapter
from operands import dtype, pair, random, same

DEFAULTS = ["f16", "bf16", "e4m3", "e5m2", "f64", "s8"]
OUT = {"e4m3": "bf16", "e5m2": "bf16", "s8": "s32"}


def product(name: str, m: int = 6, n: int = 5, k: int = 40) -> tuple[Any, Any, Any]:
    a, b = (x[0] for x in pair(name, name, "cancel", 7, 1, m, n, k))
    return a, b, hawkeye.matmul(a, b)


def to_torch(torch: Any, array: Any, name: str) -> Any:
    """The same bits as a torch tensor (torch.from_numpy knows no bf16 or f8)."""
    fmt = BY_NAME[name]
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[fmt.bytes]
    carrier = {1: np.uint8, 2: np.int16, 4: np.int32, 8: np.int64}[fmt.bytes]
    raw = torch.from_numpy(np.ascontiguousarray(array).view(carrier).copy())
    assert raw.dtype == integer
    return raw.view(getattr(torch, fmt.torch))


def from_torch(torch: Any, tensor: Any) -> Any:
    """The same bits as a numpy array."""
    name = adapter(tensor, "x").view(tensor, "x").format.name
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
    return tensor.contiguous().view(integer).numpy().view(dtype(name)).reshape(tuple(tensor.shape))


class Foreign:
    """A tensor of some other library: nothing but DLPack, in the version before 1.0 or after."""

    def __init__(self, tensor: Any, *, versioned: bool) -> None:
        self.tensor, self.versioned = tensor, versioned

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        if not self.versioned:
            if options:
                raise TypeError("unexpected keyword argument 'max_version'")
            return self.tensor.__dlpack__()
        return self.tensor.__dlpack__(max_version=options["max_version"])


# ---- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DEFAULTS)
def test_numpy(name: str) -> None:
    _, _, d = product(name)
    assert isinstance(d, np.ndarray)
    assert d.dtype == dtype(OUT.get(name, name))


@pytest.mark.parametrize("name", DEFAULTS)
def test_torch(torch: Any, name: str) -> None:
    a, b, wanted = product(name)
    got = hawkeye.matmul(to_torch(torch, a, name), to_torch(torch, b, name))
    assert isinstance(got, torch.Tensor)
    assert got.dtype == getattr(torch, BY_NAME[OUT.get(name, name)].torch)
    same(from_torch(torch, got), wanted)


@pytest.mark.parametrize("versioned", [False, True])
@pytest.mark.parametrize("name", DEFAULTS)
def test_dlpack_from_torch(torch: Any, name: str, versioned: bool) -> None:
    a, b, wanted = product(name)
    x, y = (Foreign(to_torch(torch, t, name), versioned=versioned) for t in (a, b))
    got = hawkeye.matmul(x, y)
    assert isinstance(got, np.ndarray)
    same(got, wanted)


@pytest.mark.parametrize("name", ["f16", "f64", "s8"])
def test_dlpack_from_numpy(name: str) -> None:
    a, b, wanted = product(name)
    same(hawkeye.matmul(Foreign(a, versioned=False), Foreign(b.T.copy().T, versioned=False)), wanted)


def test_mixed_f8(torch: Any) -> None:
    a, b = random("e4m3", (3, 64), 1), random("e5m2", (64, 4), 2)
    wanted = hawkeye.matmul(a, b)
    same(from_torch(torch, hawkeye.matmul(to_torch(torch, a, "e4m3"), to_torch(torch, b, "e5m2"))), wanted)
    assert hawkeye.matmul(random("e5m2", (3, 64)), random("e4m3", (64, 4))).shape == (3, 4)


def test_result_is_of_the_first_operands_framework(torch: Any) -> None:
    a, b, wanted = product("bf16")
    same(hawkeye.matmul(a, to_torch(torch, b, "bf16")), wanted)
    assert isinstance(hawkeye.matmul(to_torch(torch, a, "bf16"), b), torch.Tensor)


# ---- layouts --------------------------------------------------------------------------------------------------------


def layouts(array: Any) -> dict[str, Any]:
    """The same numbers in every layout numpy can make."""
    rows, columns = array.shape
    wide = np.zeros((rows * 2, columns * 3), array.dtype)
    wide[::2, 1::3] = array
    column_padded = np.zeros((columns, rows + 3), array.dtype)
    column_padded[:, 1:-2] = array.T
    return {
        "row-major": array.copy(),
        "column-major": np.asfortranarray(array),
        "strided": wide[::2, 1::3],
        "padded transposed": column_padded[:, 1:-2].T,
        "rows backwards": array[::-1].copy()[::-1],
        "both backwards": array[::-1, ::-1].copy()[::-1, ::-1],
        "columns backwards": np.asfortranarray(array[:, ::-1])[:, ::-1],
    }


@pytest.mark.parametrize("name", DEFAULTS)
def test_numpy_layouts(name: str) -> None:
    a, b, wanted = product(name)
    for how_a, x in layouts(a).items():
        for how_b, y in layouts(b).items():
            got = hawkeye.matmul(x, y)
            np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8), err_msg=f"{how_a} by {how_b}")


@pytest.mark.parametrize("name", DEFAULTS)
def test_strides_pass_straight_through(name: str) -> None:
    a, _, _ = product(name)
    for how, x in layouts(a).items():
        view = adapter(x, "a").view(x, "a")
        assert view.address == x.__array_interface__["data"][0], how
        assert view.strides == tuple(s // x.itemsize for s in x.strides), how


def test_torch_layouts(torch: Any) -> None:
    a, b, wanted = product("bf16")
    x, y = to_torch(torch, a, "bf16"), to_torch(torch, b, "bf16")
    wide = torch.zeros(x.shape[0] * 2, x.shape[1] * 2, dtype=x.dtype)
    wide[1::2, ::2] = x
    for p in (x, x.t().contiguous().t(), wide[1::2, ::2]):
        assert adapter(p, "a").view(p, "a").address == p.data_ptr()
        for q in (y, y.t().contiguous().t()):
            same(from_torch(torch, hawkeye.matmul(p, q)), wanted)


def test_broadcast_zero_strides() -> None:
    row = random("bf16", (1, 48), 3)
    column = random("bf16", (48, 1), 4)
    wanted = hawkeye.matmul(np.repeat(row, 7, 0), np.repeat(column, 9, 1))
    a, b = np.broadcast_to(row, (7, 48)), np.broadcast_to(column, (48, 9))
    assert adapter(a, "a").view(a, "a").strides[0] == 0
    same(hawkeye.matmul(a, b), wanted)


def test_dlpack_strides(torch: Any) -> None:
    a, b, wanted = product("e4m3")
    x = to_torch(torch, a, "e4m3").view(torch.uint8).t().contiguous().t().view(torch.float8_e4m3fn)
    same(hawkeye.matmul(Foreign(x, versioned=True), b), wanted)


def test_read_only_operands(tmp_path: Any) -> None:
    a, b, wanted = product("f16")
    np.save(tmp_path / "a.npy", a)
    b.flags.writeable = False
    same(hawkeye.matmul(np.load(tmp_path / "a.npy", mmap_mode="r"), b), wanted)


def test_layouts_that_must_be_copied() -> None:
    a, b, wanted = product("f16")
    unaligned = np.empty(a.nbytes + 1, np.uint8)[1:].view(np.float16).reshape(a.shape)
    unaligned[...] = a
    swapped = a.astype(">f2")
    record = np.zeros(a.shape, [("x", np.uint8), ("v", np.float16)])
    record["v"] = a
    for x in (unaligned, swapped, record["v"]):
        same(hawkeye.matmul(x, b), wanted)


def test_parameters_and_gradients(torch: Any) -> None:
    a, b, wanted = product("f16")
    weight = torch.nn.Parameter(to_torch(torch, b, "f16"))
    got = hawkeye.matmul(to_torch(torch, a, "f16"), weight)
    assert not got.requires_grad
    same(from_torch(torch, got), wanted)


def test_lazily_negated_view(torch: Any) -> None:
    imaginary = torch.view_as_complex(torch.randn(4, 4, 2, dtype=torch.float64)).conj().imag
    assert imaginary.is_neg()
    eye = torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(hawkeye.matmul(imaginary, eye), imaginary.resolve_neg(), rtol=0, atol=0)


# ---- refusals -------------------------------------------------------------------------------------------------------


def test_other_devices_are_refused(torch: Any) -> None:
    a = torch.empty(2, 2, dtype=torch.float16, device="meta")
    with pytest.raises(DeviceError, match=r"Operand a is on meta.*a\.cpu\(\)"):
        hawkeye.matmul(a, a)
    with pytest.raises(TypeError):
        hawkeye.matmul(torch.ones(2, 2, dtype=torch.float16), a)


def test_dlpack_devices_are_refused() -> None:
    class Elsewhere:
        def __dlpack_device__(self) -> Any:
            return (2, 0)  # kDLCUDA

        def __dlpack__(self, **_: Any) -> Any:
            raise AssertionError("asked for memory that is not here")

    with pytest.raises(DeviceError, match="device type 2"):
        hawkeye.matmul(Elsewhere(), Elsewhere())


def test_sparse_is_refused(torch: Any) -> None:
    with pytest.raises(FormatError, match="to_dense"):
        hawkeye.matmul(torch.ones(2, 2).to_sparse(), torch.ones(2, 2))


@pytest.mark.parametrize("operand", [[[1.0]], 3.0, "A", None, object()])
def test_what_is_no_tensor(operand: Any) -> None:
    with pytest.raises(FormatError, match="Operand a is a"):
        hawkeye.matmul(operand, np.ones((1, 1), np.float16))


@pytest.mark.parametrize("kind", ["complex64", "int64", "bool", "uint16", "V2", "U3", "O"])
def test_other_dtypes(kind: str) -> None:
    with pytest.raises(FormatError, match="Operand a"):
        hawkeye.matmul(np.zeros((2, 2), kind), np.zeros((2, 2), np.float16))


def test_out_must_be_writable_memory(torch: Any) -> None:
    a, b, wanted = product("f16")
    frozen = np.empty(wanted.shape, np.float16)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="writable"):
        hawkeye.matmul(a, b, out=frozen)
    with pytest.raises(ArgumentError, match="gradient"):
        hawkeye.matmul(a, b, out=torch.zeros(wanted.shape, dtype=torch.float16, requires_grad=True))
    with pytest.raises(ArgumentError, match="DLPack"):
        hawkeye.matmul(a, b, out=Foreign(torch.zeros(wanted.shape, dtype=torch.float16), versioned=True))


def test_masks() -> None:
    """A list of booleans and a masked array mean something that indices and operands do not: neither is guessed at."""
    a = np.eye(4, dtype=np.float32)
    for choice in ({"rows": [True, False, False, True]}, {"columns": [False] * 4}):
        with pytest.raises(ArgumentError, match="mask of booleans"):
            hawkeye.matmul(a, a, profile="hopper/f32", **choice)
    with pytest.raises(FormatError, match="masked array"):
        hawkeye.matmul(np.ma.array(a, mask=a == 0), a, profile="hopper/f32")

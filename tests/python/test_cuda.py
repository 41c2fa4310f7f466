"""Single instructions of a GPU: what is said where there is none, and the table of what was found."""

from __future__ import annotations

import hawkeye
import numpy as np
import pytest
from hawkeye import _cuda
from hawkeye._discover import Discovery

NAME = "mma.m16n8k16.f32.f16.f16.f32"


@pytest.fixture(scope="module")
def gpu() -> dict[str, object]:
    try:
        return _cuda.about()
    except hawkeye.GPUError as error:
        pytest.skip(f"no instruction was run: {error}")


def test_without_a_gpu_every_call_says_what_to_do() -> None:
    try:
        _cuda.about()
    except hawkeye.GPUError as error:
        said = str(error)
    else:
        pytest.skip("this machine has a GPU")
    assert ": " in said
    for call in (lambda: _cuda.run(NAME, np.zeros((16, 16)), np.zeros((16, 8))), lambda: _cuda.discover(NAME)):
        with pytest.raises(hawkeye.GPUError):
            call()


@pytest.mark.parametrize("device", [-1, 1 << 31, "0", True])
def test_a_device_is_a_number(device: object) -> None:
    with pytest.raises(hawkeye.ArgumentError, match="number of a GPU"):
        _cuda.about(device)  # type: ignore[arg-type]


def test_arguments_are_refused_before_a_gpu_is_looked_for() -> None:
    with pytest.raises(hawkeye.ArgumentError, match="-1 tiles"):
        _cuda.discover(NAME, tiles=-1)


def found(**more: object) -> Discovery:
    result = {"instruction": {"name": NAME, "catalogue": "hopper/f16"}, "findings": [], **more}
    return Discovery.from_result(result, "an instruction")


def test_the_table_says_what_differs() -> None:
    certified = {"profile": hawkeye.profile("hopper/f16").json(), "certificate": {"elements": 1}}
    same = {"found": "fused", "catalogue": "hopper/f16", "equal": True, "differences": []}
    other = {"found": "fused", "catalogue": "hopper/f16", "equal": False, "differences": ["a: 1, in the row 2", "b: 3"]}
    unknown = {"instruction": {"name": NAME, "catalogue": ""}}
    assert _cuda.rows(
        [
            found(**certified, comparison=same),
            found(**certified, comparison=other),
            found(comparison=same, reason="some differ"),
            found(reason="not written yet"),
        ]
    ) == [
        (NAME, "fused", "hopper/f16", "equal"),
        (NAME, "fused", "hopper/f16", "a: 1, in the row 2; b: 3"),
        (NAME, "fused (not certified: some differ)", "hopper/f16", "equal"),
        (NAME, "none: not written yet", "hopper/f16", ""),
    ]
    bare = {**certified, "comparison": {**same, "catalogue": ""}, **unknown}
    assert _cuda.row(found(**bare)) == (NAME, "fused", "", "no row")


def test_an_instruction_multiplies(gpu: dict[str, object]) -> None:
    random = np.random.default_rng(1)
    a, b, c = (random.integers(-3, 4, (5, *shape)) for shape in ((16, 16), (16, 8), (16, 8)))
    x, y, z = a.astype(np.float16), b.astype(np.float16), c.astype(np.float32)
    np.testing.assert_array_equal(_cuda.run(NAME, x, y, z), a @ b + c)
    np.testing.assert_array_equal(_cuda.run(NAME, x[0], y[0]), a[0] @ b[0])
    np.testing.assert_array_equal(_cuda.run(NAME, x.view(np.uint16), y), a @ b)
    with pytest.raises(hawkeye.FormatError):
        _cuda.run(NAME, a, y)
    with pytest.raises(hawkeye.ShapeError):
        _cuda.run(NAME, x[:, :8], y)
    with pytest.raises(hawkeye.ShapeError):
        _cuda.run(NAME, x, y[:4])
    with pytest.raises(hawkeye.ArgumentError):
        _cuda.run("mma", x, y)

"""``hawkeye demo``: replays the golden set that comes with Hawkeye."""

from typing import Annotated

import typer

from . import _paths, _replay


def demo(
    threads: Annotated[int, typer.Option(min=0, help="Threads a case; 0 for one a processor.")] = 0,
) -> int:
    """Replays 517 matmuls recorded on an NVIDIA H200 and shows which are reproduced bit for bit.

    The inputs are rebuilt from integers, the products are computed here with the order and every rounding of the GPU's
    kernels, and the results are compared with what the GPU stored (sha256 of the whole output).

    Example:

      hawkeye demo
    """
    return _replay.run(_paths.golden_set(), as_json=False, only=[], threads=threads, stories=3)

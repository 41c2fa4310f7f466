"""Running a torch program on the CPU with a GPU's matrix products."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from . import _errors as errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._dispatch import Emulation
    from ._profiles import Profile
    from ._verify import Report

#: what can be emulated: each name with the machine whose products the rule table describes (docs/rules.md)
MACHINES: dict[str, dict[str, str]] = {
    "h200-torch2.11": {"gpu": "NVIDIA H200", "torch": "2.11", "nvidia-cublas": "13.1.0.3"},
}


class _Running(threading.local):
    """What was emulated on this thread until now; a recorder asks whether a product was."""

    products = 0  #: how many
    machine = ""  #: as which, the last of them

    def note(self, machine: str) -> None:
        """A product was computed as on this machine."""
        self.products += 1
        self.machine = machine


Running = _Running()


def emulate(
    machine: str = "h200-torch2.11",
    *,
    threads: int | None = None,
    strict: bool = False,
    profiles: Mapping[str, Profile] | Report | None = None,
) -> Emulation:
    """A context manager in which torch's matrix products of CPU tensors have the bits that a GPU would give them.

        >>> with hawkeye.emulate("h200-torch2.11") as run:
        ...     loss = model(x).sum()
        ...     loss.backward()
        >>> print(run)

    mm, addmm, bmm, baddbmm, mv, addmv, _scaled_mm, _int_mm and _grouped_mm are replaced, with their in-place, out= and
    out_dtype forms, and so is whatever torch makes of them: linear, matmul, einsum, and their gradients. Which kernel
    the GPU would choose is not known here, so each product is computed as the rule table's likeliest one does for its
    formats, shapes, layout and flags: exact for that profile (``run.profiles`` lists them), and the GPU's own bits
    where the library chooses such a kernel. ``profiles`` says better for some products: a report of ``hawkeye.verify``
    of a trace, whose exact lines tell it for products of their shapes and layouts, or another run's ``profiles``. As on
    the GPU, f32 is rounded to tf32 only where torch.backends.cuda.matmul allows it, and f16 is accumulated in f16 only
    there.

    Everything else is torch's own on the CPU: sums, softmax, norms. Operators that multiply and are not replaced
    (convolutions, fused attention, dot) are counted in ``run.left_out``, or refused with
    UnsupportedError where ``strict``. So are complex and integer products but _int_mm. It acts on the thread that
    entered it, and not in processes forked from it. What is not known (alpha = 0, block scales of f8) raises
    UnsupportedError.
    """
    if machine not in MACHINES:
        raise errors.ArgumentError(f"No machine is called {machine!r}; Hawkeye emulates {', '.join(MACHINES)}.")
    from ._dispatch import Emulation  # imports torch
    from ._signatures import known

    return Emulation(machine, threads=threads, strict=strict, known={} if profiles is None else known(profiles))

"""Names and launches of the kernels that a step's calls ran, from torch's profiler.

The profiler sees which kernels were launched while a mark was set, on the thread that set it. A mark is set around
every multiplication that the recorder sees.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from ._profile import MARK


class Profile:
    """One step's profile. Started and stopped on the same thread, one after the other."""

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("the program profiles itself")
        self._profile = torch.autograd.profiler.profile(use_device="cuda", **_every_thread())
        self._profile.__enter__()

    def stop(self) -> Path:
        """End it, which waits for the GPU: a file of it in Chrome's format, to be removed by who reads it."""
        self._profile.__exit__(None, None, None)
        descriptor, name = tempfile.mkstemp(prefix="hawkeye-", suffix=".json")
        os.close(descriptor)
        # At once: the profiler does not bear being read while it runs again.
        self._profile.export_chrome_trace(name)
        return Path(name)


def _every_thread() -> dict[str, Any]:
    """Marks of threads that the program attached are needed too, where this torch can see them."""
    try:
        return {"experimental_config": torch._C._profiler._ExperimentalConfig(profile_all_threads=True)}
    except (AttributeError, TypeError):
        return {}


@contextlib.contextmanager
def mark(number: int) -> Iterator[None]:
    """Around one call; -1 for one that is seen and not recorded."""
    with torch.autograd.profiler.record_function(f"{MARK}{number}"):
        yield

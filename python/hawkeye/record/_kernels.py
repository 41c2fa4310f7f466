"""Names and launches of the kernels that a step's calls ran, from torch's profiler.

Only what happens on the GPU is profiled: the profiler's callbacks for operators do not bear being started and stopped
inside the program's own ranges (an optimizer's step is one). So a kernel that does nothing is launched before and after
every multiplication that the recorder sees, on its thread: what that thread launches between the two is the call's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import torch

from ._profile import Taken


class Profile:
    """One step's profile. Profiles follow one another, and are started and stopped on the same thread."""

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("the program profiles itself")
        self._marks: dict[int, list[int]] = defaultdict(list)
        self._profile = torch.autograd.profiler.profile(use_cpu=False, use_device="cuda", use_kineto=True)
        self._profile.__enter__()

    @contextlib.contextmanager
    def mark(self, number: int) -> Iterator[None]:
        """Around one call; -1 for one that is seen and not recorded."""
        if torch.cuda.is_current_stream_capturing():
            yield  # the graph would have our kernels
            return
        self._marks[threading.get_ident()].append(number)
        torch.cuda._sleep(1)
        try:
            yield
        finally:
            torch.cuda._sleep(1)

    def stop(self) -> Taken:
        """End it, which waits for the GPU."""
        self._profile.__exit__(None, None, None)
        descriptor, name = tempfile.mkstemp(prefix="hawkeye-", suffix=".json")
        os.close(descriptor)
        # At once: the profiler does not bear being read while it runs again.
        self._profile.export_chrome_trace(name)
        return Taken(Path(name), dict(self._marks))

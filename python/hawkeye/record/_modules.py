"""Which module runs: names of modules as paths, read off Python's stack at the moment of a call."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch

from .._errors import ArgumentError

# What every module's call goes through.
_CALL = torch.nn.Module._wrapped_call_impl.__code__
# What every backward begins with: modules that called it are not those that it runs.
_BACKWARD = getattr(getattr(torch.autograd.graph, "_engine_run_backward", None), "__code__", None)


class Modules:
    """Paths such as "GPT.layers.0.mlp.fc1": the class of the outermost module, then torch's names.

    A module keeps the first name it was found under. Of two outermost modules of one class the second is "GPT#2".
    """

    def __init__(self, modules: Any = None) -> None:
        self.patterns: list[str] = []
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._roots: dict[str, int] = {}
        self._lock = threading.RLock()  # a destructor may multiply while it is held
        for item in _listed(modules):
            if isinstance(item, str):
                self.patterns.append(item)
            elif isinstance(item, torch.nn.Module):
                self._name_root(item)
            else:
                raise ArgumentError(f"modules: want modules or patterns of their paths, not a {type(item).__name__}.")

    def wanted(self, path: str) -> bool:
        """Whether calls of this path are to be recorded."""
        return not self.patterns or any(fnmatchcase(path, pattern) for pattern in self.patterns)

    def current(self) -> str | None:
        """The path of the innermost module that runs on this thread; in a backward, of those inside it. None: none."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code is _CALL:
                module = frame.f_locals["self"]
                return self._paths.get(module) or self._named(module, frame)
            if code is _BACKWARD:
                return None
            frame = frame.f_back
        return None

    def _named(self, module: Any, frame: Any) -> str:
        """The path of a module that has none yet, with those that called it."""
        stack = []
        while frame is not None and frame.f_code is not _BACKWARD:
            if frame.f_code is _CALL:
                stack.append(frame.f_locals["self"])
            frame = frame.f_back
        with self._lock:
            path = ""
            for inner in reversed(stack):
                path = self._paths.get(inner) or self._name(inner, path, stack)
            return path

    def _name(self, module: Any, outer: str, stack: Sequence[Any]) -> str:
        if not outer:
            return self._name_root(module)
        caller = stack[stack.index(module) + 1]
        for name, inner in caller.named_modules():  # made after its parent was named
            if inner is module:
                return self._paths.setdefault(module, f"{outer}.{name}")
        return self._paths.setdefault(module, f"{outer}.{type(module).__name__}")

    def _name_root(self, root: Any) -> str:
        kind = type(root).__name__
        count = self._roots[kind] = self._roots.get(kind, 0) + 1
        path = kind if count == 1 else f"{kind}#{count}"
        for name, module in root.named_modules():
            self._paths.setdefault(module, f"{path}.{name}" if name else path)
        return self._paths[root]


def _listed(modules: Any) -> Iterable[Any]:
    if modules is None:
        return []
    if isinstance(modules, (str, torch.nn.Module)) and not isinstance(modules, torch.nn.ModuleList):
        return [modules]
    if isinstance(modules, Mapping) or not isinstance(modules, Iterable):
        raise ArgumentError(f"modules: want modules or patterns of their paths, not a {type(modules).__name__}.")
    return list(modules)

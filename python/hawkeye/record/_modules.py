"""Which module runs: names of modules as paths, kept by hooks on every module's forward."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch.nn.modules import module as hooks

from .._errors import ArgumentError


class Frame:
    """A module inside its forward. node is the autograd node in whose backward it was entered, if any."""

    __slots__ = ("module", "node", "path")

    def __init__(self, module: Any, path: str, node: Any) -> None:
        self.module, self.path, self.node = module, path, node


class Modules:
    """Paths such as "GPT.layers.0.mlp.fc1": the class of the outermost module, then torch's names.

    A module keeps the first name it was found under. Of two outermost modules of one class the second is "GPT#2".
    """

    def __init__(self, modules: Any = None) -> None:
        self.patterns: list[str] = []
        self._paths: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
        self._roots: dict[str, int] = {}
        self._here = threading.local()
        self._handles: list[Any] = []
        self._lock = threading.Lock()
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

    def watch(self) -> None:
        """Put the hooks in place."""
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter),
            hooks.register_module_forward_hook(self._leave, always_call=True),
        ]

    def unwatch(self) -> None:
        """Take them away."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._here = threading.local()

    def current(self) -> Frame | None:
        """The innermost module that runs on this thread."""
        stack = getattr(self._here, "stack", None)
        return stack[-1] if stack else None

    def _enter(self, module: Any, _args: Any) -> None:
        stack = self._here.__dict__.setdefault("stack", [])
        stack.append(Frame(module, self._path(module, stack), torch._C._current_autograd_node()))

    def _leave(self, module: Any, _args: Any, _output: Any) -> None:
        stack = getattr(self._here, "stack", [])
        for depth in range(len(stack) - 1, -1, -1):  # a module may have been entered before the hooks were there
            if stack[depth].module is module:
                del stack[depth:]
                return

    def _path(self, module: Any, stack: Sequence[Frame]) -> str:
        path = self._paths.get(module)
        if path is not None:
            return path
        with self._lock:
            if not stack:
                return self._name_root(module)
            outer = stack[-1]
            for name, inner in outer.module.named_modules():  # made after its parent was named
                if inner is module:
                    return self._paths.setdefault(module, f"{outer.path}.{name}")
            return self._paths.setdefault(module, f"{outer.path}.{type(module).__name__}")

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

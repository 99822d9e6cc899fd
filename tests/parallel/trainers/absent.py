"""Stands in for libraries that a trainer imports but does not call while it reads a configuration."""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any


class _Anything(type):
    """A class of which every attribute is itself, and which as a decorator changes nothing."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *given: Any, **named: Any) -> Any:
        return given[0] if len(given) == 1 and callable(given[0]) and not named else cls


class _Module(types.ModuleType):
    __path__: Sequence[str] = ()
    __version__ = "99.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(fullname, self) if fullname.partition(".")[0] in self._names else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """Nothing to run."""


def stand_in_for(*names: str) -> None:
    """From now on these packages can be imported where they are not installed.

    PyTorch asks for some of them itself and believes what it finds: its parts that do are imported before.
    """
    import torch._dynamo
    import torch._inductor.codecache
    import torch._inductor.compile_fx
    import torch.utils.flop_counter  # noqa: F401

    sys.meta_path.append(_Finder(names))

"""Lazy packages and modules: a module is imported when one of its names is first used.

A package lists its public names in a `TYPE_CHECKING` block, where type checkers and readers find them, and sets
`__getattr__ = lazy(__name__, __file__)`. Importing `onceward.trust.feature` then does not import `cryptography`.
A module that needs a heavy library only for some of its work names the library twice:

    if TYPE_CHECKING:
        import aiohttp
    else:
        aiohttp = lazy_module("aiohttp")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class LazyModule(ModuleType):
    """Stands for a module, which is imported when one of its names is first used.

    It remembers the names it was asked for.
    """

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


def lazy_module(name: str) -> ModuleType:
    """Return a stand-in for a module that is imported when it is first used."""
    return LazyModule(name)


def lazy(package: str, file: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that loads each name of its `TYPE_CHECKING` block from its module."""
    origin: dict[str, tuple[str, str]] = {}

    def load(name: str) -> Any:
        if name.startswith("__"):  # what the import system asks every package for; no package exports such a name
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if not origin:
            origin.update(_names(file))
        if name not in origin:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = origin[name]
        value = (
            import_module(f"{module}.{attribute}") if module == package else getattr(import_module(module), attribute)
        )
        setattr(sys.modules[package], name, value)
        return value

    return load


def _names(file: str) -> dict[str, tuple[str, str]]:
    """Return the names of the `TYPE_CHECKING` block of a module, each with the module and the name it comes from."""
    import ast

    origin: dict[str, tuple[str, str]] = {}
    with open(file, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    for node in tree.body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and inner.module is not None:
                    origin.update({name.asname or name.name: (inner.module, name.name) for name in inner.names})
    return origin

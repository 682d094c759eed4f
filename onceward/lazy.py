"""Lazy packages: a package imports a module only when one of its names is first used.

A package lists its public names in a `TYPE_CHECKING` block, where type checkers and readers find them, and sets
`__getattr__ = lazy(__name__, __file__)`. Importing `onceward.trust.feature` then does not import `cryptography`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazy(package: str, file: str) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that loads each name of its `TYPE_CHECKING` block from its module."""
    origin: dict[str, tuple[str, str]] = {}
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            for inner in node.body:
                if isinstance(inner, ast.ImportFrom) and inner.module is not None:
                    origin.update({name.asname or name.name: (inner.module, name.name) for name in inner.names})

    def load(name: str) -> Any:
        if name not in origin:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = origin[name]
        value = (
            import_module(f"{module}.{attribute}") if module == package else getattr(import_module(module), attribute)
        )
        setattr(sys.modules[package], name, value)
        return value

    return load

"""Every exception of Onceward has one root, so that a caller can catch them all."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import onceward
from onceward import OncewardError


def _modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.walk_packages(onceward.__path__, "onceward.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def test_every_exception_derives_from_the_root() -> None:
    defined = {
        value
        for module in _modules()
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Exception) and value.__module__.startswith("onceward.")
    }
    assert len(defined) > 50
    foreign = sorted(f"{each.__module__}.{each.__name__}" for each in defined if not issubclass(each, OncewardError))
    assert foreign == []

"""Injection by annotation: which parameters of a handler the engine fills in, and which are its arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Signature:
    """The injected parameters by name, with the annotation each was found by."""

    name: str
    injected: Mapping[str, Any]
    arguments: tuple[str, ...]

    def parameter(self, wanted: type) -> str | None:
        """The name of the parameter annotated with this type (or `list` or a generic of it)."""
        for name, annotation in self.injected.items():
            if wanted in _types_in(annotation):
                return name
        return None

    def annotation(self, wanted: type) -> Any:
        name = self.parameter(wanted)
        return None if name is None else self.injected[name]


def read(function: Callable[..., Any], *, known: tuple[type, ...], name: str | None = None) -> Signature:
    """Sort the parameters of `function`; two of the same injected type are an error."""
    name = name or function.__name__
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name}: annotation {error.name!r} cannot be resolved; import it at module level, not under TYPE_CHECKING"
        ) from None
    injected: dict[str, Any] = {}
    arguments: list[str] = []
    seen: set[type] = set()
    for parameter in inspect.signature(function).parameters.values():
        annotation = hints.get(parameter.name)
        found = {kind for kind in known if kind in _types_in(annotation)}
        if not found:
            arguments.append(parameter.name)
            continue
        if found & seen:
            raise TypeError(f"{name}: two parameters ask for {next(iter(found & seen)).__name__}")
        seen |= found
        injected[parameter.name] = annotation
    return Signature(name, injected, tuple(arguments))


def _types_in(annotation: Any) -> set[Any]:
    if annotation is None:
        return set()
    origin = get_origin(annotation)
    if origin is None:
        return {annotation}
    if origin in (list, Union, UnionType):
        return {found for each in get_args(annotation) for found in _types_in(each)}
    return {origin}

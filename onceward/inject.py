"""Injection by annotation: separates the parameters that the engine fills in from a handler's own arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Injection:
    """The parameters of a handler: the injected ones with their annotations, and the arguments."""

    name: str
    injected: Mapping[str, Any]
    arguments: tuple[str, ...]

    def parameter(self, type_: type) -> str | None:
        """Return the name of the parameter annotated with this type, with a list of it, or with a generic of it."""
        for name, annotation in self.injected.items():
            if type_ in _types_in(annotation):
                return name
        return None

    def annotation(self, type_: type) -> Any:
        name = self.parameter(type_)
        return None if name is None else self.injected[name]


def read(function: Callable[..., Any], *, known: tuple[type, ...], name: str | None = None) -> Injection:
    """Read the parameters of `function`. The injected ones must come first, by position, in the order of `known`."""
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
        types = {kind for kind in known if kind in _types_in(annotation)}
        if not types:
            arguments.append(parameter.name)
            continue
        if types & seen:
            raise TypeError(f"{name}: two parameters have the type {next(iter(types & seen)).__name__}; keep one")
        _check_position(name, parameter, types, seen, known, arguments)
        seen |= types
        injected[parameter.name] = annotation
    return Injection(name, injected, tuple(arguments))


def _check_position(
    name: str,
    parameter: inspect.Parameter,
    types: set[type],
    seen: set[type],
    known: tuple[type, ...],
    arguments: list[str],
) -> None:
    """Raise TypeError unless the injected parameter is positional and stands before all arguments.

    Type checkers can only separate injected parameters from arguments in this form.
    """
    right = ", ".join(f"{each.__name__.lower()}: {each.__name__}" for each in known)
    hint = f"injected parameters come first and by position, in the order ({right}), and arguments after `*`"
    if parameter.kind not in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY):
        raise TypeError(f"{name}: parameter {parameter.name!r} is keyword-only; {hint}")
    if arguments:
        raise TypeError(f"{name}: parameter {parameter.name!r} stands after {arguments[0]!r}; {hint}")
    if any(known.index(each) > known.index(one) for each in seen for one in types):
        raise TypeError(f"{name}: parameter {parameter.name!r} is in the wrong place; {hint}")


def _types_in(annotation: Any) -> set[Any]:
    if annotation is None:
        return set()
    origin = get_origin(annotation)
    if origin is None:
        return {annotation}
    if origin in (list, Union, UnionType):
        return {inner for each in get_args(annotation) for inner in _types_in(each)}
    return {origin}

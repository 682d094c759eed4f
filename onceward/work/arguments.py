"""The arguments and the result of a registered function: checked, written as JSON, and read with their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError

from onceward.db import json_contains_nul
from onceward.db.unreadable import Unreadable
from onceward.errors import OncewardError
from onceward.work.outcomes import ArgumentsInvalid, Permanent

MAX_ARGS_BYTES = 1 << 20
INJECTED = {"tx": "Tx", "job": "Job", "event": "Event", "wf": "Workflow"}
"""The usual names of parameters that are injected by their type."""


class ResultInvalid(OncewardError, ValueError):
    """The stored result was not kept, or does not have the type that the function returns today."""


class Arguments:
    """The keyword-only parameters of a function, as a model that validates and serialises them."""

    def __init__(
        self, function: Callable[..., Any], name: str, injected: frozenset[str], *, open_ended: bool = False
    ) -> None:
        self.name = name
        self.model = _model(function, name, injected, open_ended=open_ended)
        self._validate: Callable[[Any], BaseModel] = self.model.__pydantic_validator__.validate_python
        self._to_json: Callable[[BaseModel], bytes] = self.model.__pydantic_serializer__.to_json

    def dump(self, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON. Raise an error that names the argument that does not fit the signature."""
        try:
            text = self._to_json(self._validate(arguments)).decode()
        except ValidationError as error:
            raise TypeError(f"{self.name}: argument {self._problem(error)}") from None
        except ValueError as error:
            raise TypeError(f"{self.name}: arguments cannot be written as JSON: {error}") from None
        if len(text) > MAX_ARGS_BYTES:
            raise ValueError(
                f"{self.name}: arguments take {len(text)} bytes, more than 1 MiB: store them and pass a reference"
            )
        if json_contains_nul(text):
            raise ValueError(f"{self.name}: arguments contain the character NUL, which PostgreSQL cannot store")
        return text

    def load(self, arguments: Any) -> dict[str, Any]:
        """Return stored arguments, converted to the types of the signature."""
        try:
            return vars(self._validate(arguments))
        except ValidationError as error:
            if isinstance(arguments, Unreadable):
                raise Permanent(f"{self.name}: the arguments cannot be read: {arguments.error}") from arguments.error
            raise ArgumentsInvalid(f"{self.name}: argument {self._problem(error)}") from None

    def _problem(self, error: ValidationError) -> str:
        """Describe the first problem. A misspelt argument is named before the required one that it leaves missing."""
        for each in error.errors(include_url=False, include_input=False, include_context=False):
            if each["type"] == "extra_forbidden":
                known = list(self.model.model_fields)
                close = get_close_matches(str(each["loc"][0]), known, n=1)
                hint = f"did you mean {close[0]}?" if close else f"it has {', '.join(known) or 'no arguments'}"
                return f"{each['loc'][0]}: {self.name} has no argument of this name; {hint}"
        return _first_problem(error, "arguments")


class ResultType:
    """The return annotation of a function. Without one, a result is returned as it was stored."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function = function
        self._name = name
        self._adapter: TypeAdapter[Any] | None = None

    def load(self, stored: Any) -> Any:
        """Return a stored result with the type that the function returns."""
        if stored is None:
            return None
        if self._adapter is None:
            self._adapter = _adapter(self._function)
        try:
            return self._adapter.validate_python(stored)
        except ValidationError as error:
            raise ResultInvalid(f"{self._name}: {_not_kept(stored) or _first_problem(error, 'the result')}") from None


def result_schema(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the JSON Schema of what a function returns, or None if its annotation says nothing or has no JSON form."""
    try:
        returned = get_type_hints(function, include_extras=True).get("return", Any)
        if returned is Any:
            return None
        return TypeAdapter(returned).json_schema(mode="serialization")
    except (NameError, PydanticUserError):
        return None


def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any]:
    try:
        returned = get_type_hints(function, include_extras=True).get("return", Any)
        return TypeAdapter(None if returned is type(None) else returned)
    except (NameError, PydanticUndefinedAnnotation, PydanticSchemaGenerationError):
        return TypeAdapter(Any)


def _not_kept(stored: Any) -> str | None:
    if isinstance(stored, dict) and set(cast("dict[str, Any]", stored)) == {"not_kept"}:
        return str(cast("dict[str, Any]", stored)["not_kept"])
    return None


def _first_problem(error: ValidationError, whole: str) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or whole
    return f"{where}: {first['msg']}"


def _misplaced(parameter: str, *, is_typed: bool) -> str:
    """Return what is wrong with a parameter that stands before `*` and is not injected."""
    if not is_typed and (known := INJECTED.get(parameter)):
        return f"parameter {parameter!r} has no type: write `{parameter}: {known}`, with `from onceward import {known}`"
    return f"parameter {parameter!r} must be keyword-only (put it after `*`)"


def _model(function: Callable[..., Any], name: str, injected: frozenset[str], *, open_ended: bool) -> type[BaseModel]:
    """Return the model. A batch handler declares no parameters: it reads `job.args`, so the model accepts any."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in injected:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}: *args and **kwargs cannot be arguments of a job; name each one")
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"{name}: {_misplaced(parameter.name, is_typed=parameter.name in hints)}")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(
        f"{name}_arguments",
        __config__=ConfigDict(
            extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False, ser_json_inf_nan="null"
        ),
        **fields,
    )

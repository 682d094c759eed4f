"""A pydantic model whose fields are read from environment variables."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict


class AsText:
    """Marks a list or mapping that a validator of the model reads from text. Without it, the text must be JSON."""


class EnvironmentModel(BaseModel):
    """A model that reads each field that is not given from the variable `<PREFIX><FIELD>`; letter case does not matter."""

    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True, validate_default=True)
    environment_prefix: ClassVar[str] = ""

    def __init__(self, *, _prefix: str | None = None, **given: Any) -> None:
        prefix = self.environment_prefix if _prefix is None else _prefix
        super().__init__(**{**_from_environment(type(self), prefix, os.environ), **given})


def _from_environment(model: type[BaseModel], prefix: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields whose variables are set."""
    upper = {name.upper(): value for name, value in environ.items() if name.upper().startswith(prefix.upper())}
    values: dict[str, Any] = {}
    for name, field in model.model_fields.items():
        text = upper.get(f"{prefix}{name}".upper())
        if text is not None:
            as_text = any(marker is AsText for marker in field.metadata)
            values[name] = text if as_text or not _is_structured(field.annotation) else _from_json(text)
    return values


def _is_structured(annotation: Any) -> bool:
    """Return whether a field holds a list, a mapping or a model, which a variable holds as JSON."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return _is_structured(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(_is_structured(each) for each in get_args(annotation))
    kind: Any = origin or annotation
    return isinstance(kind, type) and issubclass(
        cast("type[Any]", kind), list | tuple | set | frozenset | dict | BaseModel
    )


def _from_json(text: str) -> Any:
    """Return the value, or the text if it is not JSON: the model then refuses it and names the field."""
    try:
        return json.loads(text)
    except ValueError:
        return text

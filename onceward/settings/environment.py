"""A pydantic model whose fields are read from environment variables."""

from __future__ import annotations

import json
import os
import types
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr, ValidationError

from onceward.errors import OncewardError

PREFIX = "ONCEWARD_"


class SettingsError(OncewardError):
    """Some settings are invalid. The message has one line per setting: name, value (hidden for a secret) and reason."""


class AsText:
    """Marks a list or mapping that a validator of the model reads from text. Without it, the text must be JSON."""


def _split(value: object) -> object:
    return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value


def _empty_is_unset(value: object) -> object:
    return None if isinstance(value, str) and not value.strip() else value


Words = Annotated[tuple[str, ...], AsText, BeforeValidator(_split)]
"""A list of values separated by commas."""

OptionalText = Annotated[str | None, BeforeValidator(_empty_is_unset)]
"""A text; an empty variable means that it is not set."""

OptionalSecret = Annotated[SecretStr | None, BeforeValidator(_empty_is_unset)]
"""A secret; an empty variable means that it is not set."""


class EnvironmentModel(BaseModel):
    """A model that reads each field that is not given from the variable `<PREFIX><FIELD>`; letter case does not
    matter."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)
    environment_prefix: ClassVar[str] = ""

    def __init__(self, *, _prefix: str | None = None, **given: Any) -> None:
        prefix = self.environment_prefix if _prefix is None else _prefix
        super().__init__(**{**_from_environment(type(self), prefix, os.environ), **given})


class FeatureSettings(EnvironmentModel):
    """Base of the settings that a feature or an app declares: each field is read from `ONCEWARD_<NAME>_<FIELD>`.

    A feature of the engine sets `environment_prefix = PREFIX`: its fields are read from `ONCEWARD_<FIELD>`.
    """


M = TypeVar("M", bound=EnvironmentModel)


def read(model: type[M], prefix: str, given: Mapping[str, Any] | None = None) -> M:
    """Read a model from the environment. Values that are `given` win. Raises `SettingsError`."""
    given = given or {}
    try:
        return model(_prefix=prefix, **given)
    except ValidationError as error:
        raise SettingsError("\n".join(_lines(error, model, prefix, given))) from None


def _lines(error: ValidationError, model: type[EnvironmentModel], prefix: str, given: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    for problem in error.errors(include_input=False, include_url=False, include_context=False):
        reason = problem["msg"].removeprefix("Value error, ")
        if not problem["loc"]:
            lines.append(reason)
            continue
        field = str(problem["loc"][0]).lower()
        name = prefix + field.upper()
        if is_secret(model.model_fields[field].annotation):
            lines.append(f"{name}: {reason} (value not shown)")
        else:
            lines.append(f"{name}={given.get(field, os.environ.get(name, ''))!r}: {reason}")
    return lines


def is_secret(annotation: Any) -> bool:
    """Return whether a field holds a secret."""
    return annotation is SecretStr or SecretStr in get_args(annotation)


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

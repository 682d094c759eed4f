"""Read the settings from the environment, list them, and find misspelt variables."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_args

from pydantic import SecretStr, ValidationError

from onceward.errors import OncewardError
from onceward.settings.environment import EnvironmentModel
from onceward.settings.fields import PREFIX, FeatureSettings, Settings

DYNAMIC_PREFIXES = ("ONCEWARD_SOURCE_", "ONCEWARD_TEST_")
"""Prefixes of variables whose full names users choose (a source's secret, a test's switch)."""

log = logging.getLogger("onceward.settings")

F = TypeVar("F", bound=FeatureSettings)

Declared = Sequence[tuple[str, type[FeatureSettings]]]
"""The features and apps that declare settings, each with its name and its model."""


class SettingsError(OncewardError):
    """Some settings are invalid. The message has one line per setting: name, value (hidden for a secret) and reason."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    name: str
    default: str
    description: str
    secret: bool

    value: str
    """The value in effect. Empty for a secret."""


@dataclass(frozen=True, slots=True)
class UnknownName:
    """An environment variable that has our prefix but is not a setting."""

    name: str
    suggestion: str | None

    def __str__(self) -> str:
        hint = f"; did you mean {self.suggestion}?" if self.suggestion else ""
        return f"{self.name} is not a setting{hint} (docs/settings.md lists them all)"


def all_settings(declared: Declared = (), *, current: Settings | None = None) -> list[Setting]:
    """Return every setting in the order of declaration: the engine's, then those of features and apps."""
    rows = _rows(PREFIX, Settings, current)
    for name, model in declared:
        rows += _rows(prefix_of(name), model, None if current is None else load_feature_settings(name, model))
    return rows


def _rows(prefix: str, model: type[EnvironmentModel], current: EnvironmentModel | None) -> list[Setting]:
    rows: list[Setting] = []
    for name in sorted(model.model_fields, key=lambda name: name not in model.__annotations__):  # inherited ones last
        field = model.model_fields[name]
        default = _show(field.get_default(call_default_factory=True))
        value = "" if current is None else _show(getattr(current, name))
        rows.append(
            Setting(prefix + name.upper(), default, field.description or "", _is_secret(field.annotation), value)
        )
    return rows


def prefix_of(name: str) -> str:
    """Return the prefix of the environment variables of a feature or an app."""
    return f"{PREFIX}{name.upper()}_"


def unknown_names(environ: Mapping[str, str], declared: Declared = ()) -> list[UnknownName]:
    """Return the variables with our prefix that nothing reads: usually typing mistakes."""
    known = {row.name for row in all_settings(declared)}
    unknown: list[UnknownName] = []
    for name in sorted(environ):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not upper.startswith(DYNAMIC_PREFIXES):
            close = difflib.get_close_matches(upper, known, n=1, cutoff=0.75)
            unknown.append(UnknownName(name, close[0] if close else None))
    return unknown


def check_prefixes(declared: Declared) -> None:
    """Raise `SettingsError` if a variable of a feature or app could be confused with one of the engine's."""
    for name, _ in declared:
        clash = [f"{PREFIX}{field.upper()}" for field in Settings.model_fields if field.startswith(f"{name.lower()}_")]
        if clash:
            raise SettingsError(
                f"{name!r} cannot declare settings: {clash[0]} is a setting of the engine; rename {name!r}"
            )


def load_settings(**overrides: Any) -> Settings:
    """Read the settings from the environment. `overrides` (command line options) win unless they are None."""
    return _load(Settings, PREFIX, {name: value for name, value in overrides.items() if value is not None})


def load_feature_settings(name: str, model: type[F]) -> F:
    """Read the settings of a feature or an app from the environment."""
    return _load(model, prefix_of(name), {})


def warn_of_unknown_names(declared: Declared) -> None:
    """Log the variables with our prefix that nothing reads. Call it once all features of the process are known."""
    for unknown in unknown_names(os.environ, declared):
        log.warning("%s", unknown)


M = TypeVar("M", bound=EnvironmentModel)


def _load(model: type[M], prefix: str, given: Mapping[str, Any]) -> M:
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
        if _is_secret(model.model_fields[field].annotation):
            lines.append(f"{name}: {reason} (value not shown)")
        else:
            lines.append(f"{name}={given.get(field, os.environ.get(name, ''))!r}: {reason}")
    return lines


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or SecretStr in get_args(annotation)


def _show(value: object) -> str:
    match value:
        case None | () | {}:
            return ""
        case tuple():
            return ",".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case bool():
            return str(value).lower()
        case _:
            return str(value)

"""Read the settings of the frame and of all features, list them, and find misspelt variables."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from onceward.settings.environment import PREFIX, EnvironmentModel, FeatureSettings, SettingsError, is_secret, read
from onceward.settings.fields import Settings

DYNAMIC_PREFIXES = ("ONCEWARD_SOURCE_", "ONCEWARD_TEST_")
"""Prefixes of variables whose full names users choose (a source's secret, a test's switch)."""

FRAME = "engine"
"""The owner of the settings that no feature declares."""

log = logging.getLogger("onceward.settings")

F = TypeVar("F", bound=FeatureSettings)

Declared = Sequence[tuple[str, type[FeatureSettings]]]
"""The features and apps that declare settings, each with its name and its model."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table of settings."""

    owner: str
    """The feature or app that declares it, or `engine`."""
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
    """Return every setting by owner, in the order of declaration: the frame's, then those of features and apps."""
    current = None if current is None else complete_settings(current, declared)
    rows = _rows(FRAME, PREFIX, Settings, current)
    for name, model in declared:
        rows += _rows(name, prefix_of(name, model), model, None if current is None else current.of(model))
    return rows


def _rows(owner: str, prefix: str, model: type[EnvironmentModel], current: EnvironmentModel | None) -> list[Setting]:
    rows: list[Setting] = []
    for name, field in model.model_fields.items():
        default = _show(field.get_default(call_default_factory=True))
        value = "" if current is None else _show(getattr(current, name))
        rows.append(
            Setting(owner, prefix + name.upper(), default, field.description or "", is_secret(field.annotation), value)
        )
    return rows


def prefix_of(name: str, model: type[FeatureSettings] | None = None) -> str:
    """Return the prefix of the environment variables of a feature or an app."""
    return (model.environment_prefix if model is not None else "") or f"{PREFIX}{name.upper()}_"


def variables(declared: Declared = ()) -> list[str]:
    """Return the environment variables of the frame and of these features."""
    return [PREFIX + field.upper() for field in Settings.model_fields] + [
        prefix_of(name, model) + field.upper() for name, model in declared for field in model.model_fields
    ]


def unknown_names(environ: Mapping[str, str], declared: Declared = ()) -> list[UnknownName]:
    """Return the variables with our prefix that nothing reads: usually typing mistakes."""
    known = set(variables(declared))
    unknown: list[UnknownName] = []
    for name in sorted(environ):
        upper = name.upper()
        if upper.startswith(PREFIX) and upper not in known and not upper.startswith(DYNAMIC_PREFIXES):
            close = difflib.get_close_matches(upper, known, n=1, cutoff=0.75)
            unknown.append(UnknownName(name, close[0] if close else None))
    return unknown


def check_prefixes(declared: Declared) -> None:
    """Raise `SettingsError` if two owners read one variable, or if an app's variables could be confused with others."""
    own = [(name, model) for name, model in declared if not model.environment_prefix]
    engine = variables([each for each in declared if each not in own])
    for name, model in own:
        clash = [variable for variable in engine if variable.startswith(prefix_of(name, model))]
        if clash:
            raise SettingsError(
                f"{name!r} cannot declare settings: {clash[0]} is a setting of the engine; rename {name!r}"
            )
    for variable in engine:
        if engine.count(variable) > 1:
            raise SettingsError(f"two features declare the setting {variable}: rename one of them")


def load_settings(declared: Declared = (), **overrides: Any) -> Settings:
    """Read the settings of the frame and of these features. `overrides` (command line options) win unless they are
    None.

    Raises `SettingsError` with one line for every invalid value. The settings of a feature that is not listed here are
    read when code first asks for them.
    """
    given = {name: value for name, value in overrides.items() if value is not None}
    wrong: list[str] = []
    frame = _read_own(Settings, PREFIX, given, wrong)
    features = [_read_own(model, prefix_of(name, model), given, wrong) for name, model in declared]
    if given:
        raise TypeError(f"{', '.join(sorted(given))}: not a setting of the engine or of the features that are listed")
    if frame is None or wrong:
        raise SettingsError("\n".join(wrong))
    return frame.using(*(each for each in features if each is not None))


def complete_settings(settings: Settings, declared: Declared) -> Settings:
    """Return the settings with those of all these features.

    Raises `SettingsError` with one line for every invalid value.
    """
    wrong: list[str] = []
    missing = [(name, model) for name, model in declared if not settings.has(model)]
    features = [_read_own(model, prefix_of(name, model), {}, wrong) for name, model in missing]
    if wrong:
        raise SettingsError("\n".join(wrong))
    return settings.using(*(each for each in features if each is not None))


M = TypeVar("M", bound=EnvironmentModel)


def _read_own(model: type[M], prefix: str, given: dict[str, Any], wrong: list[str]) -> M | None:
    """Read a model, and take the values that belong to it out of `given`. Adds to `wrong` a line for an invalid
    value."""
    own = {name: given.pop(name) for name in list(given) if prefix == PREFIX and name in model.model_fields}
    try:
        return read(model, prefix, own)
    except SettingsError as error:
        wrong.append(str(error))
        return None


def load_feature_settings(name: str, model: type[F]) -> F:
    """Read the settings of a feature or an app from the environment."""
    return read(model, prefix_of(name, model))


def warn_of_unknown_names(declared: Declared) -> None:
    """Log the variables with our prefix that nothing reads. Call it once all features of the process are known."""
    for unknown in unknown_names(os.environ, declared):
        log.warning("%s", unknown)


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

"""The settings of an integration: the fields of the installation's account, and what its own model declares."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import ConfigDict, Field, SecretStr, create_model

from onceward.feature import resolve
from onceward.integration import integrations
from onceward.settings import Declared, FeatureSettings, Settings, prefix_of
from onceward.settings.environment import read

UNSET = "ONCEWARD_TEST_NOTHING_"
"""A prefix that no variable has."""


class _Deferred(FeatureSettings):
    """Its validator is built when it is first used: a process lists the settings of all integrations and uses those
    of a few."""

    model_config = ConfigDict(defer_build=True)


@cache
def settings_model(name: str) -> type[FeatureSettings]:
    """Return the model of an integration's settings: its own fields, and one for each field of an account."""
    declared = integrations()[name]
    bases: tuple[type[FeatureSettings], ...] = (_Deferred,)
    if declared.settings is not None:
        bases = (resolve(declared.settings), _Deferred)
    fields: dict[str, Any] = {
        each.name: (
            SecretStr | None if each.secret else str | None,
            Field(default=None, description=each.description),
        )
        for each in declared.account
    }
    made = create_model(f"{name.title()}Settings", __base__=bases, **fields)
    made.environment_prefix = prefix_of(name)
    return made


def service_settings(name: str, **given: Any) -> FeatureSettings:
    """Return settings of an integration for `Settings.using`, for example in a test: what is not given is not set."""
    return read(settings_model(name), f"{UNSET}{name}_", given)


def load_integration_settings(name: str, settings: Settings) -> Any:
    """Return the settings of an integration by its name: those that were given, else those of the environment."""
    return settings.of(settings_model(name))


def integration_settings() -> Declared:
    """Return the name and the settings model of each integration that has settings."""
    return tuple(
        (name, settings_model(name))
        for name in sorted({*integrations().names_having("account"), *integrations().names_having("settings")})
    )

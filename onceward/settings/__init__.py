"""The settings of the engine and of apps. This package imports nothing else of Onceward."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.settings.fields import PREFIX, FeatureSettings, Settings
    from onceward.settings.loading import (
        Declared,
        Setting,
        SettingsError,
        UnknownName,
        all_settings,
        check_prefixes,
        load_feature_settings,
        load_settings,
        prefix_of,
        unknown_names,
        warn_of_unknown_names,
    )

__all__ = [
    "PREFIX",
    "Declared",
    "FeatureSettings",
    "Setting",
    "Settings",
    "SettingsError",
    "UnknownName",
    "all_settings",
    "check_prefixes",
    "load_feature_settings",
    "load_settings",
    "prefix_of",
    "unknown_names",
    "warn_of_unknown_names",
]

__getattr__ = lazy(__name__, __file__)

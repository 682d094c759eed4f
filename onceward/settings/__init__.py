"""The settings of the engine and of apps. This package imports nothing else of Onceward."""

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

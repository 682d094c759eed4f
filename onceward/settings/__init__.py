"""The settings of the engine and of apps. This package imports nothing else of Onceward.

Internal: import `FeatureSettings` from `onceward`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.settings.environment import PREFIX, FeatureSettings, SettingsError
    from onceward.settings.fields import Settings
    from onceward.settings.loader import (
        Declared,
        Setting,
        UnknownName,
        all_settings,
        check_prefixes,
        complete_settings,
        load_feature_settings,
        load_settings,
        prefix_of,
        unknown_names,
        variables,
        warn_of_unknown_names,
    )

__all__: list[str] = []

__getattr__ = lazy(__name__, __file__)

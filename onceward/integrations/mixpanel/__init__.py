"""Mixpanel: imported events."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.mixpanel.client import Mixpanel
    from onceward.integrations.mixpanel.simulator import MixpanelSimulator

__all__ = ["Mixpanel", "MixpanelSimulator"]

__getattr__ = lazy(__name__, __file__)

"""Google Analytics 4: events of the Measurement Protocol."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.ga4.client import Ga4, Ga4Event
    from onceward.integrations.ga4.simulator import Ga4Simulator

__all__ = ["Ga4", "Ga4Event", "Ga4Simulator"]

__getattr__ = lazy(__name__, __file__)

"""HubSpot: contacts, deals and other records."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.hubspot.client import CrmRecord, HubSpot
    from onceward.integrations.hubspot.simulator import HubSpotSimulator

__all__ = ["CrmRecord", "HubSpot", "HubSpotSimulator"]

__getattr__ = lazy(__name__, __file__)

"""Cal.com: bookings."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.calcom.client import Attendee, CalCom
    from onceward.integrations.calcom.simulator import CalComSimulator

__all__ = ["Attendee", "CalCom", "CalComSimulator"]

__getattr__ = lazy(__name__, __file__)

"""Twilio: text messages."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.twilio.client import Twilio
    from onceward.integrations.twilio.simulator import TwilioSimulator

__all__ = ["Twilio", "TwilioSimulator"]

__getattr__ = lazy(__name__, __file__)

"""Brevo: emails."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.brevo.client import Brevo, Mailbox
    from onceward.integrations.brevo.simulator import BrevoSimulator

__all__ = ["Brevo", "BrevoSimulator", "Mailbox"]

__getattr__ = lazy(__name__, __file__)

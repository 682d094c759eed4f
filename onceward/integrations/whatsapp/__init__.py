"""WhatsApp Cloud API: messages and templates."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.whatsapp.client import WhatsApp
    from onceward.integrations.whatsapp.received import WhatsAppMessage, WhatsAppReceived
    from onceward.integrations.whatsapp.simulator import WhatsAppSimulator

__all__ = ["WhatsApp", "WhatsAppMessage", "WhatsAppReceived", "WhatsAppSimulator"]

__getattr__ = lazy(__name__, __file__)

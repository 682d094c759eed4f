"""One file per channel. All channels pass the same conformance suite."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.messages.channels.dashboard import DashboardChannel
    from onceward.messages.channels.email import BrevoChannel, FolderChannel, SmtpChannel
    from onceward.messages.channels.push import PushChannel
    from onceward.messages.channels.slack import SlackChannel, SlackWebhookChannel
    from onceward.messages.channels.sms import SmsChannel
    from onceward.messages.channels.whatsapp import WhatsAppChannel

__all__ = [
    "BrevoChannel",
    "DashboardChannel",
    "FolderChannel",
    "PushChannel",
    "SlackChannel",
    "SlackWebhookChannel",
    "SmsChannel",
    "SmtpChannel",
    "WhatsAppChannel",
]

__getattr__ = lazy(__name__, __file__)

"""One file per channel. All channels pass the same conformance suite."""

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

"""Messages: queued in the caller's transaction, sent once, in the recipient's language, outside quiet hours."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.messages.attachments import Attachment
    from onceward.messages.channel import Channel, Letter
    from onceward.messages.composer import SendingOptions
    from onceward.messages.delivery import DeliveryReport, DeliveryState, HookState, report_delivery
    from onceward.messages.endings import MessageEnd
    from onceward.messages.errors import MissingVariable, NotConfigured, UnknownTemplate
    from onceward.messages.hours import Quiet, Window
    from onceward.messages.kind import Message, MessageKind
    from onceward.messages.limits import Limit
    from onceward.messages.message_queue import Queued, Sending, cancel, cancel_many, deadline, queue
    from onceward.messages.notices import Audience, notify_admins
    from onceward.messages.notifications import InvalidNotification, Notification, Notified, SlackChannels, notify
    from onceward.messages.notifier import Audiences, Notifier
    from onceward.messages.phones import BadNumber, read_number, spellings, variants
    from onceward.messages.preference_page import preference_link, revoke_preference_links
    from onceward.messages.preferences import (
        consents,
        heard_from,
        opt_in,
        opt_out,
        preferred_channel,
        save_recipient,
        unsubscribe_by_token,
    )
    from onceward.messages.public_forms import MAILS, TooManyMails, limit_public_mail, plain_name
    from onceward.messages.recipient import CHANNELS, ChannelName, Recipient
    from onceward.messages.rendering import Rendered, render
    from onceward.messages.replies import Reply, read_reply
    from onceward.messages.sender import Sender
    from onceward.messages.senders import NumberSender, SenderKind, list_senders, organization_of_sender
    from onceward.messages.settings import MessagesSettings
    from onceward.messages.templates import BadTemplate, Template, Templates

__all__ = [
    "MAILS",
    "BadNumber",
    "ChannelName",
    "DeliveryReport",
    "Letter",
    "MessagesSettings",
    "Queued",
    "Recipient",
    "Reply",
    "Sender",
    "SenderKind",
    "Sending",
    "TooManyMails",
    "consents",
    "heard_from",
    "limit_public_mail",
    "list_senders",
    "opt_in",
    "opt_out",
    "organization_of_sender",
    "plain_name",
    "preference_link",
    "read_number",
    "read_reply",
    "render",
    "revoke_preference_links",
    "save_recipient",
    "spellings",
    "variants",
]

__getattr__ = lazy(__name__, __file__)

"""Notifications: one text sent over several channels, whose results are counted together.

Each channel and recipient gets a message of its own, so that all are sent in parallel and survive crashes. When the
last message has finished, the SQL function `onceward.finish_notification` retries the failed ones after five minutes,
only once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.errors import OncewardError
from onceward.messages.message_queue import Sending, queue
from onceward.messages.recipient import CHANNELS, ChannelName, Recipient
from onceward.messages.templates import Templates
from onceward.services import Services
from onceward.statements import read_statement
from onceward.trust import severity as severity_named
from onceward.work import Waker

CREATE = read_statement("messages", "create_notification")
EXISTING = read_statement("messages", "find_notification")
SHOW = read_statement("messages", "show_notification")


class InvalidNotification(OncewardError, ValueError):
    """The error text names the field and the expected value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """A text, its recipients and its channels. `recipients` are addresses or refs; Slack uses the channel of the
    type."""

    type: str
    recipients: Sequence[str | Recipient] = field(repr=False)
    channels: Sequence[ChannelName]
    title: str = field(default="", repr=False)
    body: str = field(default="", repr=False)
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    severity: str = "info"
    template: str | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        if not self.type or not self.channels:
            raise InvalidNotification("type and channels are required and must not be empty")
        if not self.recipients and set(self.channels) != {"slack"}:
            raise InvalidNotification("recipients is empty: give addresses or refs")
        unknown = [each for each in self.channels if each not in CHANNELS]
        if unknown:
            raise InvalidNotification(f"channels: unknown {', '.join(unknown)}; use {', '.join(CHANNELS)}")
        if len(set(self.channels)) != len(self.channels):
            raise InvalidNotification(f"channels: {', '.join(self.channels)} contains a channel twice")
        if not self.template and not self.title:
            raise InvalidNotification("message.title is required if template is not given")
        severity_named(self.severity)


@dataclass(frozen=True, slots=True)
class Notified:
    """The id of the notification. `duplicate` is true if a notification with the same key existed already."""

    id: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class SlackChannels:
    """The Slack channel for each type of notification, in the workspace of the installation or of one organization."""

    by_type: Mapping[str, str] = field(default_factory=dict[str, str])
    default: str | None = None
    hint: str = "set ONCEWARD_SLACK_CHANNEL"

    def of(self, type: str) -> str | None:
        return self.by_type.get(type, self.default)


async def slack_of(services: Services, organization: UUID) -> SlackChannels:
    """Return the Slack channel of an organization: in its own workspace, never in that of the installation."""
    hint = f"the organization {organization} has no Slack of its own: set its secrets slack.bot_token and slack.channel"
    if not await services.has_own_account("slack", organization):
        return SlackChannels(hint=hint)
    return SlackChannels(default=(await services.slack(organization)).channel, hint=hint)


async def notify(
    tx: Transaction,
    templates: Templates,
    what: Notification,
    *,
    slack: SlackChannels,
    waker: Waker | None = None,
) -> Notified:
    """Write the notification and all its messages in the caller's transaction."""
    recipients_of: dict[ChannelName, list[str | Recipient]] = {
        each: _recipients(what, each, slack) for each in what.channels
    }
    count = sum(len(each) for each in recipients_of.values())
    if count == 0:
        raise InvalidNotification(f"no Slack channel is configured for type {what.type!r}: {slack.hint}")
    id: int | None = await tx.fetchval(
        CREATE,
        tx.organization,
        what.type,
        severity_named(what.severity),
        list(what.channels),
        len(what.recipients),
        count,
        what.key,
        None if tx.cause is None else tx.cause.id,
    )
    if id is None:
        return Notified(await tx.fetchval(EXISTING, tx.organization, what.key), duplicate=True)
    template = templates.get(what.template or "notification")
    data = {
        "title": what.title,
        "body": what.body,
        "metadata": dict(what.metadata),
        "type": what.type,
        "severity": severity_named(what.severity),
        **(what.metadata if what.template else {}),
    }
    for channel, recipients in recipients_of.items():
        sendings = [
            Sending(to=to, key=f"notification:{id}:{channel}:{n}", data=data) for n, to in enumerate(recipients)
        ]
        await queue(tx, template, sendings, channel=channel, notification=id, waker=waker)
    return Notified(id)


def _recipients(what: Notification, channel: ChannelName, slack: SlackChannels) -> list[str | Recipient]:
    if channel != "slack":
        return list(what.recipients)
    slack_channel = slack.of(what.type)
    return [] if slack_channel is None else [Recipient(slack=slack_channel)]


async def show(db: Database | Connection | Transaction, id: int) -> dict[str, Any] | None:
    """Return the counts of a notification and the state of each message; None if it does not exist.

    `success` is null until all messages have finished.
    """
    row = await db.fetchrow(SHOW, id)
    if row is None:
        return None
    notification = dict(row)
    notification["success"] = None if notification["finished_at"] is None else notification["failed"] == 0
    return notification

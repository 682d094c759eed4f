"""One thing said over several channels: validated, fanned out, its results counted together.

Each channel and recipient is a message of its own, so all go out side by side and survive crashes. When the last one
is over, those that failed are tried once more after five minutes (onceward.finish_notification).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onceward.db import Connection, Database, Transaction
from onceward.messages.queueing import Sending, queue
from onceward.messages.recipient import CHANNELS, ChannelName, Recipient
from onceward.messages.templates import Templates
from onceward.trust import severity as severity_named
from onceward.work import Waker

CREATE = """
insert into onceward.notifications (id, organization_id, type, severity, channels, recipients, remaining, key, caused_by)
values (nextval('onceward.ids'), $1, $2, $3, $4, $5, $6, $7, $8)
on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) where key is not null do nothing
returning id
"""

EXISTING = """
select id from onceward.notifications
 where coalesce(organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000') and key = $2
"""

SHOW = """
select n.id, n.organization_id, n.type, n.severity, n.channels, n.recipients, n.round, n.sent, n.failed, n.remaining, n.created_at, n.finished_at,
       (select jsonb_agg(jsonb_build_object('id', m.id, 'channel', m.channel, 'status', o.shown, 'reason', m.reason,
                                            'attempts', m.attempts) order by m.id)
          from onceward.messages m join onceward.message_outcomes o on o.id = m.id
         where m.notification = n.id) as details
  from onceward.notifications n where n.id = $1
"""


class InvalidNotification(ValueError):
    """The message names the field and what it must be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """What is said, to whom and how. `recipients` are addresses or refs; Slack goes to the channel of the type."""

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
            raise InvalidNotification("recipients is required: addresses or ids of users")
        unknown = [each for each in self.channels if each not in CHANNELS]
        if unknown:
            raise InvalidNotification(f"channels: {', '.join(unknown)} is none of {', '.join(CHANNELS)}")
        if len(set(self.channels)) != len(self.channels):
            raise InvalidNotification(f"channels: {', '.join(self.channels)} names one twice")
        if not self.template and not self.title:
            raise InvalidNotification("message.title is required where no template is named")
        severity_named(self.severity)


@dataclass(frozen=True, slots=True)
class Notified:
    """The notification that now exists. `duplicate`: it existed already, under the same key."""

    id: int
    duplicate: bool = False


@dataclass(frozen=True, slots=True)
class SlackChannels:
    """Which Slack channel a type of notification goes to."""

    by_type: Mapping[str, str] = field(default_factory=dict[str, str])
    default: str | None = None

    def of(self, type: str) -> str | None:
        return self.by_type.get(type, self.default)


async def notify(
    tx: Transaction,
    templates: Templates,
    what: Notification,
    *,
    slack: SlackChannels,
    waker: Waker | None = None,
) -> Notified:
    """Write the notification and all its messages in this transaction."""
    people: dict[ChannelName, list[str | Recipient]] = {each: _recipients(what, each, slack) for each in what.channels}
    count = sum(len(each) for each in people.values())
    if count == 0:
        raise InvalidNotification("no Slack channel is set for this type: ONCEWARD_SLACK_CHANNEL")
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
    for channel, recipients in people.items():
        sendings = [
            Sending(to=to, key=f"notification:{id}:{channel}:{n}", data=data) for n, to in enumerate(recipients)
        ]
        await queue(tx, template, sendings, channel=channel, notification=id, waker=waker)
    return Notified(id)


def _recipients(what: Notification, channel: ChannelName, slack: SlackChannels) -> list[str | Recipient]:
    if channel != "slack":
        return list(what.recipients)
    place = slack.of(what.type)
    return [] if place is None else [Recipient(slack=place)]


async def show(db: Database | Connection | Transaction, id: int) -> dict[str, Any] | None:
    """What came of it: `success` once all was sent, counts, and the state of every message."""
    row = await db.fetchrow(SHOW, id)
    if row is None:
        return None
    found = dict(row)
    found["success"] = None if found["finished_at"] is None else found["failed"] == 0
    return found

"""Send one message: check the hours, render the text, wait for a connection and a slot, record the start, send, evaluate the answer.

The sender records the start of a send when it holds the connection, immediately before it calls the service. If the send is
interrupted, the next worker knows that the message may have been sent; a message that still waited was certainly not sent. It repeats the send with the same key if the service recognises keys, looks the message up
if the service can be queried, and otherwise marks it as `unknown` for the operator. It never sends blindly a second time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never
from uuid import UUID

import structlog

from onceward.db import Database
from onceward.messages import metrics
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.attachments import LoadedAttachment, load_attachments
from onceward.messages.beginning import Beginnings, BeginningSend
from onceward.messages.channel import Channel, Letter
from onceward.messages.endings import message_end_hook
from onceward.messages.errors import (
    Declined,
    LookLater,
    MessageParked,
    MessageRejected,
    NotConfigured,
    NotYet,
    UnknownTemplate,
)
from onceward.messages.hours import Quiet, next_allowed, zone_or_default
from onceward.messages.kind import Message, MessageKind
from onceward.messages.limits import MOST_MISSED, Limit, Limits
from onceward.messages.parking import Parking, queue_of
from onceward.messages.policies import POLICIES, QUICK
from onceward.messages.queueing import task_of
from onceward.messages.recipient import CHANNELS
from onceward.messages.rendering import render
from onceward.messages.suppression import suppress_recipient_of
from onceward.messages.templates import Template, Templates, from_content
from onceward.services import Files
from onceward.services.outcome import Absent, Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward.work import AppRegistry, Claimed, Indeterminate, Retry, Superseded, Task
from onceward.work.gate import gate

log = structlog.get_logger(__name__)

UNBEGIN = "update onceward.messages set sending = null, status = 'pending' where id = $1 and sending = $2"

FORGET_PUSH = "update onceward.recipients set push = null where organization_id is not distinct from $1 and ref = $2"
"""The browser has ended the subscription; the service would refuse every later push."""

NO_ORGANIZATION = UUID(int=0)
OWN_PAUSE_S = 30.0
"""How long a message waits if the account of its organization is over a limit, and the service does not say until when."""
LOOK_AFTER_S = 30.0
"""A service may need some seconds before a lookup finds a message that it accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendingOptions:
    """Defaults for all messages of an installation."""

    default_locale: str = "en"
    default_timezone: str = "UTC"
    quiet: Quiet | None = None
    brand: str = "Onceward"
    public_url: str | None = None
    look_after_s: float = LOOK_AFTER_S


class Sender:
    """Sends over the configured channels. `install` registers its tasks for the worker."""

    def __init__(
        self,
        db: Database,
        channels: Sequence[Channel],
        templates: Templates,
        *,
        limits: Mapping[str, Sequence[Limit]] | None = None,
        options: SendingOptions | None = None,
        files: Files | None = None,
        own_channels: OrganizationChannels | None = None,
    ) -> None:
        self._db = db
        self._files = files or Files.in_memory()
        self._channels: dict[str, Channel] = {channel.name: channel for channel in channels}
        self._own_channels = own_channels
        self._templates = templates
        self._limits = Limits(db, limits or {})
        self._options = options or SendingOptions()
        self._beginnings = Beginnings(db)
        self._parking = {name: Parking(db, name) for name in CHANNELS}
        self._versions: dict[tuple[UUID | None, str, str], Template] = {}

    def install(self, registry: AppRegistry) -> None:
        """Register a task and a queue per channel, so that a slow channel does not delay the others."""
        registry.add_kind(MessageKind())
        for name in CHANNELS:
            # Assigned, not added: a second runtime on the same app replaces the tasks, to send through its own channels.
            registry.tasks[task_of(name)] = Task(
                name=task_of(name),
                run=self.run,
                kind="message",
                queue=queue_of(name),
                retry=QUICK,
                timeout_s=None,  # a slot may be far away; the clients of the services have timeouts of their own
                outside=True,
            )
            if (ended := message_end_hook(registry.message_hooks)) is not None:
                registry.set_end_hook(task_of(name), ended)

    async def aclose(self) -> None:
        for channel in self._channels.values():
            await channel.aclose()

    async def run(self, work: Claimed, _tx: Any) -> dict[str, Any]:
        """Make one attempt. Return the service's reference of the message, or why the message was suppressed."""
        message: Message = work.body
        own = None
        if self._own_channels is not None:
            own = await self._own_channels.find(message.channel, message.organization_id)
        channel = own or self._channels.get(message.channel)
        if channel is None:
            raise NotConfigured(f"channel {message.channel} is not configured: see `onceward settings`")
        if message.address is None:
            return {"suppressed": "no_address"}
        template = await self._template(message)
        self._check_hours(message, template)
        attachments = await load_attachments(self._files, message.attachments) if message.attachments else ()
        letter = self._letter(message, template, message.address, attachments)
        async with self._parking[message.channel].turn(), channel.turn() as failure:
            # An earlier send that got no answer is examined first, whether or not the service can be reached.
            if failure is not None and message.sending_since is None:
                outcome = failure
            else:
                result = await self._begin(work, message, channel, letter)
                if result is not None:
                    return result
                gate("before-send")
                outcome = await channel.send(letter)
                gate("after-send")
            metrics.SENT.labels(message.channel, outcome.label).inc()
            if own is not None and isinstance(outcome, Throttled):
                # Only this organization's account is over its limit; the others go on.
                pause_s = OWN_PAUSE_S if outcome.retry_after_s is None else max(outcome.retry_after_s, 1.0)
                raise MessageParked(pause_s, "the organization's account is over its limit")
            return await self._evaluate(work, message, channel, outcome)

    # -- before ---------------------------------------------------------------------------------------------------------

    async def _template(self, message: Message) -> Template:
        """Return the template version that the message was queued with, from memory or from the database."""
        # A version from the files of this process is the same for all; other versions belong to one organization.
        from_files = (None, message.template, message.version)
        from_database = (message.organization_id or NO_ORGANIZATION, message.template, message.version)
        for key in (from_files, from_database):
            if key in self._versions:
                return self._versions[key]
        try:
            current = self._templates.get(message.template)
        except UnknownTemplate:
            current = None
        if current is not None and current.version == message.version:
            self._versions[from_files] = current
            return current
        content = await self._db.fetchval(
            "select content from onceward.templates where name = $2 and version = $3"
            " and coalesce(organization_id, '00000000-0000-0000-0000-000000000000') = $1",
            *from_database,
        )
        if content is None:
            raise UnknownTemplate(f"template {message.template!r} has no version {message.version} in the database")
        self._versions[from_database] = from_content(message.template, content)
        return self._versions[from_database]

    def _check_hours(self, message: Message, template: Template) -> None:
        options = self._options
        quiet = options.quiet
        if message.quiet_from is not None and message.quiet_to is not None:
            quiet = Quiet(message.quiet_from, message.quiet_to)
        if not template.respects_quiet:
            quiet = None
        window = template.window
        if quiet is None and window is None:
            return
        zone = zone_or_default(message.timezone, options.default_timezone)
        allowed = next_allowed(message.now, zone, quiet=quiet, window=window)
        if allowed is not None:
            raise NotYet((allowed - message.now).total_seconds(), f"quiet until {allowed.isoformat()}")

    def _letter(
        self, message: Message, template: Template, to: str, attachments: tuple[LoadedAttachment, ...] = ()
    ) -> Letter:
        options = self._options
        data = message.data or {}
        unsubscribe_url = None
        if message.token is not None and options.public_url is not None:
            unsubscribe_url = f"{options.public_url}/unsubscribe/{message.token}"
        rendered = render(
            template,
            data,
            locale=message.locale,
            default_locale=options.default_locale,
            zone=zone_or_default(message.timezone, options.default_timezone),
            channel=message.channel,
            brand=options.brand,
            unsubscribe_url=unsubscribe_url,
        )
        return Letter(
            id=message.id,
            key=f"message:{message.id}:send",
            to=to,
            rendered=rendered,
            template=template,
            data=data,
            organization=message.organization_id,
            recipient=message.recipient,
            unsubscribe_url=unsubscribe_url,
            heard_at=message.heard_at,
            destination=message.destination,
            sending_since=message.sending_since,
            attachments=attachments,
        )

    async def _begin(self, work: Claimed, message: Message, channel: Channel, letter: Letter) -> dict[str, Any] | None:
        """Wait for a slot and record that the send begins. Return a result if there is nothing left to send."""
        again = False
        for _ in range(MOST_MISSED):
            slot = await self._limits.wait(message.channel, channel.sender, letter.to)
            blind = not channel.readable and not channel.repeatable_for_s
            verdict = await self._beginnings.begin(BeginningSend(work.id, work.lease, blind, again))
            match verdict:
                case "go" if slot is None or not slot.late:
                    if again and _key_forgotten(message, channel):
                        # The service may have forgotten the key during the wait for the slot.
                        await self._db.execute(UNBEGIN, work.id, work.lease)
                        raise Indeterminate(f"a send over {message.channel} began, and the service never answered")
                    return None
                case "go":
                    # The slot has passed: reserve another. Until then this attempt has not begun.
                    await self._db.execute(UNBEGIN, work.id, work.lease)
                case "unsure":
                    result = await self._look_up(message, channel, letter)
                    if result is not None:
                        return result
                    again = True
                case "superseded":
                    raise Superseded
                case suppressed:
                    return {"suppressed": suppressed}
        raise NotYet(1.0, f"this machine is too slow for the limit of channel {message.channel}")

    async def _look_up(self, message: Message, channel: Channel, letter: Letter) -> dict[str, Any] | None:
        """Find out the outcome of an earlier send without an answer. Return None if it is safe to send again."""
        if channel.repeatable_for_s and not _key_forgotten(message, channel):
            return None
        if not channel.readable:
            raise Indeterminate(f"a send over {message.channel} began, and the service never answered")
        match await channel.look_up(letter):
            case Accepted(reference):
                return {"reference": reference, "channel": message.channel, "found": True}
            case Absent():
                return None
            case Throttled(retry_after_s):
                raise LookLater(retry_after_s or self._options.look_after_s)
            case Unreachable(reason):
                raise LookLater(self._options.look_after_s, reason)
            case Refused(reason) | Unknown(reason):
                raise Indeterminate(f"the message may have been sent, and the lookup failed: {reason}")

    # -- after -----------------------------------------------------------------------------------------------------------

    async def _evaluate(
        self, work: Claimed, message: Message, channel: Channel, outcome: ServiceAnswer
    ) -> dict[str, Any]:
        parking = self._parking[message.channel]
        policy = POLICIES.get(message.policy, QUICK)
        match outcome:
            case Accepted(reference, detail):
                await parking.works()
                result: dict[str, Any] = {"reference": reference, "channel": message.channel}
                if "destination" in detail:
                    result["destination"] = detail["destination"]
                return result
            case Refused(reason, permanent, retry_after_s, detail):
                await parking.works()
                if status := detail.get("undeliverable"):
                    async with self._db.transaction(role="engine") as tx:
                        await suppress_recipient_of(tx, message.id, reason="bounce", source="relay", status=status)
                if detail.get("gone"):
                    await self._db.execute(FORGET_PUSH, message.organization_id, message.recipient)
                if permanent:
                    raise MessageRejected(reason)
                raise Declined(reason, after=max(policy.wait_s(work.attempts + 1), retry_after_s or 0.0))
            case Throttled(retry_after_s):
                wait_s = await parking.park("the service asked for a pause", for_s=retry_after_s)
                raise MessageParked(wait_s)
            case Unreachable(reason):
                raise MessageParked(await parking.park(reason), reason)
            case Unknown(reason):
                if channel.repeatable_for_s:
                    raise Retry(reason, after=policy.wait_s(work.attempts + 1))
                if channel.readable:
                    raise LookLater(self._options.look_after_s, reason)
                raise Indeterminate(reason)
            case _:
                assert_never(outcome)


def _key_forgotten(message: Message, channel: Channel) -> bool:
    """Return whether the service may have forgotten the key of the first send without an answer.

    The clock of this process is not used. A negative age means that the database's clock has moved back: nobody knows the age.
    """
    if not channel.repeatable_for_s or message.sending_for_s is None:
        return False
    age_s = message.sending_for_s + (time.monotonic() - message.loaded_at)
    return not 0 <= age_s < channel.repeatable_for_s

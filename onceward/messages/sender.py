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
from zoneinfo import ZoneInfo

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
)
from onceward.messages.hours import Quiet, next_allowed, zone_or_default
from onceward.messages.kind import Message, MessageKind
from onceward.messages.limits import MOST_MISSED, Limit, Limits
from onceward.messages.lines import Line, queue_of
from onceward.messages.parking import Parkings
from onceward.messages.phones import zone_of
from onceward.messages.policies import POLICIES, QUICK
from onceward.messages.preferences import record_service_opt_out
from onceward.messages.queueing import task_of
from onceward.messages.recipient import CHANNELS
from onceward.messages.rendering import render
from onceward.messages.suppression import suppress_recipient_of
from onceward.messages.template_versions import TemplateVersions
from onceward.messages.templates import Template, Templates
from onceward.messages.troubles import Troubles, troubles_of
from onceward.services import Files
from onceward.services.outcome import Absent, Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward.work import AppRegistry, Claimed, Indeterminate, Retry, Superseded, Task
from onceward.work.gate import gate

log = structlog.get_logger(__name__)

UNBEGIN = "update onceward.messages set sending = null, status = 'pending' where id = $1 and sending = $2"

FORGET_PUSH = "update onceward.recipients set push = null where organization_id is not distinct from $1 and ref = $2"
"""The browser has ended the subscription; the service would refuse every later push."""

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
        troubles: Troubles | None = None,
    ) -> None:
        self._db = db
        self._files = files or Files.in_memory()
        self._channels: dict[str, Channel] = {channel.name: channel for channel in channels}
        self._own_channels = own_channels
        self._limits = Limits(db, limits or {})
        self._options = options or SendingOptions()
        self._beginnings = Beginnings(db)
        self._parkings = Parkings(db)
        self._troubles = troubles or Troubles(db)
        self._versions = TemplateVersions(db, templates)

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
        if message.is_expired:
            return self._expired(message)
        template = await self._versions.of(message)
        line, channel = await self._channel(message, template)
        if message.address is None:
            return {"suppressed": "no_address"}
        self._check_hours(message, template)
        troubles = troubles_of(message.troubles, line)
        await self._troubles.wait_for_probe(troubles)
        attachments = await load_attachments(self._files, message.attachments) if message.attachments else ()
        letter = self._letter(message, template, message.address, attachments)
        async with self._parkings.of(line).turn() as began, channel.turn() as failure:
            # An earlier send that got no answer is examined first, whether or not the service can be reached.
            if failure is not None and message.sending_since is None:
                outcome = failure
            else:
                result = await self._begin(work, message, channel, letter, line)
                if result is not None:
                    return result
                gate("before-send")
                outcome = await channel.send(letter)
                gate("after-send")
            metrics.SENT.labels(message.channel, outcome.label).inc()
            if (
                troubles
                and isinstance(outcome, Accepted | Refused)
                and not (isinstance(outcome, Refused) and outcome.account)
            ):
                await self._troubles.resolve(troubles)
            return await self._evaluate(work, message, channel, outcome, line, began)

    async def _channel(self, message: Message, template: Template) -> tuple[Line, Channel]:
        """Return the account that sends the message: that of its organization, or the installation's."""
        own = None
        if self._own_channels is not None and message.channel not in template.installation_account:
            try:
                own = await self._own_channels.find(message.channel, message.organization_id)
            except NotConfigured as error:
                # A secret of the organization is missing: its messages wait for the secret, as for a valid one.
                missing = Refused(str(error), permanent=False, account=True, advice=str(error))
                raise await self._troubles.report(
                    Line(message.channel, message.organization_id), None, missing
                ) from None
        channel = own or self._channels.get(message.channel)
        if channel is None:
            raise NotConfigured(f"channel {message.channel} is not configured: see `onceward settings`")
        return Line(message.channel, None if own is None else message.organization_id), channel

    def _expired(self, message: Message) -> dict[str, Any]:
        metrics.EXPIRED.labels(message.channel).inc()
        return {"suppressed": "expired"}

    # -- before ---------------------------------------------------------------------------------------------------------

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
        zone = self._zone(message)
        allowed = next_allowed(message.now, zone, quiet=quiet, window=window)
        if allowed is not None:
            raise NotYet((allowed - message.now).total_seconds(), f"quiet until {allowed.isoformat()}")

    def _zone(self, message: Message) -> ZoneInfo:
        """Return the recipient's time zone: the known one, or that of the phone number, or the default."""
        known = message.timezone
        if known is None and message.address is not None and message.channel in ("sms", "whatsapp"):
            known = zone_of(message.address)
        return zone_or_default(known, self._options.default_timezone)

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
            zone=self._zone(message),
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
            expires_at=message.expires_at,
            attachments=attachments,
        )

    async def _begin(
        self, work: Claimed, message: Message, channel: Channel, letter: Letter, line: Line
    ) -> dict[str, Any] | None:
        """Wait for a slot and record that the send begins. Return a result if there is nothing left to send."""
        again = False
        for _ in range(MOST_MISSED):
            slot = await self._limits.wait(message.channel, channel.sender, letter.to, bulk=message.bulk)
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
                    result = await self._look_up(message, channel, letter, line)
                    if result is not None:
                        return result
                    again = True
                case "superseded":
                    raise Superseded
                case "expired":
                    return self._expired(message)
                case suppressed:
                    return {"suppressed": suppressed}
        raise NotYet(1.0, f"this machine is too slow for the limit of channel {message.channel}")

    async def _look_up(self, message: Message, channel: Channel, letter: Letter, line: Line) -> dict[str, Any] | None:
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
            case Refused(account=True) as refused:
                parked = await self._troubles.report(line, message.template, refused)
                raise LookLater(parked.after_s, refused.reason)
            case Refused(reason) | Unknown(reason):
                raise Indeterminate(f"the message may have been sent, and the lookup failed: {reason}")

    # -- after -----------------------------------------------------------------------------------------------------------

    async def _evaluate(
        self, work: Claimed, message: Message, channel: Channel, outcome: ServiceAnswer, line: Line, began: float
    ) -> dict[str, Any]:
        parking = self._parkings.of(line)
        policy = POLICIES.get(message.policy, QUICK)
        match outcome:
            case Accepted(reference, detail):
                await parking.works(began=began, is_trial=message.is_trial and line.owner is not None)
                result: dict[str, Any] = {"reference": reference, "channel": message.channel}
                if "destination" in detail:
                    result["destination"] = detail["destination"]
                return result
            case Refused(account=True):
                raise await self._troubles.report(line, message.template, outcome)
            case Refused(reason, permanent, retry_after_s, detail):
                await parking.works(began=began, is_trial=message.is_trial and line.owner is not None)
                if detail.get("opted_out"):
                    await record_service_opt_out(self._db, message.organization_id, message.recipient, message.channel)
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

"""Send one message: look whether it may go, make its text, wait for its slot, begin, send, judge the answer.

Before the call it is written down that a send has begun. Whatever interrupts it then, the next worker knows that it may
have been sent: it repeats under the same key where the service knows keys, looks it up where the service can be read,
and otherwise leaves it as `unknown` to the operator. Never blindly twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, assert_never
from uuid import UUID

import structlog

from onceward.db import Database
from onceward.messages import metrics
from onceward.messages.channel import Channel, Letter
from onceward.messages.errors import Declined, LookLater, NotConfigured, NotYet, Parked, Rejected, UnknownTemplate
from onceward.messages.hours import Quiet, next_allowed, zone_or_default
from onceward.messages.kind import Message, MessageKind
from onceward.messages.limits import MOST_MISSED, Limit, Limits
from onceward.messages.parking import Parking, queue_of
from onceward.messages.policies import POLICIES, QUICK
from onceward.messages.queueing import task_of
from onceward.messages.recipient import CHANNELS
from onceward.messages.rendering import render
from onceward.messages.templates import Template, Templates, from_content
from onceward.providers.outbound import Absent, Accepted, Outcome, Refused, Throttled, Unknown, Unreachable
from onceward.work import Claimed, Indeterminate, Registry, Retry, Superseded, Task
from onceward.work.gate import gate

log = structlog.get_logger(__name__)

UNBEGIN = "update onceward.messages set sending = null, status = 'pending' where id = $1 and sending = $2"

FORGET_PUSH = "update onceward.recipients set push = null where organization_id is not distinct from $1 and ref = $2"
"""The browser has gone; asking it again would only be refused."""

NO_ORGANIZATION = UUID(int=0)
LOOK_AFTER_S = 30.0
"""A service may need a moment until a message that it took can be found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """What holds for all messages of an installation."""

    default_locale: str = "en"
    default_timezone: str = "UTC"
    quiet: Quiet | None = None
    brand: str = "Onceward"
    public_url: str | None = None
    look_after_s: float = LOOK_AFTER_S


class Sender:
    """Sends over the channels that are configured; `install` makes its tasks known to a worker."""

    def __init__(
        self,
        db: Database,
        channels: Sequence[Channel],
        templates: Templates,
        *,
        limits: Mapping[str, Sequence[Limit]] | None = None,
        manners: Manners | None = None,
    ) -> None:
        self._db = db
        self._channels: dict[str, Channel] = {channel.name: channel for channel in channels}
        self._templates = templates
        self._limits = Limits(db, limits or {})
        self._manners = manners or Manners()
        self._parking = {name: Parking(db, name) for name in CHANNELS}
        self._versions: dict[tuple[UUID | None, str, str], Template] = {}

    def install(self, registry: Registry) -> None:
        """A kind, and a task and queue per channel: one slow channel does not hold up the others."""
        registry.add_kind(MessageKind())
        for name in CHANNELS:
            # Put, not added: a second runtime on the same app sends through its own channels.
            registry.tasks[task_of(name)] = Task(
                name=task_of(name),
                run=self.run,
                kind="message",
                queue=queue_of(name),
                retry=QUICK,
                timeout_s=None,  # it may wait long for its slot; the services' clients have time limits of their own
                outside=True,
            )

    async def aclose(self) -> None:
        for channel in self._channels.values():
            await channel.aclose()

    async def run(self, work: Claimed, _tx: Any) -> dict[str, Any]:
        """One attempt. The result says what the service calls it, or why it was suppressed."""
        message: Message = work.body
        channel = self._channels.get(message.channel)
        if channel is None:
            raise NotConfigured(f"channel {message.channel} is not configured: see `onceward settings`")
        if message.address is None:
            return {"suppressed": "no_address"}
        template = await self._template(message)
        self._mind_the_hours(message, template)
        letter = self._letter(message, template, message.address)
        async with self._parking[message.channel].turn():
            found = await self._begin(work, message, channel, letter)
            if found is not None:
                return found
            gate("before-send")
            outcome = await channel.send(letter)
            gate("after-send")
            metrics.SENT.labels(message.channel, type(outcome).__name__.lower()).inc()
            return await self._judge(work, message, channel, outcome)

    # -- before ---------------------------------------------------------------------------------------------------------

    async def _template(self, message: Message) -> Template:
        """The version it was queued with, from memory or from the database."""
        # What this process has in its files is the same for all; other versions are the organization's own.
        key = (None, message.template, message.version)
        kept = (message.organization_id or NO_ORGANIZATION, message.template, message.version)
        for known in (key, kept):
            if known in self._versions:
                return self._versions[known]
        try:
            current = self._templates.get(message.template)
        except UnknownTemplate:
            current = None
        if current is not None and current.version == message.version:
            self._versions[key] = current
            return current
        content = await self._db.fetchval(
            "select content from onceward.templates where name = $2 and version = $3"
            " and coalesce(organization_id, '00000000-0000-0000-0000-000000000000') = $1",
            *kept,
        )
        if content is None:
            raise UnknownTemplate(f"template {message.template!r} has no version {message.version} in the database")
        self._versions[kept] = from_content(message.template, content)
        return self._versions[kept]

    def _mind_the_hours(self, message: Message, template: Template) -> None:
        manners = self._manners
        quiet = manners.quiet
        if message.quiet_from is not None and message.quiet_to is not None:
            quiet = Quiet(message.quiet_from, message.quiet_to)
        if not template.respects_quiet:
            quiet = None
        window = template.window
        if quiet is None and window is None:
            return
        zone = zone_or_default(message.timezone, manners.default_timezone)
        allowed = next_allowed(message.now, zone, quiet=quiet, window=window)
        if allowed is not None:
            raise NotYet((allowed - message.now).total_seconds(), f"quiet until {allowed.isoformat()}")

    def _letter(self, message: Message, template: Template, to: str) -> Letter:
        manners = self._manners
        data = message.data or {}
        leave = None
        if message.token is not None and manners.public_url is not None:
            leave = f"{manners.public_url}/unsubscribe/{message.token}"
        rendered = render(
            template,
            data,
            locale=message.locale,
            default_locale=manners.default_locale,
            zone=zone_or_default(message.timezone, manners.default_timezone),
            channel=message.channel,
            brand=manners.brand,
            unsubscribe_url=leave,
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
            unsubscribe_url=leave,
            heard_at=message.heard_at,
            destination=message.destination,
            sending_since=message.sending_since,
        )

    async def _begin(self, work: Claimed, message: Message, channel: Channel, letter: Letter) -> dict[str, Any] | None:
        """Wait for the slot and write down that the send begins. A result instead: there is nothing (more) to send."""
        again = False
        for _ in range(MOST_MISSED):
            slot = await self._limits.wait(message.channel, channel.sender, letter.to)
            blind = not channel.readable and not channel.repeatable_for_s
            verdict: str = await self._db.fetchval(
                "select onceward.begin_send($1, $2, $3, $4)", work.id, work.lease, blind, again
            )
            match verdict:
                case "go" if slot is None or not slot.late:
                    if again and _key_forgotten(message, channel):
                        # Waiting for the slot took too long.
                        await self._db.execute(UNBEGIN, work.id, work.lease)
                        raise Indeterminate(f"a send over {message.channel} began and was never answered")
                    return None
                case "go":
                    # The moment has passed: reserve another. Nothing of this attempt is under way meanwhile.
                    await self._db.execute(UNBEGIN, work.id, work.lease)
                case "unsure":
                    found = await self._look_up(message, channel, letter)
                    if found is not None:
                        return found
                    again = True
                case "superseded":
                    raise Superseded
                case suppressed:
                    return {"suppressed": suppressed}
        raise NotYet(1.0, f"this machine is too slow for the limit of channel {message.channel}")

    async def _look_up(self, message: Message, channel: Channel, letter: Letter) -> dict[str, Any] | None:
        """An earlier send was not answered. None: it is safe to send again."""
        if channel.repeatable_for_s and not _key_forgotten(message, channel):
            return None
        if not channel.readable:
            raise Indeterminate(f"a send over {message.channel} began and was never answered")
        match await channel.look_up(letter):
            case Accepted(reference):
                return {"reference": reference, "channel": message.channel, "found": True}
            case Absent():
                return None
            case Throttled(retry_after_s):
                raise LookLater(retry_after_s or self._manners.look_after_s)
            case Unreachable(reason):
                raise LookLater(self._manners.look_after_s, reason)
            case Refused(reason) | Unknown(reason):
                raise Indeterminate(f"it may have been sent, and looking it up failed: {reason}")

    # -- after -----------------------------------------------------------------------------------------------------------

    async def _judge(self, work: Claimed, message: Message, channel: Channel, outcome: Outcome) -> dict[str, Any]:
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
                if detail.get("gone"):
                    await self._db.execute(FORGET_PUSH, message.organization_id, message.recipient)
                if permanent:
                    raise Rejected(reason)
                raise Declined(reason, after=max(policy.wait_s(work.attempts + 1), retry_after_s or 0.0))
            case Throttled(retry_after_s):
                wait_s = await parking.park("the service asks for a pause", for_s=retry_after_s)
                raise Parked(wait_s)
            case Unreachable(reason):
                raise Parked(await parking.park(reason), reason)
            case Unknown(reason):
                if channel.repeatable_for_s:
                    raise Retry(reason, after=policy.wait_s(work.attempts + 1))
                if channel.readable:
                    raise LookLater(self._manners.look_after_s, reason)
                raise Indeterminate(reason)
            case _:
                assert_never(outcome)


def _key_forgotten(message: Message, channel: Channel) -> bool:
    """Whether the first send that was not answered is so long ago that the service may not know its key any more."""
    if not channel.repeatable_for_s or message.sending_since is None:
        return False
    return (datetime.now(UTC) - message.sending_since).total_seconds() >= channel.repeatable_for_s

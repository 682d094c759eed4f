"""Send one message: check the hours, render, wait for a connection and a slot, record the start, send, evaluate.

The sender records the start of a send when it holds the connection, immediately before it calls the service. If it is
interrupted, the next worker knows that the message may have been sent; a message that still waited was certainly not
sent. It repeats the send with the same key if the service recognises keys, looks the message up if the service can be
queried, and otherwise marks it as `unknown` for the operator. It never sends blindly a second time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from onceward.db import Database
from onceward.messages import metrics
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.answers import Answers
from onceward.messages.attachments import load_attachments
from onceward.messages.channel import Channel, Letter
from onceward.messages.composer import Composer, SendingOptions
from onceward.messages.digests import NAME as DIGEST
from onceward.messages.digests import Digests
from onceward.messages.endings import message_end_hook
from onceward.messages.errors import LookLater, NotConfigured, NotYet, Resting
from onceward.messages.kind import Message, MessageKind
from onceward.messages.limits import MOST_MISSED, Limit, Limits
from onceward.messages.lines import Line, queue_of
from onceward.messages.message_queue import task_of
from onceward.messages.parked_lines import Parkings
from onceward.messages.policies import QUICK
from onceward.messages.recipient import CHANNELS
from onceward.messages.send_starts import Beginnings, BeginningSend
from onceward.messages.template_versions import TemplateVersions
from onceward.messages.templates import Template, Templates
from onceward.messages.troubles import TemplateText, Troubles, troubles_of
from onceward.services import Files
from onceward.services.outcome import Absent, Accepted, Refused, Throttled, Unknown, Unreachable
from onceward.work import AppRegistry, Claimed, Indeterminate, Superseded, Task
from onceward.work.gate import gate

log = structlog.get_logger(__name__)

UNBEGIN = "update onceward.messages set sending = null, status = 'pending' where id = $1 and sending = $2"


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
        self._composer = Composer(self._options)
        self._answers = Answers(db, self._parkings, self._troubles, look_after_s=self._options.look_after_s)
        self._digests = Digests(
            db,
            templates,
            self._versions,
            default_locale=self._options.default_locale,
            public_url=self._options.public_url,
        )

    def install(self, registry: AppRegistry) -> None:
        """Register a task and a queue per channel, so that a slow channel does not delay the others."""
        registry.add_kind(MessageKind())
        for name in CHANNELS:
            # Assigned, not added: a second runtime on the same app replaces the tasks, to send through its own
            # channels.
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
            return await self._digests.sent_in(message) or self._expired(message)
        template = await self._versions.of(message)
        line, channel = await self._channel(message, template)
        if (address := message.address) is None:
            return {"suppressed": "no_address"}
        if (gathered := await self._digests.gather(message, template, self._composer.zone(message))) is not None:
            return gathered
        self._composer.check_hours(message, template)
        text = self._composer.text_of(message, template)
        troubles = troubles_of(message.troubles, line, text)
        await self._troubles.wait_for_probe(troubles)
        attachments = await load_attachments(self._files, message.attachments) if message.attachments else ()
        links: frozenset[str] = frozenset()
        if message.template == DIGEST:
            filled = await self._digests.fill(message, self._composer.render)
            if filled is None:
                return self._expired(message)
            message, links = filled.message, filled.links
        letter = self._composer.letter(message, template, address, attachments, links)
        async with self._parkings.of(line).turn() as began, channel.turn() as failure:
            # An earlier send that got no answer is examined first, whether or not the service can be reached.
            if failure is not None and message.sending_since is None:
                outcome = failure
            else:
                result = await self._begin(work, message, channel, letter, line, text, probes=bool(troubles))
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
            return await self._answers.evaluate(work, channel, outcome, line, text=text, began=began)

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
            if own is None and message.is_own:
                # The account is gone: the message must not leave by the account of somebody else.
                gone = f"the organization's account for {message.channel} was removed"
                advice = f"set the secrets of the account again ({gone}), or cancel its messages"
                missing = Refused(gone, permanent=False, account=True, advice=advice)
                raise await self._troubles.report(Line(message.channel, message.organization_id), None, missing)
        channel = own or self._channels.get(message.channel)
        if channel is None:
            raise NotConfigured(f"channel {message.channel} is not configured: see `onceward settings`")
        return Line(message.channel, None if own is None else message.organization_id), channel

    def _expired(self, message: Message) -> dict[str, Any]:
        metrics.EXPIRED.labels(message.channel).inc()
        return {"suppressed": "expired"}

    async def _begin(
        self,
        work: Claimed,
        message: Message,
        channel: Channel,
        letter: Letter,
        line: Line,
        text: TemplateText,
        *,
        probes: bool,
    ) -> dict[str, Any] | None:
        """Wait for a slot and record that the send begins. Return a result if there is nothing left to send."""
        again = False
        for _ in range(MOST_MISSED):
            slot = await self._limits.wait(message.channel, channel.sender, letter.to, bulk=message.bulk)
            blind = not channel.readable and not channel.repeatable_for_s
            owned = line.owner is not None
            begin = BeginningSend(work.id, work.lease, blind, again, owned, text.language, probes)
            verdict = await self._beginnings.begin(begin)
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
                    result = await self._look_up(message, channel, letter, line, text)
                    if result is not None:
                        return result
                    again = True
                case "superseded":
                    raise Superseded
                case "expired":
                    return self._expired(message)
                case "parked":
                    # The next load of the message finds the trouble, and waits for its repair.
                    raise Resting(0.1, "the service has refused the account or the template meanwhile")
                case suppressed:
                    return {"suppressed": suppressed}
        raise NotYet(1.0, f"this machine is too slow for the limit of channel {message.channel}")

    async def _look_up(
        self, message: Message, channel: Channel, letter: Letter, line: Line, text: TemplateText
    ) -> dict[str, Any] | None:
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
                parked = await self._troubles.report(line, text, refused)
                raise LookLater(parked.after_s, str(parked), trouble=parked.trouble)
            case Refused(reason) | Unknown(reason):
                raise Indeterminate(f"the message may have been sent, and the lookup failed: {reason}")


def _key_forgotten(message: Message, channel: Channel) -> bool:
    """Return whether the service may have forgotten the key of the first send without an answer.

    The clock of this process is not used. A negative age means that the database's clock has moved back: nobody knows
    the age.
    """
    if not channel.repeatable_for_s or message.sending_for_s is None:
        return False
    age_s = message.sending_for_s + (time.monotonic() - message.loaded_at)
    return not 0 <= age_s < channel.repeatable_for_s

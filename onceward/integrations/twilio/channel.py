"""Text messages through Twilio, which has no idempotency keys.

The channel looks up a send that got no answer by number, text and time.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from onceward.integrations.twilio.client import Twilio
from onceward.messages.channel import ChannelSetup, ChannelSource, Letter, ReportAddress, no_report_address
from onceward.services import NotSet, Services
from onceward.services.outcome import Lookup, ServiceAnswer

LONGEST_VALIDITY_S = 36000
"""The longest `ValidityPeriod` that Twilio takes: ten hours."""


class SmsChannel:
    """Sends from a phone number, or through a messaging service (`MG...`).

    `callback` returns the address to which Twilio reports the status of a message of an organization.
    """

    name: Literal["sms"] = "sms"
    repeatable_for_s = 0.0
    readable = True

    def __init__(self, twilio: Twilio, *, sender: str, callback: ReportAddress = no_report_address) -> None:
        self._twilio = twilio
        self._callback = callback
        self.sender = sender
        self._from = None if sender.startswith("MG") else sender
        self._service = sender if sender.startswith("MG") else None

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        remaining_s = letter.remaining_s()
        return await self._twilio.send_message(
            to=letter.to,
            body=letter.rendered.text,
            from_=self._from,
            messaging_service_sid=self._service,
            status_callback=await self._callback(letter.organization),
            validity_s=None if remaining_s is None else min(round(remaining_s), LONGEST_VALIDITY_S),
        )

    async def look_up(self, letter: Letter) -> Lookup:
        since = letter.sending_since or datetime.now(UTC)
        return await self._twilio.find_message(
            to=letter.to, body=letter.rendered.text, sent_after=since, from_=self._from
        )

    async def aclose(self) -> None: ...


def configured(setup: ChannelSetup) -> SmsChannel | None:
    """Return the channel of the account in the settings, if it has a sender."""
    account = setup.account("twilio")
    if account is None or not (sender := account.get("from")):
        return None
    return SmsChannel(Twilio.connect(setup.client, account), sender=sender, callback=setup.report_address("twilio"))


async def own(setup: ChannelSetup, services: Services, organization: UUID) -> SmsChannel:
    """Return the channel of an organization's own account. Raises `NotSet` if the account has no sender."""
    twilio: Twilio = await services.twilio(organization)
    if twilio.sender is None:
        raise NotSet(
            f"organization {organization} has an account of its own, but its sender twilio.from is missing: "
            f"run `onceward secrets set {organization} twilio.from`"
        )
    return SmsChannel(twilio, sender=twilio.sender, callback=setup.report_address("twilio"))


CHANNEL = ChannelSource(name="sms", configured=configured, own=own)

"""Text messages through Twilio, which has no idempotency keys.

The channel looks up a send that got no answer by number, text and time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import Literal
from uuid import UUID

from onceward.messages.channel import Letter
from onceward.providers.outbound import Lookup, Outcome
from onceward.providers.outbound.twilio import Twilio

Callback = Callable[[UUID | None], Awaitable[str | None]]


async def no_callback(_organization: UUID | None) -> None:
    """Ask Twilio for no status callbacks."""


class SmsChannel:
    """Sends from a phone number, or through a messaging service (`MG...`).

    `callback` returns the address to which Twilio reports the status of a message of an organization.
    """

    name: Literal["sms"] = "sms"
    repeatable_for_s = 0.0
    readable = True

    def __init__(self, twilio: Twilio, *, sender: str, callback: Callback = no_callback) -> None:
        self._twilio = twilio
        self._callback = callback
        self.sender = sender
        self._from = None if sender.startswith("MG") else sender
        self._service = sender if sender.startswith("MG") else None

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> Outcome:
        return await self._twilio.send_message(
            to=letter.to,
            body=letter.rendered.text,
            from_=self._from,
            messaging_service_sid=self._service,
            status_callback=await self._callback(letter.organization),
        )

    async def look_up(self, letter: Letter) -> Lookup:
        since = letter.sending_since or datetime.now(UTC)
        return await self._twilio.find_message(
            to=letter.to, body=letter.rendered.text, sent_after=since, from_=self._from
        )

    async def aclose(self) -> None: ...

"""WhatsApp Cloud API: free text within 24 hours of the person's last message, after that an approved template.

`onceward/messages/approved.py` says how a template names its approved texts and buttons.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward.integrations.whatsapp.client import WhatsApp
from onceward.integrations.whatsapp.errors import OUTSIDE_WINDOW
from onceward.messages.approved import read_approval
from onceward.messages.channel import ChannelSetup, ChannelSource, Letter, Turns
from onceward.messages.limits import Limit
from onceward.services import Services
from onceward.services.outcome import Accepted, Lookup, Refused, ServiceAnswer

WINDOW = timedelta(hours=24)


class WhatsAppChannel:
    """Sends from one phone number, always to the person: the Cloud API has no groups."""

    name: Literal["whatsapp"] = "whatsapp"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, whatsapp: WhatsApp, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._whatsapp = whatsapp
        self._now = now
        self._turns = Turns()
        self.sender = whatsapp.phone_number_id

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self._turns.take()

    async def send(self, letter: Letter) -> ServiceAnswer:
        outcome = await self._send(letter)
        if isinstance(outcome, Accepted) and letter.destination == "group":
            # The record shows that the message went to the person and not to the group.
            return replace(outcome, detail={**outcome.detail, "destination": "individual"})
        return outcome

    async def _send(self, letter: Letter) -> ServiceAnswer:
        if letter.heard_at is not None and self._now() - letter.heard_at < WINDOW:
            outcome = await self._whatsapp.send_text(key=letter.key, to=letter.to, text=letter.rendered.text)
            if not (isinstance(outcome, Refused) and outcome.detail.get("code") == OUTSIDE_WINDOW):
                return outcome
            # Meta counts the 24 hours by its own clock and has sent nothing: the template may be sent at any time.
        approval = read_approval(letter.template.options)
        if approval is None:
            return Refused(
                f"the 24-hour window is closed: add [whatsapp] with the name of an approved template to template.toml "
                f"of {letter.template.name!r}",
                permanent=True,
            )
        return await self._whatsapp.send_template(
            key=letter.key,
            to=letter.to,
            name=approval.name,
            language=approval.language.get(letter.rendered.locale, letter.rendered.locale),
            parameters=letter.rendered.parameters,
            components=[quick_reply(index, each.payload) for index, each in enumerate(approval.buttons)],
        )

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("WhatsApp reports the outcome of a send only by webhook")

    async def aclose(self) -> None: ...


def quick_reply(index: int, payload: str) -> dict[str, Any]:
    """Return the component that gives a button its payload, which the handler receives whatever the button's text
    is."""
    parameters = [{"type": "payload", "payload": payload}]
    return {"type": "button", "sub_type": "quick_reply", "index": str(index), "parameters": parameters}


def configured(setup: ChannelSetup) -> WhatsAppChannel | None:
    """Return the channel of the account in the settings."""
    account = setup.account("whatsapp")
    return None if account is None else WhatsAppChannel(WhatsApp.connect(setup.client, account))


async def own(setup: ChannelSetup, services: Services, organization: UUID) -> WhatsAppChannel:
    """Return the channel of an organization's own account."""
    return WhatsAppChannel(await services.whatsapp(organization))


def pace(setup: ChannelSetup) -> Limit | None:
    """Return the pace of one sender that the settings ask for."""
    interval_ms = setup.settings_of("whatsapp").interval_ms
    return Limit(count=1, per_s=interval_ms / 1000) if interval_ms else None


CHANNEL = ChannelSource(name="whatsapp", configured=configured, own=own, limit=pace)

"""Mail through the API of Brevo."""

from __future__ import annotations

import base64
from contextlib import AbstractAsyncContextManager, nullcontext
from email.utils import parseaddr
from typing import Literal
from uuid import UUID

from onceward.integrations.brevo.client import Brevo, Mailbox
from onceward.messages.channel import ChannelSetup, ChannelSource, Letter
from onceward.messages.mail_composer import unsubscribe_headers
from onceward.messages.settings import MessagesSettings
from onceward.services import Services
from onceward.services.outcome import Lookup, ServiceAnswer

BREVO_KEY_S = 600.0
"""Brevo does not document how long it remembers a key. Its keys are meant for repeats within minutes."""

KEY_HEADER = "X-Mailin-custom"
"""Brevo sends the value of this header back in each event about the mail."""


class BrevoChannel:
    """Sends through the API of Brevo, which ignores a repeated key."""

    name: Literal["email"] = "email"
    repeatable_for_s = BREVO_KEY_S
    readable = False

    def __init__(self, brevo: Brevo, *, sender: str) -> None:
        self._brevo = brevo
        name, self.sender = parseaddr(sender)
        self._from = Mailbox(self.sender, name or None)

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        return await self._brevo.send_email(
            key=letter.key,
            sender=self._from,
            to=[Mailbox(letter.to)],
            subject=letter.rendered.subject,
            html=letter.rendered.html,
            text=letter.rendered.text,
            headers={**unsubscribe_headers(letter), KEY_HEADER: letter.key},
            tags=(letter.template.name,),
            attachments=[
                {"name": each.name, "content": base64.b64encode(each.content).decode()} for each in letter.attachments
            ],
        )

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("a send over Brevo is repeated with the same key instead of looked up")

    async def aclose(self) -> None: ...


def configured(setup: ChannelSetup) -> BrevoChannel | None:
    """Return the channel of the account in the settings."""
    account = setup.account("brevo")
    if account is None:
        return None
    brevo = Brevo.connect(setup.client, account)
    return BrevoChannel(brevo, sender=brevo.sender or setup.settings.of(MessagesSettings).mail_from)


async def own(setup: ChannelSetup, services: Services, organization: UUID) -> BrevoChannel:
    """Return the channel of an organization's own account."""
    brevo = await services.brevo(organization)
    return BrevoChannel(brevo, sender=brevo.sender or setup.settings.of(MessagesSettings).mail_from)


CHANNEL = ChannelSource(name="email", configured=configured, own=own, preferred=True)

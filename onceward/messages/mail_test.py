"""Check the account that mails are sent through, and send a test mail over it."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from onceward.http import GuardedClient, ServiceClient
from onceward.messages.accounts import configured_channels
from onceward.messages.channel import Channel, ChannelSetup, Letter
from onceward.messages.mail_check import MailFinding
from onceward.messages.rendering import render
from onceward.messages.templates import Templates
from onceward.services.outcome import Accepted, ServiceAnswer
from onceward.settings import Settings

TEXT: dict[str, Any] = {"title": "Test mail", "body": "This mail was sent by `onceward mail check`.", "metadata": {}}


@runtime_checkable
class Relay(Protocol):
    """A channel whose connection can be checked without a mail."""

    async def check_relay(self) -> list[MailFinding]: ...


async def check_relay(settings: Settings, *, to: str | None) -> list[MailFinding]:
    """Connect to the relay of the settings, and send a test mail if an address is given."""
    client, guarded = ServiceClient(), GuardedClient()
    channel = configured_channels(ChannelSetup(settings=settings, client=client, guarded=guarded)).get("email")
    try:
        if channel is None:
            detail = "no mail server is set: mails are written to the data directory (ONCEWARD_SMTP_HOST)"
            return [MailFinding("relay", "-", "fail", detail)]
        found = await channel.check_relay() if isinstance(channel, Relay) else []
        return [*found, *([] if to is None else [await _test_mail(channel, to)])]
    finally:
        if channel is not None:
            await channel.aclose()
        await client.aclose()
        await guarded.aclose()


async def _test_mail(channel: Channel, to: str) -> MailFinding:
    answer = await _send(channel, to)
    if isinstance(answer, Accepted):
        return MailFinding("test mail", to, "ok", "accepted: look at its headers for SPF, DKIM and DMARC `pass`")
    return MailFinding("test mail", to, "fail", f"{answer.label}: {getattr(answer, 'reason', 'too many mails')}")


async def _send(channel: Channel, to: str) -> ServiceAnswer:
    template = Templates().get("notification")
    letter = Letter(
        id=0,
        key=f"mail-check:{uuid4()}",
        to=to,
        rendered=render(template, {**template.sample, **TEXT}, locale="en"),
        template=template,
        data=TEXT,
    )
    async with channel.turn() as failure:
        return failure if failure is not None else await channel.send(letter)

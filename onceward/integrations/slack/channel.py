"""Slack as an app (whose messages can be looked up by key) or through an incoming webhook (whose messages cannot)."""

from __future__ import annotations

import hashlib
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from typing import Literal
from uuid import UUID

from pydantic import SecretStr

from onceward.integrations.slack.client import Slack, SlackWebhook
from onceward.messages.channel import ChannelSetup, ChannelSource, Letter, Turns
from onceward.messages.limits import Limit, per_second
from onceward.services import Services
from onceward.services.outcome import Lookup, ServiceAnswer

CLOCK_SLACK = timedelta(minutes=2)


def compose(letter: Letter) -> str:
    """Return the template's Slack text, or its subject in bold above its general text."""
    if "slack" in letter.template.locales[letter.rendered.locale]:
        return letter.rendered.text
    return f"*{letter.rendered.subject}*\n{letter.rendered.text}"


class SlackChannel:
    """Sends through the Web API with a bot token."""

    name: Literal["slack"] = "slack"
    repeatable_for_s = 0.0
    readable = True

    def __init__(self, slack: Slack, *, sender: str = "app") -> None:
        self._slack = slack
        self.sender = sender

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        return await self._slack.post_message(key=letter.key, channel=letter.to, text=compose(letter))

    async def look_up(self, letter: Letter) -> Lookup:
        since = (letter.sending_since or datetime.now(UTC)) - CLOCK_SLACK
        return await self._slack.find_message(key=letter.key, channel=letter.to, oldest_epoch_s=since.timestamp())

    async def aclose(self) -> None: ...


class SlackWebhookChannel:
    """Sends through an incoming webhook. The webhook's URL decides the Slack channel; the letter's address is
    ignored."""

    name: Literal["slack"] = "slack"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, webhook: SlackWebhook) -> None:
        self._webhook = webhook
        self._turns = Turns()
        self.sender = hashlib.sha256(webhook.url.encode()).hexdigest()[:12]

    def turn(self) -> AbstractAsyncContextManager[None]:
        return self._turns.take()

    async def send(self, letter: Letter) -> ServiceAnswer:
        return await self._webhook.post_message(text=compose(letter))

    async def look_up(self, letter: Letter) -> Lookup:
        raise NotImplementedError("an incoming webhook cannot look up a message that was sent")

    async def aclose(self) -> None: ...


def configured(setup: ChannelSetup) -> SlackChannel | SlackWebhookChannel | None:
    """Return the channel of the app in the settings, or else of the incoming webhook."""
    account = setup.account("slack")
    if account is not None:
        return SlackChannel(Slack.connect(setup.client, account))
    url: SecretStr | None = setup.settings_of("slack").webhook_url
    return None if url is None else SlackWebhookChannel(SlackWebhook(setup.guarded, url.get_secret_value()))


async def own(setup: ChannelSetup, services: Services, organization: UUID) -> SlackChannel:
    """Return the channel of an organization's own workspace."""
    return SlackChannel(await services.slack(organization))


def pace(setup: ChannelSetup) -> Limit | None:
    """Return the limit that the settings ask for."""
    return per_second(setup.settings_of("slack").per_s)


CHANNEL = ChannelSource(name="slack", configured=configured, own=own, limit=pace)

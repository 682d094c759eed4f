"""A post office in a test: the services' stand-ins, channels over real sockets, workers that send."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.http import GuardedClient, ServiceClient
from onceward.integrations.brevo import Brevo
from onceward.integrations.brevo.channel import BrevoChannel
from onceward.integrations.slack import Slack, SlackWebhook
from onceward.integrations.slack.channel import SlackChannel, SlackWebhookChannel
from onceward.integrations.smtp.channel import SmtpChannel
from onceward.integrations.smtp.client import Relay, Smtp
from onceward.integrations.twilio import Twilio
from onceward.integrations.twilio.channel import SmsChannel
from onceward.integrations.webpush.channel import PushChannel
from onceward.integrations.webpush.client import VapidKey, WebPush
from onceward.integrations.whatsapp import WhatsApp
from onceward.integrations.whatsapp.channel import WhatsAppChannel
from onceward.messages import Channel, Limit, Sender, SendingOptions
from onceward.messages.accounts import OrganizationChannels
from onceward.messages.channels import DashboardChannel
from onceward.messages.troubles import Troubles
from onceward.testing.simulators import Simulators
from onceward.work import Worker, WorkerOptions

SENDER = "Tests <tests@example.org>"
VAPID = "x6J5oW3sYpQmF3d0eKxkqJm8m4sG0o2bWqvM1k7u9aE"
TEMPLATES = Path(__file__).parent / "templates"


class Wires:
    """Every channel there is, each connected to its stand-in."""

    def __init__(self, sims: Simulators, db: Database, *, timeout_s: float = 1.0) -> None:
        self.sims = sims
        self.client = ServiceClient(timeout_s=timeout_s)
        self.guarded = GuardedClient(allow_loopback_http=True, timeout_s=timeout_s)
        relay = Relay(sims.smtp.host, sims.smtp.port, encryption="none", timeout_s=timeout_s, max_connections=8)
        self.smtp = SmtpChannel(Smtp(relay), sender=SENDER)
        self.brevo = BrevoChannel(
            Brevo(self.client, "xkeysib-1", base_url=sims.brevo.url, timeout_s=timeout_s), sender=SENDER
        )
        self.slack = SlackChannel(Slack(self.client, "xoxb-1", base_url=sims.slack.url, timeout_s=timeout_s))
        self.webhook = SlackWebhookChannel(SlackWebhook(self.guarded, sims.slack.webhook_url, timeout_s=timeout_s))
        twilio = Twilio(
            self.client,
            sims.twilio.account_sid,
            sims.twilio.auth_token,
            base_url=sims.twilio.url,
            timeout_s=timeout_s,
        )
        self.sms = SmsChannel(twilio, sender="+15005550006")
        self.whatsapp = WhatsAppChannel(
            WhatsApp(
                self.client,
                sims.whatsapp.phone_number_id,
                "token",
                base_url=sims.whatsapp.url,
                timeout_s=timeout_s,
            )
        )
        self.push = PushChannel(
            WebPush(self.guarded, vapid=VapidKey(VAPID), subject="mailto:ops@example.org", timeout_s=timeout_s)
        )
        self.dashboard = DashboardChannel(db)

    async def aclose(self) -> None:
        await self.smtp.aclose()
        await self.client.aclose()
        await self.guarded.aclose()


class Office:
    """An engine whose workers send."""

    def __init__(self, db: Database, app: Onceward, wires: Wires) -> None:
        self.db = db
        self.app = app
        self.wires = wires
        self.sims = wires.sims
        self.engine = Engine(db, app.registry)
        self.workers: list[Worker] = []

    def install(
        self,
        channels: Sequence[Channel],
        *,
        limits: dict[str, list[Limit]] | None = None,
        options: SendingOptions | None = None,
        own_channels: OrganizationChannels | None = None,
        troubles: Troubles | None = None,
    ) -> Sender:
        sender = Sender(
            self.db,
            channels,
            self.engine.templates,
            limits=limits,
            options=options or SendingOptions(look_after_s=0.05, public_url="https://shop.example.org"),
            own_channels=own_channels,
            troubles=troubles,
        )
        sender.install(self.app.registry)
        return sender

    def new_worker(self, db: Database | None = None, **options: Any) -> Worker:
        chosen = {"concurrency": 8, "poll_s": 0.1, "grace_s": 2.0, "settle_s": 0.0, **options}
        return Worker(
            db or self.db,
            self.app.registry,
            self.engine.waker,
            options=WorkerOptions(**chosen),
            open_tx=self.engine.open_tx,
        )

    async def start_worker(self, **options: Any) -> Worker:
        worker = self.new_worker(**options)
        await worker.start()
        self.workers.append(worker)
        return worker

    async def send(self, template: str = "hello", **options: Any) -> int:
        given = {"to": "ada@example.org", "key": "k1", "data": {"name": "Ada"}, **options}
        async with self.engine.transaction() as tx:
            return (await tx.send(template, **given)).id

    async def message(self, id: int) -> Any:
        return await self.db.fetchrow("select * from onceward.messages where id = $1", id)

    async def until(self, id: int, *statuses: str, timeout_s: float = 10.0) -> Any:
        """Wait until the message has one of these states (by default: any final one)."""
        wanted = statuses or ("success", "failed", "dead_letter", "cancelled", "expired", "unknown")
        async with asyncio.timeout(timeout_s):
            while True:
                row = await self.message(id)
                if row["status"] in wanted:
                    return row
                await asyncio.sleep(0.02)

    async def set_clock(self, moment: str) -> None:
        await self.db.execute(
            "create or replace function onceward.now() returns timestamptz language sql stable as"
            f" $$select '{moment}'::timestamptz$$"
        )


@pytest.fixture
async def sims() -> AsyncIterator[Simulators]:
    async with Simulators() as running:
        yield running


@pytest.fixture
async def wires(sims: Simulators, db: Database) -> AsyncIterator[Wires]:
    made = Wires(sims, db)
    yield made
    await made.aclose()


@pytest.fixture
async def office(db: Database, wires: Wires) -> AsyncIterator[Callable[..., Any]]:
    made: list[Office] = []

    async def make(*channels: Channel, **options: Any) -> Office:
        app = Onceward("t")
        app.templates(TEMPLATES)
        each = Office(db, app, wires)
        each.install(channels or [wires.smtp], **options)
        await each.engine.start()
        made.append(each)
        return each

    yield make
    for each in made:
        for worker in each.workers:
            await worker.stop()
        await each.engine.stop()

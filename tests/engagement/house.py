"""What tests of engagement do again and again: users, a clock, runs, a WhatsApp that answers."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
from aiohttp import web

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.http import ServiceClient
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource, add
from onceward.integrations.posthog import PostHog, PostHogSimulator
from onceward.integrations.whatsapp import WhatsApp, WhatsAppSimulator
from onceward.integrations.whatsapp.channel import WhatsAppChannel
from onceward.messages import Limit, Sender, SendingOptions
from onceward.schedules import RunReport, Scheduler, run_here
from onceward.settings import Settings
from onceward.testing import FrozenClock, drain
from onceward.trust import SecretBox
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work import Worker, WorkerOptions
from onceward_apps.engagement import activity
from tests.ticketing.office import Told, post

MONDAY = datetime(2020, 11, 16, 12, 0, tzinfo=UTC)
SECRET = "a secret of the tests that is long enough"
BOX = SecretBox(["a key of the tests, which is long enough"])


class TimedWhatsApp(WhatsAppSimulator):
    """Notes when each message arrives."""

    def __init__(self) -> None:
        super().__init__()
        self.arrivals: list[float] = []

    async def _send(self, request: web.Request) -> web.Response:
        self.arrivals.append(time.monotonic())
        return await super()._send(request)


class House:
    """One organization with users, on a clock that stands still until it is moved."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry, event_types=app.event_types)
        self.clock = FrozenClock(db, MONDAY)
        self.whatsapp = TimedWhatsApp()
        self.posthog = PostHogSimulator()
        self.inbox = Inbox(
            db, app.registry, app.handlers, self.engine.waker, open_tx=self.engine.open_tx, box=BOX, environ={}
        )
        self.organization: UUID
        self._numbers = 0

    async def open(self, *, limits: Mapping[str, Sequence[Limit]] | None = None) -> House:
        await self.whatsapp.start()
        await self.posthog.start()
        self._client = ServiceClient()
        channel = WhatsAppChannel(
            WhatsApp(self._client, self.whatsapp.phone_number_id, "token", base_url=self.whatsapp.url),
            now=lambda: self.clock.at,
        )
        self.sender = Sender(
            self.db, [channel], self.engine.templates, limits=limits, options=SendingOptions(default_locale="en")
        )
        self.sender.install(self.app.registry)
        await self.engine.start()
        self.app.services.use("posthog", PostHog(self._client, "phc_test", base_url=self.posthog.url))
        self.organization = await self.add_organization("nexfin")
        await Scheduler(self.db, self.app.schedules.values()).register()
        await self.clock.__aenter__()
        return self

    def no_posthog(self) -> None:
        """As on an installation that has no account there."""
        self.app.services.configure(Settings())

    async def close(self) -> None:
        await self.engine.stop()
        await self.sender.aclose()
        await self._client.aclose()
        await self.app.services.aclose()
        await self.whatsapp.stop()
        await self.posthog.stop()

    async def add_organization(self, slug: str) -> UUID:
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1)"
            " on conflict (slug) do update set name = excluded.name returning organization_id",
            slug,
        )

    def acting(self, organization: UUID | None = None) -> Any:
        return self.engine.transaction(organization=organization or self.organization)

    # -- users ---------------------------------------------------------------------------------------------------------

    async def user(
        self,
        *,
        inactive: timedelta = timedelta(0),
        opted_out: bool = False,
        number: str | None = "",
        locale: str | None = "pt-BR",
        destination: Any = None,
        organization: UUID | None = None,
        id: UUID | None = None,
    ) -> UUID:
        """A user whose last activity was so long ago."""
        user_id = id or uuid4()
        self._numbers += 1
        async with self.acting(organization) as tx:
            await activity.save_profile(
                tx,
                user_id,
                whatsapp_jid=f"+91{9000000000 + self._numbers}" if number == "" else number,
                locale=locale,
                preferred_destination=destination,
                reengagement_opt_out=opted_out or None,
                last_activity_at=self.clock.at - inactive,
            )
        return user_id

    async def number_of(self, user_id: UUID) -> str:
        return await self.db.fetchval("select whatsapp_jid from engagement.user_profiles where user_id = $1", user_id)

    async def active(self, user_id: UUID, *, ago: timedelta = timedelta(0)) -> Any:
        async with self.acting() as tx:
            return await activity.record_activity(tx, [activity.Activity(user_id=user_id, at=self.clock.at - ago)])

    async def transact(self, user_id: UUID, count: int = 1, *, ago: timedelta = timedelta(0)) -> Any:
        async with self.acting() as tx:
            return await activity.record_transactions(
                tx, [activity.Transaction(user_id=user_id, created_at=self.clock.at - ago) for _ in range(count)]
            )

    async def say_goodbye(self, *, opted_out: bool = False) -> UUID:
        """A user who got the goodbye now."""
        user_id = await self.user(inactive=timedelta(days=15))
        await self.daily()
        assert await self.state(user_id) == "goodbye_sent"
        await self.drain()
        if opted_out:
            async with self.acting() as tx:
                await activity.set_opt_out(tx, user_id, True)
        return user_id

    # -- what happens --------------------------------------------------------------------------------------------------

    async def daily(self) -> RunReport:
        return await self.run("engagement-daily")

    async def weekly(self) -> RunReport:
        return await self.run("engagement-weekly")

    async def run(self, name: str) -> RunReport:
        await self.clock.advance(microseconds=1)  # two runs of a schedule are never due at the same moment
        report = await run_here(self.db, self.app.schedules[name], open_tx=self.engine.open_tx, by="test")
        assert report.status == "success", report
        return report

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[None]:
        """Run a worker, which sends what is due."""
        options = WorkerOptions(concurrency=4, poll_s=0.1)
        engine = self.engine
        worker = Worker(engine.db, engine.registry, engine.waker, options=options, open_tx=engine.open_tx)
        await worker.start()
        try:
            yield
        finally:
            await worker.stop()

    async def drain(self) -> int:
        return await drain(self.engine)

    async def source(self, *, organization: UUID | None = None) -> None:
        async with self.db.transaction(role="engine") as tx:
            new = NewSource(
                name="engagement-whatsapp",
                provider="whatsapp",
                secrets=(SECRET,),
                organization=organization,
                options={"verify_token": "token"},
            )
            await add(tx, BOX, new, actor="test")
        await self.inbox.start()

    async def reply(self, user_or_number: UUID | str, content: str | dict[str, Any], **changes: Any) -> Any:
        """Deliver a person's message as Meta does, handle it, and return what it caused."""
        number = user_or_number if isinstance(user_or_number, str) else await self.number_of(user_or_number)
        message: dict[str, Any] = {
            "from": number.lstrip("+"),
            "id": f"wamid.{uuid4().hex}",
            "timestamp": str(int(self.clock.at.timestamp())),
            **({"type": "text", "text": {"body": content}} if isinstance(content, str) else content),
            **changes,
        }
        await self.deliver(message)
        return await self.effect(message["id"])

    async def deliver(self, message: dict[str, Any], *, handle: bool = True) -> Told:
        return await self._deliver({"messages": [message]}, handle=handle)

    async def deliver_status(self, status: dict[str, Any]) -> Told:
        """Deliver what WhatsApp reports about a message that we sent."""
        return await self._deliver({"statuses": [status]}, handle=True)

    async def _deliver(self, content: dict[str, Any], *, handle: bool) -> Told:
        value = {
            "messaging_product": "whatsapp",
            "metadata": {"display_phone_number": "1", "phone_number_id": "100200300"},
            **content,
        }
        payload = {
            "object": "whatsapp_business_account",
            "entry": [{"id": "1", "changes": [{"field": "messages", "value": value}]}],
        }
        body = orjson.dumps(payload)
        config = SourceConfig(provider="whatsapp", secrets=(SECRET,), options={"verify_token": "token"})
        headers = get_provider("whatsapp").sign(config, body, time.time())
        told = await post(
            self.inbox, "/webhooks/engagement-whatsapp", body, {**headers, "content-length": str(len(body))}
        )
        assert told.status == 200, told
        if handle:
            await self.drain()
        return told

    async def effect(self, wamid: str) -> Any:
        result = await self.db.fetchval(
            "select a.result from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
            " where e.event_id = $1 and a.outcome = 'success'",
            wamid,
        )
        return result and result["effect"]

    # -- what is seen --------------------------------------------------------------------------------------------------

    async def row(self, user_id: UUID, organization: UUID | None = None) -> Any:
        return await self.db.fetchrow(
            "select s.*, p.reengagement_opt_out from engagement.user_engagement_states s"
            " join engagement.user_profiles p using (organization_id, user_id)"
            " where s.user_id = $1 and s.organization_id = $2",
            user_id,
            organization or self.organization,
        )

    async def state(self, user_id: UUID) -> str:
        return (await self.row(user_id))["state"]

    async def queue(self, user_id: UUID | None = None) -> list[Any]:
        """The messages of a user, or all, under the names of the seed."""
        return await self.db.fetch(
            "select * from engagement.engagement_message_queue where $1::uuid is null or user_id = $1 order by id",
            user_id,
        )

    async def transitions(self, user_id: UUID) -> list[tuple[str, str, str]]:
        rows = await self.db.fetch(
            "select from_state, to_state, trigger from engagement.transitions where user_id = $1 order by id", user_id
        )
        return [tuple(row) for row in rows]


def values(row: Any) -> tuple[Any, ...]:
    """The columns of a row that must exist."""
    assert row is not None
    return tuple(row)


def counts(report: RunReport) -> tuple[int, int, int, int]:
    return report.processed, report.succeeded, report.failed, report.skipped

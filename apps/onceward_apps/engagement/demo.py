"""A simulation for the demo: a WhatsApp, an analytics service, and users who come back, answer, or stay silent.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls no
external service. Days take seconds here: the goodbye expires after a minute. Besides the normal path it shows three
failures: a number without WhatsApp (the goodbye is given up), a send whose answer is lost (`unknown`, never sent
again), and a service that refuses three times (a dead letter).
"""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import structlog

from onceward import Context, Engine
from onceward.background import Loop, Tasks
from onceward.inbox import sources
from onceward.integrations.posthog import PostHogSimulator
from onceward.integrations.whatsapp import WhatsAppSimulator
from onceward.schedules import run_now
from onceward.trust import create_organization, put_secret
from onceward.web import WebServer
from onceward_apps.engagement import activity
from onceward_apps.engagement.app import EngagementSettings, app
from onceward_apps.engagement.handlers import SOURCE
from onceward_apps.engagement.schedules import DAILY, WEEKLY

log = structlog.get_logger(__name__)

SLUG = "nexfin"
PAUSE_S = 20.0
FIRST_USERS = 40
FATES = (
    ("answers help", 2),
    ("answers later", 2),
    ("answers stop", 1),
    ("comes back", 3),
    ("stays silent", 5),
    ("has no WhatsApp", 1),
    ("answer is lost", 1),
    ("is refused", 1),
)
WORDS = {"answers help": "ajuda", "answers later": "depois", "answers stop": "parar", "comes back": "Oi! Voltei."}
FAST = {"goodbye_hours": 0.02, "remind_days": 0.002, "retry_days": 0.001}


def _awake(utc_hour: int) -> str:
    """Return the first digits of numbers where it is day now: messages are sent from 09:00 to 20:00 local time."""
    if 12 <= utc_hour < 23:
        return "+5511981"  # Brazil
    return "+6591" if 1 <= utc_hour < 12 else "+6799"  # Singapore, Fiji


class EngagementDemo:
    """A part of the process. Without a `crowd` the only users are calls of `visit`."""

    def __init__(self, context: Context, *, crowd: bool = True, holdout_percent: int = 10) -> None:
        self._context = context
        self._crowd = crowd
        self._settings = EngagementSettings.model_validate({**FAST, "holdout_percent": holdout_percent})
        self.whatsapp = WhatsAppSimulator()
        self.posthog = PostHogSimulator()
        self.dice = random.Random()
        self.organization: UUID | None = None
        self._tasks = Tasks("demo engagement")
        self._loops = (Loop("demo days", self._days),)
        self._number = 0
        self._is_open = False

    @property
    def engine(self) -> Engine:
        return self._context.engine

    async def open_services(self) -> None:
        """Start the simulated services and call them from now on. The second call changes nothing."""
        if self._is_open:
            return
        self._is_open = True
        await self.whatsapp.start()
        await self.posthog.start()
        app.use_settings(self._settings)
        app.services.simulate("whatsapp", self.whatsapp.url)
        app.services.simulate("posthog", self.posthog.url)

    async def start(self) -> None:
        await self.open_services()
        await self.set_up()
        log.info("demo.engagement_opened", page=f"{self._context.part(WebServer).url}/dashboard/engagement")
        if self._crowd:
            await self._loops[0].start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._tasks.stop()
        await self.whatsapp.stop()
        await self.posthog.stop()

    async def set_up(self) -> None:
        """Create the organization, its webhook source and its first users, unless they exist."""
        async with self.engine.db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = $1", SLUG)
            if existing is None:
                created = await create_organization(tx, SLUG, name="NexFin", actor="demo")
                self.organization = created.organization_id
            else:
                self.organization = existing
            for known in await sources.list_sources(tx):
                if known.name == SOURCE and known.origin == "stored":
                    await sources.delete(tx, known.name, actor="demo")
            new = sources.NewSource(
                name=SOURCE,
                provider="whatsapp",
                secrets=(self.whatsapp.app_secret,),
                organization=self.organization,
                options={"verify_token": "demo"},
            )
            await sources.add(tx, self._context.box, new, actor="demo")
        async with self.engine.db.transaction(role="engine", organization=self.organization) as tx:
            await put_secret(tx, self._context.box, "whatsapp.access_token", "demo-token")
            await put_secret(tx, self._context.box, "whatsapp.phone_number_id", self.whatsapp.phone_number_id)
        app.services.forget_secrets(self.organization)
        self.whatsapp.send_webhooks_to(f"{self._context.part(WebServer).url}/webhooks/{SOURCE}")
        if existing is None:
            for _ in range(FIRST_USERS):
                await self.add_user(inactive=timedelta(days=self.dice.uniform(0, 13.9)))

    async def add_user(self, *, inactive: timedelta, number: str | None = None) -> tuple[UUID, str]:
        """Create a user whose last activity was so long ago; return the id and the number."""
        user_id = uuid4()
        number = number or f"{_awake(datetime.now(UTC).hour)}{self.dice.randrange(100_000, 999_999)}"
        async with self.engine.transaction(organization=self.organization) as tx:
            await activity.save_profile(
                tx,
                user_id,
                whatsapp_jid=number,
                locale=self.dice.choice(("pt-BR", "en")),
                preferred_destination=self.dice.choices(("individual", "group"), (9, 1))[0],
                last_activity_at=datetime.now(UTC) - inactive,
            )
        return user_id, number

    async def _days(self) -> None:
        names, weights = zip(*FATES, strict=True)
        day = 0
        while True:
            for _ in range(self.dice.randint(1, 3)):
                self._tasks.start(self._live(self.dice.choices(names, weights)[0]))
            await asyncio.sleep(1)
            await self.run(DAILY)
            if day % 10 == 0:
                await self.run(WEEKLY)
            day += 1
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.7, 1.3))

    async def run(self, name: str) -> None:
        """Start a run, as an operator does."""
        async with self.engine.transaction() as tx:
            await tx.become_engine()
            await run_now(tx, app.schedules[name], by="demo", waker=self.engine.waker)

    async def _live(self, fate: str) -> None:
        """Let somebody be inactive, and answer the goodbye some seconds after it."""
        number = await self.visit(fate)
        await asyncio.sleep(self.dice.uniform(8, 15))
        self.answer(fate, number)

    async def visit(self, fate: str) -> str:
        """Create somebody who was inactive for 15 days, and prepare what `fate` names. Return the number."""
        user_id, number = await self.add_user(inactive=timedelta(days=15))
        match fate:
            case "has no WhatsApp":
                self.whatsapp.unreachable.add(number)
            case "answer is lost":
                self.whatsapp.drop_after_send(about=number)
            case "is refused":
                self.whatsapp.fail_next(3, status=503, about=number)
            case _:
                pass
        log.info("demo.user_inactive", user_id=str(user_id), fate=fate)
        return number

    def answer(self, fate: str, number: str) -> None:
        """Let the person write what `fate` names, if anything."""
        if fate in WORDS:
            self.whatsapp.receive_text(number, WORDS[fate])

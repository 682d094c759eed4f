"""Run the real code on a moved clock over generated users, in a scratch database that is removed afterwards.

Users have habits: some come every day, some lose interest, some return when they are asked. Everything else is what
runs in production: the two runs, the sender, replies, activity. Only the last step is replaced: nothing leaves the
process.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from onceward import Engine
from onceward.db import Database, migrate
from onceward.feature import Migrations
from onceward.messages import Letter, Sender
from onceward.schedules import RunReport, Scheduler, run_here
from onceward.services import Accepted, Refused, ServiceAnswer
from onceward.testing import FrozenClock, drain
from onceward.trust import create_organization
from onceward_apps.engagement import activity
from onceward_apps.engagement.app import app
from onceward_apps.engagement.model import STATES, Reply
from onceward_apps.engagement.store import views

NO_WHATSAPP_SHARE = 0.02
HABITS = ((0.9, 0.25), (0.35, 0.35), (0.08, 0.25), (0.0, 0.15))
"""Chance of activity per day, and the share of users with this habit."""
ANSWERS: tuple[tuple[Reply | Literal["return", "silence"], float], ...] = (
    ("help", 0.05),
    ("later", 0.1),
    ("stop", 0.05),
    ("return", 0.2),
    ("silence", 0.6),
)


class Outbox:
    """A WhatsApp channel that delivers into a list. A number that ends in 000 has no WhatsApp."""

    name: Literal["whatsapp"] = "whatsapp"
    sender = "simulation"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.goodbyes: list[UUID] = []

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        if letter.to.endswith("000"):
            return Refused("this number has no WhatsApp", permanent=True)
        self.sent[letter.template.name] += 1
        if "goodbye" in letter.template.name:
            self.goodbyes.append(UUID(letter.recipient))
        return Accepted(f"simulated-{letter.id}")

    async def look_up(self, letter: Letter) -> Any:
        raise NotImplementedError("the simulated channel answers every send")

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Day:
    """One simulated day: what was sent, what moved, and how many users were in each state at its end."""

    date: str
    goodbyes: int
    reviews: int
    dormant: int
    failed: int
    states: dict[str, int]


@dataclass(slots=True)
class Simulated:
    """The whole simulation."""

    users: int
    days: list[Day] = field(default_factory=list[Day])
    returns: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def sent(self) -> dict[str, int]:
        return {
            "goodbye": sum(day.goodbyes for day in self.days),
            "weekly_review": sum(day.reviews for day in self.days),
        }


@asynccontextmanager
async def scratch_database(url: str, migrations: Sequence[Migrations]) -> AsyncGenerator[str]:
    """Create a migrated database beside the given one, and drop it at the end."""
    name = f"onceward_simulation_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(url)
    try:
        await admin.execute(f"create database {name}")
    finally:
        await admin.close()
    parts = urlsplit(url)
    scratch = urlunsplit(parts._replace(path=f"/{name}"))
    try:
        conn = await asyncpg.connect(scratch)
        try:
            await migrate(conn, migrations)
        finally:
            await conn.close()
        yield scratch
    finally:
        admin = await asyncpg.connect(url)
        try:
            await admin.execute(f"drop database if exists {name} with (force)")
        finally:
            await admin.close()


async def simulate(
    url: str,
    migrations: Sequence[Migrations],
    *,
    days: int,
    users: int,
    seed: int = 1,
    start: datetime | None = None,
    on_day: Callable[[Day], None] = lambda _day: None,
) -> Simulated:
    """Simulate this number of days. The same seed gives the same days."""
    async with scratch_database(url, migrations) as scratch:
        db = await Database.open(scratch, min_size=1, max_size=6)
        try:
            return await _Simulation(db, users, seed, start).run(days, on_day)
        finally:
            await db.close()


class _Simulation:
    def __init__(self, db: Database, users: int, seed: int, start: datetime | None) -> None:
        midnight = (start or datetime.now(UTC)).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self._db = db
        self._dice = random.Random(seed)
        self._clock = FrozenClock(db, midnight)
        self._engine = Engine(db, app.registry, event_types=app.event_types)
        self._outbox = Outbox()
        self._organization: UUID
        self._chance: dict[UUID, float] = {}
        self._result = Simulated(users)

    async def run(self, days: int, on_day: Callable[[Day], None]) -> Simulated:
        previous = app.registry.tasks.get("message:whatsapp")
        Sender(self._db, [self._outbox], self._engine.templates).install(app.registry)
        await self._engine.start()
        try:
            async with self._clock:
                await self._populate()
                for _ in range(days):
                    day = await self._day()
                    self._result.days.append(day)
                    on_day(day)
                async with self._engine.transaction(organization=self._organization) as tx:
                    rows = await views.returns(tx, self._organization, days=days)
                self._result.returns = [dict(row) for row in rows]
        finally:
            await self._engine.stop()
            if previous is not None:
                app.registry.tasks["message:whatsapp"] = previous
        return self._result

    async def _populate(self) -> None:
        async with self._db.transaction(role="engine") as tx:
            created = await create_organization(tx, "simulation", name="Simulation", actor="simulation")
            self._organization = created.organization_id
        await Scheduler(self._db, app.schedules.values()).register()
        chances, weights = zip(*HABITS, strict=True)
        async with self._engine.transaction(organization=self._organization) as tx:
            for number in range(self._result.users):
                user_id = UUID(int=self._dice.getrandbits(128), version=4)
                self._chance[user_id] = self._dice.choices(chances, weights)[0]
                broken = self._dice.random() < NO_WHATSAPP_SHARE
                await activity.save_profile(
                    tx,
                    user_id,
                    # In India the runs at 06:00 and 09:00 UTC fall into the hours of the templates.
                    whatsapp_jid=f"+919{number:06}{'000' if broken else '001'}",
                    locale=self._dice.choice(("pt-BR", "en")),
                    last_activity_at=self._clock.at - timedelta(days=self._dice.uniform(0, 13)),
                )

    async def _day(self) -> Day:
        """Midnight to midnight: the runs at their hours, what users do at noon, and their answers in the evening."""
        midnight = self._clock.at
        before = Counter(self._outbox.sent)
        await self._clock.move_to(midnight + timedelta(hours=6))
        daily = await self._execute("engagement-daily")
        if midnight.weekday() == 0:
            await self._clock.move_to(midnight + timedelta(hours=9))
            await self._execute("engagement-weekly")
        await drain(self._engine, most=1_000_000)
        await self._clock.move_to(midnight + timedelta(hours=12))
        await self._live()
        await self._clock.move_to(midnight + timedelta(hours=18))
        await self._answer()
        sent = self._outbox.sent - before
        async with self._engine.transaction(organization=self._organization) as tx:
            counted = await views.counts(tx, self._organization)
            moves = await views.moves(tx, self._organization, since=midnight, until=midnight + timedelta(days=1))
        await self._clock.move_to(midnight + timedelta(days=1))
        return Day(
            date=f"{midnight:%Y-%m-%d}",
            goodbyes=sum(count for name, count in sent.items() if "goodbye" in name),
            reviews=sum(count for name, count in sent.items() if "weekly" in name),
            dormant=sum(row["users"] for row in moves if row["to_state"] == "dormant"),
            failed=daily.failed,
            states={state: counted.get(state, 0) for state in STATES},
        )

    async def _execute(self, name: str) -> RunReport:
        report = await run_here(self._db, app.schedules[name], open_tx=self._engine.open_tx, by="simulation")
        if report.status != "success":
            raise RuntimeError(f"{name} failed in the simulation: {(report.error or {}).get('message')}")
        return report

    async def _live(self) -> None:
        """Let users do what their habit is. Interest fades slowly."""
        now = self._clock.at
        seen = [user for user, chance in self._chance.items() if self._dice.random() < chance]
        for user in seen:
            if self._dice.random() < 0.02:
                self._chance[user] *= 0.3
        async with self._engine.transaction(organization=self._organization) as tx:
            await activity.record_transactions(
                tx,
                [
                    activity.Transaction(
                        id=UUID(int=self._dice.getrandbits(128), version=4), user_id=user, created_at=now
                    )
                    for user in seen
                    if self._dice.random() < 0.6
                ],
            )
            await activity.record_activity(tx, [activity.Activity(user_id=user, at=now) for user in seen])

    async def _answer(self) -> None:
        """Let those who got a goodbye answer it."""
        answers, weights = zip(*ANSWERS, strict=True)
        goodbyes, self._outbox.goodbyes = self._outbox.goodbyes, []
        for user in goodbyes:
            answer: Any = self._dice.choices(answers, weights)[0]
            if answer == "silence":
                continue
            if answer == "return":
                self._chance[user] = 0.4
            async with self._engine.transaction(organization=self._organization) as tx:
                number = await tx.fetchval("select whatsapp_jid from engagement.user_profiles where user_id = $1", user)
                reply = None if answer == "return" else answer
                await activity.record_reply(tx, [number], reply, at=self._clock.at)

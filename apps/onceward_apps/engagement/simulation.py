"""Run the real code on a moved clock over generated users, in a scratch database that is removed afterwards.

Users have habits: some come every day, some lose interest, some return when they are asked. Everything else is what
runs in production: the two runs, the sender, replies, activity. Only the last step is replaced: nothing leaves the
process.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward.feature import Migrations
from onceward.messages import Letter
from onceward.services import Refused
from onceward.testing import RecordingChannel, Simulation, simulated
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


class Outbox(RecordingChannel):
    """A WhatsApp channel. A number that ends in 000 has no WhatsApp."""

    def __init__(self) -> None:
        super().__init__("whatsapp")

    def refusal(self, letter: Letter) -> Refused | None:
        return Refused("this number has no WhatsApp", permanent=True) if letter.to.endswith("000") else None

    def empty(self) -> list[Letter]:
        """Return what was sent since the last call."""
        letters, self.letters = self.letters, []
        return letters


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
    midnight = (start or datetime.now(UTC)).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    outbox = Outbox()
    async with simulated(url, migrations, app, start=midnight, channels=[outbox]) as simulation:
        return await _Simulation(simulation, outbox, users, seed).run(days, on_day)


class _Simulation:
    def __init__(self, simulation: Simulation, outbox: Outbox, users: int, seed: int) -> None:
        self._dice = random.Random(seed)
        self._simulation = simulation
        self._clock = simulation.clock
        self._outbox = outbox
        self._chance: dict[UUID, float] = {}
        self._result = Simulated(users)

    def _acting(self) -> AbstractAsyncContextManager[Tx]:
        return self._simulation.engine.transaction(organization=self._simulation.organization)

    async def run(self, days: int, on_day: Callable[[Day], None]) -> Simulated:
        await self._populate()
        for _ in range(days):
            day = await self._day()
            self._result.days.append(day)
            on_day(day)
        async with self._acting() as tx:
            rows = await views.returns(tx, self._simulation.organization, days=days)
        self._result.returns = [dict(row) for row in rows]
        return self._result

    async def _populate(self) -> None:
        chances, weights = zip(*HABITS, strict=True)
        async with self._acting() as tx:
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
        await self._clock.move_to(midnight + timedelta(hours=6))
        daily = await self._simulation.run("engagement-daily")
        if midnight.weekday() == 0:
            await self._clock.move_to(midnight + timedelta(hours=9))
            await self._simulation.run("engagement-weekly")
        await self._simulation.drain()
        sent = Counter(letter.template.name for letter in self._outbox.letters)
        goodbyes = [UUID(letter.recipient) for letter in self._outbox.empty() if "goodbye" in letter.template.name]
        await self._clock.move_to(midnight + timedelta(hours=12))
        await self._live()
        await self._clock.move_to(midnight + timedelta(hours=18))
        await self._answer(goodbyes)
        async with self._acting() as tx:
            counted = await views.counts(tx, self._simulation.organization)
            moves = await views.moves(
                tx, self._simulation.organization, since=midnight, until=midnight + timedelta(days=1)
            )
        await self._clock.move_to(midnight + timedelta(days=1))
        return Day(
            date=f"{midnight:%Y-%m-%d}",
            goodbyes=sum(count for name, count in sent.items() if "goodbye" in name),
            reviews=sum(count for name, count in sent.items() if "weekly" in name),
            dormant=sum(row["users"] for row in moves if row["to_state"] == "dormant"),
            failed=daily.failed,
            states={state: counted.get(state, 0) for state in STATES},
        )

    async def _live(self) -> None:
        """Let users do what their habit is. Interest fades slowly."""
        now = self._clock.at
        seen = [user for user, chance in self._chance.items() if self._dice.random() < chance]
        for user in seen:
            if self._dice.random() < 0.02:
                self._chance[user] *= 0.3
        async with self._acting() as tx:
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

    async def _answer(self, goodbyes: Sequence[UUID]) -> None:
        """Let those who got a goodbye answer it."""
        answers, weights = zip(*ANSWERS, strict=True)
        for user in goodbyes:
            answer: Any = self._dice.choices(answers, weights)[0]
            if answer == "silence":
                continue
            if answer == "return":
                self._chance[user] = 0.4
            async with self._acting() as tx:
                number = await tx.fetchval("select whatsapp_jid from engagement.user_profiles where user_id = $1", user)
                reply = None if answer == "return" else answer
                await activity.record_reply(tx, [number], reply, at=self._clock.at)

"""Run an app on a moved clock in a scratch database: its schedules, handlers and senders, with nothing that leaves the
process.

    async with simulated(url, migrations, app, start=monday, channels=[RecordingChannel("sms")]) as simulation:
        await simulation.clock.move_to(monday + timedelta(hours=6))
        await simulation.run("engagement-daily")
        await simulation.drain()

The app that other processes and tests use is not changed: the simulation has a registry of its own.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import asyncpg

from onceward.db import Database, migrate
from onceward.engine import Engine
from onceward.feature import Migrations
from onceward.messages import ChannelName, Letter, Sender
from onceward.schedules import RunReport, Schedule, Scheduler, run_here
from onceward.services import Accepted, Refused, ServiceAnswer
from onceward.testing.clock import FrozenClock
from onceward.testing.work import drain
from onceward.trust import create_organization
from onceward.work import AppRegistry

if TYPE_CHECKING:
    from onceward.app import Onceward


class RecordingChannel:
    """A channel for messages that keeps what it was asked to send. A subclass may refuse."""

    sender = "simulation"
    repeatable_for_s = 0.0
    readable = False

    def __init__(self, name: ChannelName) -> None:
        self.name: ChannelName = name
        self.letters: list[Letter] = []

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def refusal(self, letter: Letter) -> Refused | None:
        """Return why the service refuses a message; None: it accepts it."""
        del letter
        return None

    async def send(self, letter: Letter) -> ServiceAnswer:
        if (refused := self.refusal(letter)) is not None:
            return refused
        self.letters.append(letter)
        return Accepted(f"simulated-{letter.id}")

    async def look_up(self, letter: Letter) -> Any:
        raise NotImplementedError(f"message {letter.id}: the recording channel answers every send")

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Simulation:
    """An app in a scratch database, with one organization, on a clock that stands still until it is moved."""

    db: Database
    engine: Engine
    clock: FrozenClock
    organization: UUID
    schedules: Mapping[str, Schedule]

    async def run(self, schedule: str) -> RunReport:
        """Run a schedule once, now. Raise if the run fails."""
        report = await run_here(self.db, self.schedules[schedule], open_tx=self.engine.open_tx, by="simulation")
        if report.status != "success":
            raise RuntimeError(f"{schedule} failed in the simulation: {(report.error or {}).get('message')}")
        return report

    async def drain(self, *, most: int = 1_000_000) -> int:
        """Run all work that is due, messages too."""
        return await drain(self.engine, most=most)


@asynccontextmanager
async def simulated(
    url: str,
    migrations: Sequence[Migrations],
    app: Onceward,
    *,
    start: datetime,
    channels: Sequence[RecordingChannel] = (),
) -> AsyncGenerator[Simulation]:
    """Open a simulation of the app in a scratch database on the server of `url`, and drop the database at the end."""
    async with scratch_database(url, migrations) as scratch:
        db = await Database.open(scratch, min_size=1, max_size=6)
        try:
            engine = Engine(db, _copy(app.registry), event_types=app.event_types)
            Sender(db, list(channels), engine.templates).install(engine.registry)
            await engine.start()
            try:
                async with FrozenClock(db, start) as clock:
                    async with db.transaction(role="engine") as tx:
                        created = await create_organization(tx, "simulation", name="Simulation", actor="simulation")
                    await Scheduler(db, app.schedules.values()).register()
                    yield Simulation(db, engine, clock, created.organization_id, app.schedules)
            finally:
                await engine.stop()
        finally:
            await db.close()


def _copy(registry: AppRegistry) -> AppRegistry:
    """Return a registry that can get other senders without changing that of the app."""
    return replace(
        registry,
        tasks=dict(registry.tasks),
        kinds=dict(registry.kinds),
        end_hooks=dict(registry.end_hooks),
        idle_limits_s=dict(registry.idle_limits_s),
    )


@asynccontextmanager
async def scratch_database(url: str, migrations: Sequence[Migrations]) -> AsyncGenerator[str]:
    """Create a migrated database beside the given one, and drop it at the end."""
    name = f"onceward_simulation_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(url)
    try:
        await admin.execute(f"create database {name}")
    finally:
        await admin.close()
    scratch = urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
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

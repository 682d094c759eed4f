"""Measure the daily and the weekly run of engagement, for ten thousand and for a million users, and their memory.

In `daily-10k` every user gets a goodbye, which is the worst day: each moves, is audited and gets a message. In the
cases with a million users 5 % are due, and reading one of the tables without an index fails the case. A run ends when
its messages are queued; sending has a pace of its own. `dashboard-1m` loads the page, `send-1m` queues a message to one
user, finds it under the names of the specification, and records an answer.
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Self
from uuid import UUID, uuid4

import psutil

from benchmarks.measure import Measurement, Size, compare
from benchmarks.scans import full_scans
from onceward import Engine
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.schedules import RunReport, Scheduler, run_here
from onceward.trust import create_organization
from onceward_apps.engagement import QueuedMessage, activity, app, queue_message
from onceward_apps.engagement.app import EngagementSettings
from onceward_apps.engagement.overview import overview, returned
from onceward_apps.engagement.store import views

CASES = ("daily-10k", "weekly-10k", "daily-1m", "weekly-1m", "memory-1m", "dashboard-1m", "send-1m")
TABLES = ("engagement.user_profiles", "engagement.user_engagement_states", "engagement.transactions")

PAGE_MS = 100.0
USERS = """
with users as (
    insert into engagement.user_profiles (organization_id, user_id, whatsapp_jid, locale)
    select $1, gen_random_uuid(), '+55119' || (10000000 + n), case when n % 2 = 0 then 'pt-BR' else 'en' end
      from generate_series(1, $2::int) as n
    returning user_id
)
insert into engagement.user_engagement_states (organization_id, user_id, last_activity_at)
select $1, user_id, onceward.now() - case when random() < $3 then interval '15 days' else interval '8 days' * random()
       end
  from users
"""
TRANSACTIONS = """
insert into engagement.transactions (organization_id, user_id, created_at)
select organization_id, user_id, onceward.now() - interval '6 days' * random()
  from engagement.user_engagement_states, generate_series(1, 2)
 where last_activity_at > onceward.now() - interval '7 days'
"""
CLEAR = """
truncate engagement.user_profiles, engagement.user_engagement_states, engagement.transactions, engagement.transitions,
    onceward.run_parts, onceward.messages, onceward.work, onceward.jobs, onceward.run_items,
    onceward.runs, onceward.audit_pending cascade
"""
# What a script without any guarantee would do: one UPDATE, one INSERT of the messages.
BARE = """
with moved as (
    update engagement.user_engagement_states s
       set state = 'goodbye_sent', goodbye_sent_at = now(), goodbye_expires_at = now() + interval '48 hours'
     where state = 'active' and last_activity_at <= now() - interval '14 days' returning user_id
)
insert into public.bare_queue (user_id, message_key, idempotency_key)
select user_id, 'engagement.goodbye.self_select', user_id || ':goodbye_sent:2026-11-16' from moved
"""
BARE_WEEKLY = """
insert into public.bare_queue (user_id, message_key, idempotency_key)
select s.user_id, 'engagement.weekly_review', s.user_id || ':weekly_review:2026-W47'
  from engagement.user_engagement_states s
  left join engagement.transactions t on t.user_id = s.user_id and t.created_at > now() - interval '7 days'
 where s.state in ('active', 'help_flow') and (t.id is not null or s.last_activity_at > now() - interval '7 days')
 group by s.user_id
"""


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases. `daily-*` and `weekly-*` are seconds per run, `memory-1m` is MiB that a run adds to the
    process.
    """
    app.use_settings(EngagementSettings())
    db = await Database.open(url, min_size=2, max_size=8)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.plus(app.features()).migrations)
            await conn.execute(
                "create table if not exists public.bare_queue (user_id uuid, message_key text, idempotency_key text)"
            )
        house = _House(db)
        await house.open()
        small, large = size.pick(10_000, 10_000, 50), size.pick(1_000_000, 100_000, 200)
        results: list[Measurement] = []
        for case, name, users, share, bare in (
            ("daily-10k", "engagement-daily", small, 1.0, BARE),
            ("weekly-10k", "engagement-weekly", small, 0.0, BARE_WEEKLY),
            ("daily-1m", "engagement-daily", large, 0.05, BARE),
            ("weekly-1m", "engagement-weekly", large, 0.05, BARE_WEEKLY),
        ):
            if only in (None, case):
                results.append(await house.case(case, name, users, share, bare, size.turns() if users <= small else 1))
        if only in (None, "memory-1m"):
            results.append(await house.memory(large))
        if only in (None, "dashboard-1m", "send-1m"):
            results += await house.pages(large, only)
        return results
    finally:
        await db.close()


class _Memory:
    """Measures how much memory the process has at most while the block runs, above what it has at the start.

    It samples, because the maximum that the kernel remembers may be one of an earlier case.
    """

    added_mib = 0.0

    def __enter__(self) -> Self:
        gc.collect()
        self._process = psutil.Process()
        self._before = self._process.memory_info().rss
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            ended = self._ended.wait(0.02)
            self.added_mib = max(self.added_mib, (self._process.memory_info().rss - self._before) / (1 << 20))
            if ended:
                return


class _House:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._engine = Engine(db, app.registry, event_types=app.event_types)
        self._organization: UUID

    async def open(self) -> None:
        async with self._db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = 'bench'")
            if existing is None:
                existing = (await create_organization(tx, "bench", name="Bench", actor="bench")).organization_id
            self._organization = existing
        await Scheduler(self._db, app.schedules.values()).register()

    async def case(self, case: str, name: str, users: int, share: float, bare: str, turns: int) -> Measurement:
        async def ours() -> float:
            await self._fill(users, share)
            async with full_scans(self._db, TABLES, most=users):
                began = time.perf_counter()
                report = await self._run(name)
                taken = time.perf_counter() - began
            assert report.status == "success", report
            assert report.processed > 0, report
            return taken

        async def theirs() -> float:
            await self._fill(users, share)
            await self._db.execute("truncate public.bare_queue")
            began = time.perf_counter()
            await self._db.execute(bare)
            return time.perf_counter() - began

        return await compare(
            "engagement",
            case,
            ours,
            unit="s",
            baseline="two bare statements",
            theirs=theirs,
            turns=turns,
            smaller_is_better=True,
        )

    async def memory(self, users: int) -> Measurement:
        async def ours() -> float:
            await self._fill(users, 0.5)
            with _Memory() as memory:
                report = await self._run("engagement-daily")
            assert report.status == "success", report
            assert report.processed > 0, report
            return memory.added_mib

        async def theirs() -> float:
            return 64.0

        return await compare(
            "engagement",
            "memory-1m",
            ours,
            unit="MiB",
            baseline="a limit of 64 MiB",
            theirs=theirs,
            turns=1,
            smaller_is_better=True,
        )

    async def pages(self, users: int, only: str | None) -> list[Measurement]:
        """Measure the dashboard and one message beside this number of users, after a daily run."""
        await self._fill(users, 0.05)
        await self._run("engagement-daily")
        await self._run("engagement-counts")
        user, number = await self._anybody()

        async def dashboard() -> float:
            began = time.perf_counter()
            await overview(self._db, self._organization)
            await views.runs(self._db, self._organization, limit=10)
            await returned(self._db, self._organization)
            await views.unreachable(self._db, self._organization, limit=20)
            return (time.perf_counter() - began) * 1000

        async def send() -> float:
            message = QueuedMessage(user_id=user, message_type="goodbye", idempotency_key=f"bench:{uuid4()}")
            began = time.perf_counter()
            async with self._engine.transaction(organization=self._organization) as tx:
                queued = await queue_message(tx, message)
                assert await views.queued_messages(tx, [queued.id])
                await activity.record_reply(tx, [number], None, at=datetime.now(UTC))
            return (time.perf_counter() - began) * 1000

        results: list[Measurement] = []
        for case, ours in (("dashboard-1m", dashboard), ("send-1m", send)):
            if only in (None, case):
                await ours()  # plans and pages of the first time
                async with full_scans(self._db, TABLES, most=users):
                    results.append(await self._within(case, ours, PAGE_MS))
        return results

    async def _anybody(self) -> tuple[UUID, str]:
        row = await self._db.fetchrow(
            "select user_id, whatsapp_jid from engagement.user_profiles where organization_id = $1"
            " order by user_id limit 1",
            self._organization,
        )
        assert row is not None
        return row["user_id"], row["whatsapp_jid"]

    async def _within(self, case: str, ours: Callable[[], Awaitable[float]], limit_ms: float) -> Measurement:
        async def theirs() -> float:
            return limit_ms

        return await compare(
            "engagement",
            case,
            ours,
            unit="ms",
            baseline=f"a limit of {limit_ms:g} ms",
            theirs=theirs,
            turns=3,
            smaller_is_better=True,
        )

    async def _fill(self, users: int, share: float) -> None:
        await self._db.execute(CLEAR)
        await self._db.execute(USERS, self._organization, users, share)
        await self._db.execute(TRANSACTIONS)
        await self._db.execute(
            "analyze engagement.user_profiles, engagement.user_engagement_states, engagement.transactions"
        )

    async def _run(self, name: str) -> RunReport:
        return await run_here(self._db, app.schedules[name], open_tx=self._engine.open_tx, by="bench")

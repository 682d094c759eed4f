"""Measure the clinic: how fast a backlog of provider statuses drains, and how long each provider waits for its answer.

`statuses` compares the drain of WhatsApp statuses (five per message) with plain batch jobs that write one row each: at least
half of their rate is the budget. `answer` is the p95 of the time from a signed WhatsApp webhook to its answer.
"""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

from benchmarks.measure import Measurement, Size, compare
from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward.testing import TestInbox, drain
from onceward.trust import create_organization
from onceward_apps.clinic import app

CASES = ("statuses", "answer")
STATES = ("sent", "delivered", "read", "sent", "delivered")
CLEAR = """
truncate onceward.messages, onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.webhook_events,
    clinic.outgoing cascade
"""
MESSAGES = """
insert into onceward.messages (id, organization_id, key, channel, template, version, recipient, status, reference, sent_at)
select nextval('onceward.ids'), $1, 'bench:' || n, 'whatsapp', 'clinic.reminder', '1', 'bench', 'success', 'wamid.' || n, now()
  from generate_series(1, $2::int) n
"""

bare = Onceward("bench_clinic")


@bare.job(batch=25, name="bench.touch")
async def touch(jobs: list[Job], tx: Tx) -> None:
    """Write one row per job, as a status does."""
    await tx.execute(
        "update onceward.messages set delivery = 'sent' where reference = any($1::text[])",
        [job.args["reference"] for job in jobs],
    )


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases: `statuses` is statuses per second, `answer` is milliseconds at p95."""
    db = await Database.open(url, min_size=2, max_size=8)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.plus(app.features()).migrations)
        rig = _Rig(db)
        await rig.open()
        results: list[Measurement] = []
        try:
            if only in (None, "statuses"):
                results.append(await rig.statuses(size.pick(100_000, 10_000, 50), size.turns()))
            if only in (None, "answer"):
                results.append(await rig.answers(size.pick(2_000, 500, 20)))
        finally:
            await rig.close()
        return results
    finally:
        await db.close()


class _Rig:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._engine = Engine(db, app.registry, event_types=app.event_types)
        self._bare = Engine(db, bare.registry)
        self._inbox = TestInbox(self._engine, app)
        self._organization: UUID

    async def open(self) -> None:
        async with self._db.transaction(role="engine") as tx:
            slug = f"bench-{uuid4().hex[:8]}"
            self._organization = (await create_organization(tx, slug, name="Bench", actor="bench")).organization_id
        await self._inbox.__aenter__()
        self._source = f"bench-{uuid4().hex[:8]}"
        await self._inbox.add_source(
            self._source, provider="whatsapp", organization=self._organization, options={"verify_token": "t"}
        )

    async def close(self) -> None:
        await self._inbox.__aexit__(None, None, None)

    async def statuses(self, count: int, turns: int) -> Measurement:
        async def ours() -> float:
            await self._fill(count // 5)
            for first in range(0, count, 500):
                await self._post(range(first, min(first + 500, count)))
            began = time.perf_counter()
            await drain(self._engine, "events")
            return count / (time.perf_counter() - began)

        async def theirs() -> float:
            await self._fill(count // 5)
            async with self._bare.transaction(organization=self._organization) as tx:
                await tx.enqueue_many(
                    [touch.call(reference=f"wamid.{1 + n % max(count // 5, 1)}") for n in range(count)]
                )
            began = time.perf_counter()
            await drain(self._bare, "default")
            return count / (time.perf_counter() - began)

        return await compare(
            "clinic", "statuses", ours, unit="/s", baseline="plain batch jobs", theirs=theirs, turns=turns
        )

    async def answers(self, count: int) -> Measurement:
        async def ours() -> float:
            await self._fill(count)
            taken: list[float] = []
            for n in range(count):
                began = time.perf_counter()
                await self._post(range(n, n + 1))
                taken.append((time.perf_counter() - began) * 1000)
            return sorted(taken)[int(count * 0.95)]

        async def theirs() -> float:
            return 200.0

        return await compare(
            "clinic",
            "answer",
            ours,
            unit="ms",
            baseline="a limit of 200 ms",
            theirs=theirs,
            turns=1,
            smaller_is_better=True,
        )

    async def _fill(self, messages: int) -> None:
        await self._db.execute(CLEAR)
        await self._db.execute(MESSAGES, self._organization, max(messages, 1))

    async def _post(self, numbers: range) -> None:
        statuses: list[dict[str, Any]] = [
            {"id": f"wamid.{1 + n // 5}", "status": STATES[n % 5], "timestamp": str(n), "recipient_id": "1"}
            for n in numbers
        ]
        change = {"field": "messages", "value": {"metadata": {"phone_number_id": "1"}, "statuses": statuses}}
        payload = {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}
        reply = await self._inbox.post(payload, source=self._source)
        assert reply.status == 200, reply

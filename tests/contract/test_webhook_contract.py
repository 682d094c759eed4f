"""The contract of the webhook pipeline, as one test: ingest, resend, fail to a dead letter, replay.

Once through the HTTP endpoint with a worker of ours, once through SQL with a worker in another language. What was in the
tables, the worker's log and the metrics are kept in the directory that ONCEWARD_TEST_ARTIFACTS names.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.db.commands.db import connection_environment
from onceward.db.embedded import BIN
from onceward.inbox.replay import Filter, replay
from onceward.telemetry.metrics import REGISTRY, render
from onceward.testing import until
from tests.child import end_all
from tests.inbox.conftest import Office

SIDE_EFFECTS = """
create table webhook_side_effects (
    id uuid primary key default gen_random_uuid(), provider text not null, event_id text not null, payload jsonb,
    created_at timestamptz not null default now(), unique (provider, event_id)
);
create table contract_switch (broken boolean not null);
insert into contract_switch values (true);
grant all on webhook_side_effects, contract_switch to onceward_app, onceward_sql_worker;
"""
SENDER = "00000000-0000-0000-0000-000000000001"
INSERT = """
insert into webhook_events (webhook_id, event_id, payload, status, received_at)
values ($1::uuid, $2::text, $3::jsonb, 'pending', now())
on conflict (webhook_id, event_id) do nothing
returning id
"""
REPLAY = """
with dl as (select id from webhook_events where status = 'dead_letter' and event_id = $1 order by received_at limit 100)
update webhook_events set status = 'pending', attempts = 0, last_attempt_at = null, error = null
from dl where webhook_events.id = dl.id
returning webhook_events.event_id
"""


class Clock:
    """Business time that runs on, and can be pushed."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._ahead_s = 0

    async def push(self, seconds: int) -> None:
        self._ahead_s += seconds
        await self._db.execute(
            "create or replace function onceward.now() returns timestamptz language sql stable parallel safe as"
            f" 'select now() + interval ''{self._ahead_s} seconds'''"
        )


async def side_effects(db: Database, event_id: str) -> int:
    return await db.fetchval("select count(*) from webhook_side_effects where event_id = $1", event_id)


async def standing(db: Database, event_id: str) -> tuple[str, int]:
    row = await db.fetchrow("select status, attempts from webhook_events where event_id = $1", event_id)
    return (row["status"], row["attempts"])


async def dead_after_backoff(db: Database, event_id: str) -> None:
    """Push the clock past each wait (2, 5, 15, 60 s) until the attempts are used up."""
    clock = Clock(db)
    for attempt in range(1, 6):

        async def tried(attempt: int = attempt) -> bool:
            status, attempts = await standing(db, event_id)
            return attempts >= attempt and status != "processing"

        await until(tried, timeout_s=20)
        if attempt < 5:
            assert (await standing(db, event_id))[0] == "pending"
            await clock.push(61)
    assert await standing(db, event_id) == ("dead_letter", 5)


async def keep(db: Database, name: str, log: str) -> None:
    """What a reader of a failed run wants to see."""
    directory = os.environ.get("ONCEWARD_TEST_ARTIFACTS")
    if not directory:
        return
    target = Path(directory) / name
    target.mkdir(parents=True, exist_ok=True)
    for table in ("webhook_events", "webhook_side_effects", "onceward.attempts", "onceward.audit_log"):
        rows = [dict(row) for row in await db.fetch(f"select * from {table}")]
        text = orjson.dumps(rows, default=str, option=orjson.OPT_INDENT_2)
        (target / f"{table.rpartition('.')[2]}.json").write_bytes(text)
    (target / "worker.log").write_text(log, encoding="utf-8")
    (target / "metrics.txt").write_bytes(render()[0])


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def test_ingest_resend_dead_letter_and_replay_over_http(office: Any, capfd: pytest.CaptureFixture[str]) -> None:
    app = Onceward("contract")

    @app.on("stripe", "payment_intent.succeeded")
    async def process(event: Event, tx: Tx) -> None:
        if event.data.get("fail") and await tx.fetchval("select broken from contract_switch"):
            raise RuntimeError("simulated failure")
        await tx.execute(
            "insert into webhook_side_effects (provider, event_id, payload) values ('stripe', $1, $2)",
            event.event_id,
            event.payload,
        )

    here: Office = await office(app)
    db = here.db
    await db.execute(SIDE_EFFECTS)
    webhook_id = str(await here.source())
    await here.start_worker()
    try:
        first = await here.post("payment_intent.succeeded", fields={"id": "evt-1"})
        assert first.status == 200
        await here.status(first.json["id"], "success")
        assert await side_effects(db, "evt-1") == 1

        again = await here.post("payment_intent.succeeded", fields={"id": "evt-1"})
        assert (again.status, again.headers.get("onceward-duplicate")) == (200, "true")
        assert await side_effects(db, "evt-1") == 1

        failing = await here.post("payment_intent.succeeded", fields={"id": "evt-fail", "data.object.fail": True})
        assert failing.status == 200
        await dead_after_backoff(db, "evt-fail")
        assert await side_effects(db, "evt-fail") == 0

        await db.execute("update contract_switch set broken = false")
        done = await replay(db, Filter(event_ids=["evt-fail"]), actor="operator:test", reason="handler repaired")
        assert done.done == [failing.json["id"]]
        here.engine.waker.wake("events")
        await here.status(failing.json["id"], "success")
        assert await side_effects(db, "evt-fail") == 1

        audited = await db.fetchrow("select * from audit.audit_logs where operation = 'event.replayed'")
        assert (audited["actor"], audited["reason"]) == ("operator:test", "handler repaired")
        await here.inbox.upkeep.count()
        of = {"webhook_id": webhook_id, "provider": "stripe"}
        assert metric("webhook_processing_total", **of, result="success") == 2
        assert metric("webhook_processing_total", **of, result="error") == 5
        assert metric("webhook_dead_letter_total", **of, reason="max_attempts_exceeded") == 1
        assert metric("webhook_replay_total", webhook_id=webhook_id, operator="operator:test") == 1
    finally:
        await keep(db, "http", capfd.readouterr().out)


@asynccontextmanager
async def node_worker(url: str, log: list[str]) -> AsyncIterator[None]:
    environment = {**os.environ, **connection_environment(url), "PSQL": str(BIN.path("psql"))}
    process = await asyncio.create_subprocess_exec(
        "node",
        str(Path(__file__).with_name("worker.mjs")),
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        try:
            said, _ = await asyncio.wait_for(process.communicate(b"stop\n"), timeout=30)
            log.extend(said.decode().splitlines())
        finally:
            await end_all([process])


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed: apt install nodejs")
async def test_ingest_resend_dead_letter_and_replay_over_sql_in_another_language(db: Database) -> None:
    await db.execute(SIDE_EFFECTS)
    log: list[str] = []
    try:
        async with node_worker(db.url, log):
            assert await db.fetchval(INSERT, SENDER, "evt-1", {"foo": "bar"}) is not None
            await until(lambda: side_effects(db, "evt-1"), timeout_s=20)
            assert await db.fetchval(INSERT, SENDER, "evt-1", {"foo": "bar"}) is None
            assert await side_effects(db, "evt-1") == 1
            assert await standing(db, "evt-1") == ("success", 1)

            await db.execute(INSERT, SENDER, "evt-fail", {"fail": True})
            await dead_after_backoff(db, "evt-fail")
            assert (
                await db.fetchval("select error from webhook_events where event_id = 'evt-fail'") == "simulated failure"
            )
            assert await side_effects(db, "evt-fail") == 0

            await db.execute("update contract_switch set broken = false")
            replayed = await db.fetch(REPLAY, "evt-fail")
            assert [row["event_id"] for row in replayed] == ["evt-fail"]
            await until(lambda: side_effects(db, "evt-fail"), timeout_s=20)
            assert await standing(db, "evt-fail") == ("success", 1)
            assert await db.fetchval("select count(*) from audit.audit_logs where operation = 'event.replayed'") == 1
        assert log[0] == "worker started"
        assert log[-1] == "worker stopped"
        assert [line for line in log if line.startswith("success")] == ["success evt-1", "success evt-fail"]
    finally:
        await keep(db, "sql", "\n".join(log))

"""A dead letter notifies the administrators with what they need to find it: type, severity, event, attempts."""

from __future__ import annotations

from uuid import uuid4

from onceward import Engine, Onceward, Permanent
from onceward.db import Database
from onceward.testing import drain

app = Onceward("shop")


@app.job(name="fails", max_attempts=1)
async def fails(*, n: int) -> None:
    raise Permanent("broken")


async def test_a_dead_job_is_a_fatal_notice_with_its_attempts(db: Database) -> None:
    engine = Engine(db, app.registry)
    job = await engine.enqueue(fails, n=1)
    await drain(engine)
    notice = await db.fetchrow("select type, severity, title, details from onceward.notices")
    assert notice is not None
    assert (notice["type"], notice["severity"]) == ("DEAD_LETTER", "fatal")
    assert notice["details"] == {
        "dead_letter_id": job.id,
        "kind": "job",
        "task": "fails",
        "attempts": 1,
        "reason": "permanent",
    }


async def test_a_dead_webhook_is_a_fatal_notice_with_the_event(db: Database) -> None:
    seq = await db.fetchval(
        "insert into onceward.webhook_events (webhook_id, event_id, provider, type, payload, status)"
        " values ($1, 'evt_7', 'stripe', 'charge.succeeded', '{}', 'pending') returning seq",
        uuid4(),
    )
    await db.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at, attempts)"
        " values ($1, 'event', 'stripe/charge.succeeded', 'events', now(), 4) on conflict (id) do update set attempts = 4",
        seq,
    )
    await db.execute(
        "update onceward.work set dead_reason = 'max_attempts_exceeded', dead_at = now() where id = $1", seq
    )
    notice = await db.fetchrow("select type, severity, title, details from onceward.notices")
    assert notice is not None
    assert (notice["type"], notice["severity"]) == ("WEBHOOK_DEAD_LETTER", "fatal")
    assert notice["title"] == "Sql webhook processing failed permanently"  # no source has this id: written from SQL
    assert notice["details"] == {
        "dead_letter_id": seq,
        "event_id": "evt_7",
        "event_type": "charge.succeeded",
        "attempts": 5,
        "reason": "max_attempts_exceeded",
    }

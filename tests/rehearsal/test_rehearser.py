"""A rehearsal shows everything that a handler would cause, and leaves the database as it was."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward import Engine, MessageEnd, Tx
from onceward.db import Database
from onceward.rehearsal import RehearsalError, Rehearser
from onceward.rehearsal.effects import (
    AuditEffect,
    BroadcastEffect,
    CapacityEffect,
    EntryEffect,
    JobEffect,
    JournalEffect,
    MessageEffect,
    PublishedEffect,
    Rehearsal,
)
from onceward.rehearsal.recorded_work import load
from onceward.testing import drain
from onceward.work import BatchResults, Claimed, Task
from tests.dumps import dump
from tests.rehearsal import kiosk


async def rehearse(engine: Engine, *ids: int) -> list[Rehearsal]:
    async with Rehearser(engine) as rehearser, engine.db.acquire() as conn:
        return [await rehearser.rehearse(one) for one in await load(conn, engine.registry, ids)]


async def enqueued(engine: Engine, organization: UUID, name: str, **arguments: Any) -> int:
    async with engine.transaction(organization=organization) as tx:
        return await tx.fetchval("select onceward.enqueue($1, $2::jsonb)", name, arguments)


async def test_a_rehearsal_shows_everything_that_a_handler_would_cause_and_nothing_of_it_happens(db: Database) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)
    before = await dump(db)
    kiosk.committed.clear()

    [shown] = await rehearse(engine, event)

    assert await dump(db) == before
    assert kiosk.committed == []
    assert shown.failure is None, shown.failure
    assert (shown.state, shown.result, shown.already_done) == ("caused", {"order": "K-7"}, None)
    effects = shown.effects
    assert effects.jobs == (JobEffect("pack", {"number": "K-7"}, "default", "pack:K-7", 7200),)
    assert effects.messages == (
        MessageEffect(
            "kiosk-receipt",
            "email",
            "m***@example.com",
            "receipt:K-7",
            "Your order K-7",
            "Thank you for order K-7.",
        ),
    )
    assert effects.published == (PublishedEffect("order.paid", {"number": "K-7"}, "K-7", 0),)
    assert effects.journals == (
        JournalEffect(f"event:{event}:post", "posted", (EntryEffect("cash", "sales", 1200, "EUR"),)),
    )
    assert effects.broadcasts == (BroadcastEffect("kiosk/K-7", {"state": "paid"}),)
    assert effects.audit == (AuditEffect("order.paid", "order", "K-7", {"state": "paid"}),)
    assert effects.capacity == (CapacityEffect("hall", "sold", 2),)
    lines, log, orders, seats = effects.rows
    assert (lines.table, lines.verb, lines.after["what"], lines.after["quantity"]) == (
        "kiosk.lines",
        "insert",
        "seat",
        2,
    )
    assert (log.table, log.verb, dict(log.before)) == ("kiosk.log", "delete", {"line": "cleaned"})
    assert (orders.table, orders.verb, orders.after["amount"]) == ("kiosk.orders", "insert", 1200)
    assert lines.after["order_id"] == orders.key["id"]
    assert (seats.table, dict(seats.key)) == ("kiosk.seats", {"seat": "A1"})  # A5 got the value that it had
    assert (dict(seats.before), dict(seats.after)) == ({"taken_by": None}, {"taken_by": "K-7"})


async def test_a_second_rehearsal_of_handled_work_says_that_it_is_already_done(db: Database) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization)
    await drain(engine)
    before = await dump(db)

    [shown] = await rehearse(engine, event)

    assert (shown.state, shown.already_done) == ("failed", "orders_number_key of orders")
    assert await dump(db) == before


async def test_calls_to_the_outside_are_shown_and_not_made(db: Database) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    refund = await enqueued(engine, organization, "refund", number="K-7")
    library = await enqueued(engine, organization, "old_library")

    first, second = await rehearse(engine, refund, library)

    assert first.state == "outside"
    [call] = first.effects.outside
    assert (call.verb, call.target, call.key) == ("POST", "https://pay.example/v1/refunds", f"job:{refund}:refund")
    assert second.state == "outside"
    assert second.effects.outside[0].verb in ("CONNECT", "RESOLVE")


async def test_what_a_handler_does_wrong_is_a_result(db: Database) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    names = [("commits", {}), *(("breaks", {"how": how}) for how in ("permanent", "snooze", "deferred", "savepoint"))]
    ids = [await enqueued(engine, organization, name, **given) for name, given in names]
    missing = await enqueued(engine, organization, "nobody")
    before = await dump(db)

    commits, permanent, snooze, deferred, savepoint, nobody = await rehearse(engine, *ids, missing)

    assert await dump(db) == before
    assert commits.failure is not None
    assert commits.failure.type == "CommitRefused"
    assert permanent.failure is not None
    assert permanent.failure.message == "the hall is closed"
    assert permanent.failure.at is not None
    assert permanent.failure.at.startswith("kiosk.py:")
    assert (permanent.state, snooze.state) == ("failed", "put_off")
    assert deferred.failure is not None
    assert deferred.failure.type == "ForeignKeyViolationError"
    assert savepoint.failure is None, savepoint.failure
    assert [(row.table, row.verb, dict(row.after)) for row in savepoint.effects.rows] == [
        ("kiosk.log", "insert", {"line": "kept"}),
        ("kiosk.log", "insert", {"line": "mine"}),
        ("kiosk.seats", "update", {"taken_by": "me"}),
    ]
    assert nobody.failure is not None
    assert "no handler for nobody" in nobody.failure.message


async def test_a_job_without_a_transaction_writes_into_that_of_its_rehearsal(db: Database) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    alone = await enqueued(engine, organization, "alone")
    before = await dump(db)

    [shown] = await rehearse(engine, alone)

    assert shown.failure is None
    assert sorted(row.after["line"] for row in shown.effects.rows) == ["one", "three", "two"]
    assert [job.task for job in shown.effects.jobs] == ["pack"]
    assert await dump(db) == before


async def test_the_database_refuses_to_commit_a_rehearsal(db: Database) -> None:
    with pytest.raises(Exception, match="a rehearsal is never committed"):
        async with db.transaction(role="engine") as tx:
            await tx.execute("insert into onceward.rehearsal_seals (work_id) values (1)")


async def test_only_events_and_jobs_can_be_rehearsed(db: Database) -> None:
    engine, _ = await kiosk.prepare(db, kiosk.make_app())
    with pytest.raises(RehearsalError, match="99 is neither an event nor a job"):
        await rehearse(engine, 99)


async def test_an_event_without_a_handler_causes_nothing_and_a_member_of_a_batch_has_its_own_result(
    db: Database,
) -> None:
    engine, organization = await kiosk.prepare(db, kiosk.make_app())
    event = await kiosk.arrive(db, organization, type="nobody.cares")
    batched = await enqueued(engine, organization, "batched")

    async def run(works: list[Claimed], _tx: object) -> BatchResults:
        return BatchResults([{"work": work.id} for work in works])

    engine.registry.add(Task(name="batched", run=run, transactional=True, batch=5))
    unhandled, member = await rehearse(engine, event, batched)
    assert (unhandled.state, unhandled.result, unhandled.failure) == ("nothing", "unhandled", None)
    assert (member.state, member.result) == ("nothing", {"work": batched})


async def test_the_deferred_hook_of_a_message_is_rehearsed_where_no_message_is_sent(db: Database) -> None:
    app = kiosk.make_app()
    ended: list[int] = []

    @app.on_message_end
    async def note(tx: Tx, message: MessageEnd) -> None:
        ended.append(message.id)

    engine, organization = await kiosk.prepare(db, app)
    async with engine.transaction(organization=organization) as tx:
        to = {"email": "m@example.com"}
        sent = await tx.send("kiosk-receipt", to=to, key="m", data={"number": "1"}, channel="email")
    end: dict[str, Any] = {"id": sent.id, "task": "message:email", "outcome": "success"}
    end["arguments"] = {"key": "m", "template": "kiosk-receipt", "channel": "email"}
    end |= {"attempts": 1, "organization": str(organization), "reason": None, "error": None, "result": {}}
    async with engine.transaction(organization=organization) as tx:
        hook = await tx.fetchval("select onceward.enqueue('message:email#on_end', $1::jsonb)", end)
    [shown] = await rehearse(engine, hook)
    assert (shown.state, shown.failure, ended) == ("nothing", None, [sent.id])

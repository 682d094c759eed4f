"""Types nobody handles, sources that are paused or paced, ordered events, handlers that are jobs, old bodies."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.inbox import UpkeepOptions
from onceward.inbox.checks import CHECKS
from onceward.inbox.erasers import ERASERS
from onceward.inbox.upkeep import Upkeep, old_bodies
from onceward.testing import until
from onceward.trust.erase import erase
from onceward.work.unserved import UnservedWalk
from tests.inbox.conftest import Office


def quiet() -> Onceward:
    app = Onceward("quiet")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> str:
        return "handled"

    return app


def upkeep(here: Office, **options: Any) -> Upkeep:
    return Upkeep(here.db, here.inbox.catalog, here.engine.waker, options=UpkeepOptions(strip_pause_s=0.0, **options))


async def test_an_unhandled_type_is_success_after_a_while_and_warned_about_once(office) -> None:
    here = await office(quiet())
    await here.source()
    reply = await here.post("customer.created")
    seq = reply.json["id"]
    assert await here.db.fetchval("select queue from onceward.work") == "unhandled"
    patient = upkeep(here, unhandled_after_s=0.0)
    assert await patient.visit_unhandled() == 0, "without a worker nobody can say that the type is unknown"
    await here.start_worker()
    with capture_logs() as lines:
        assert await until(patient.visit_unhandled) == 1
        row = await here.event(seq)
        assert (row["status"], row["result"]) == ("success", "unhandled")
        again = await here.post("customer.created")
        assert await until(patient.visit_unhandled) == 1
        assert (await here.event(again.json["id"]))["result"] == "unhandled"
    [warning] = [line for line in lines if line["event"] == "event_type.unhandled"]
    name = await here.db.fetchval("select name from onceward.sources where origin <> 'builtin'")
    assert (warning["source"], warning["type"]) == (name, "customer.created")


def other(name: str = "other") -> Onceward:
    app = Onceward(name)

    @app.on("github", "push")
    async def pushed(event: Event, tx: Tx) -> None: ...

    return app


@pytest.mark.parametrize("assigned", [None, "quiet"])
async def test_a_backlog_waits_while_the_worker_of_its_app_is_away(office, assigned: str | None) -> None:
    """Two apps share a database, and only the worker of the other one runs."""
    theirs = await office(other())
    await theirs.start_worker()
    here = await office(quiet())
    await here.source("ours", provider="stripe", app=assigned)
    worker = await here.start_worker()
    await until(lambda: here.db.fetchval("select count(*) = 2 from onceward.apps"))
    await worker.stop()
    here.workers.remove(worker)
    await here.post("charge.succeeded", name="ours")  # this node knows the handler, although no worker does
    await theirs.inbox.catalog.refresh()
    await theirs.source("from-elsewhere", provider="stripe", app=assigned)
    await theirs.post("charge.succeeded", name="from-elsewhere")
    await theirs.post("customer.created", name="from-elsewhere")
    await here.db.execute("update onceward.work set sort_at = sort_at - interval '1 hour'")
    patient = upkeep(theirs, unhandled_after_s=0.0)
    assert await patient.visit_unhandled() == 0
    async with here.db.acquire() as conn:
        await UnservedWalk().step(conn)
        reasons = await conn.fetch("select queue, reason, waiting from onceward.unserved order by 1")
    name = f"{assigned}:stripe" if assigned else "stripe"
    assert {tuple(row) for row in reasons} == {("events", "no_handler", 1), ("unhandled", "no_app", 1)}
    assert await here.db.fetchval("select count(*) from onceward.unserved where task like $1", f"{name}/%") == 3
    assert await here.db.fetchval("select count(*) from onceward.webhook_events where status = 'pending'") == 3
    await here.start_worker()
    await until(patient.visit_unhandled)
    await here.db.execute("update onceward.work set sort_at = now() where sort_at > now()")
    await until(lambda: here.db.fetchval("select count(*) = 0 from onceward.work where queue = 'events'"))
    await until(lambda: _visited(patient, here))
    rows = await here.db.fetch("select type, result from onceward.webhook_events order by seq")
    assert [row["result"] for row in rows] == ["handled", "handled", "unhandled"]


async def _visited(patient: Upkeep, here: Office) -> bool:
    await patient.visit_unhandled()
    return await here.db.fetchval("select count(*) = 0 from onceward.work")


async def test_an_event_whose_app_stays_away_is_a_dead_letter_not_a_success(office) -> None:
    here = await office(other())
    await here.source("stripe", app="quiet")
    await here.start_worker()
    reply = await here.post("charge.succeeded")
    patient = upkeep(here, unhandled_after_s=0.0)
    assert await patient.visit_unhandled() == 0
    await here.db.execute("update onceward.unserved set since = now() - interval '25 hours'")
    assert await patient.visit_unhandled() == 1
    row = await here.event(reply.json["id"])
    assert (row["status"], row["error"][:10]) == ("dead_letter", "no_handler")
    async with here.db.acquire() as conn:
        for check in CHECKS:
            assert await check.run(conn) == []


async def test_an_event_of_a_removed_handler_waits_and_ends_as_a_dead_letter(office) -> None:
    before = await office(quiet())
    await before.source()
    seq = (await before.post()).json["id"]
    after = await office(other("quiet"))  # the next version of the app, without the handler
    await after.db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks, apps)"
        " values (1, 'h:1', '2', '{events}', '{github/push}', '{quiet}')"
    )
    assert await upkeep(after, unhandled_after_s=0.0).visit_unhandled() == 0
    async with after.db.acquire() as conn:
        await conn.execute("update onceward.work set sort_at = now() - interval '1 hour'")
        walk = UnservedWalk(patience=timedelta(0))
        assert [(each.reason, each.dead) for each in await walk.step(conn)] == [("no_handler", 1)]
    assert (await after.event(seq))["status"] == "dead_letter"


async def test_a_node_that_knows_less_does_not_decide(office) -> None:
    older = await office(Onceward("older"))
    await older.source()
    reply = await older.post()
    newer = await office(quiet())
    await newer.start_worker()
    row = await newer.status(reply.json["id"], "success")
    assert row["result"] == "handled"


async def test_a_rate_parks_instead_of_refusing(office) -> None:
    here = await office(quiet())
    await here.source(rate_per_s=20.0)
    replies = await asyncio.gather(*(here.post() for _ in range(10)))
    assert {reply.status for reply in replies} == {200}
    await here.start_worker()
    for reply in replies:
        await here.status(reply.json["id"], "success")
    spread = await here.db.fetchval("select max(started_at) - min(started_at) from onceward.attempts")
    assert spread >= timedelta(seconds=0.4)
    assert spread < timedelta(seconds=5), "paced by its rate, not by the poll interval"


async def test_events_about_the_same_thing_run_one_after_the_other_in_order(office) -> None:
    app = Onceward("ordered")
    seen: list[tuple[str, str]] = []
    running: set[str] = set()

    @app.on("stripe", "charge.succeeded", ordering="data.object.payment_intent")
    async def complete(event: Event, tx: Tx) -> None:
        subject = event.data["payment_intent"]
        assert subject not in running
        running.add(subject)
        await asyncio.sleep(0.01)
        running.discard(subject)
        seen.append((subject, event.event_id))

    here = await office(app)
    await here.source()
    for number in range(5):
        for subject in ("pi_a", "pi_b"):
            await here.post(fields={"id": f"evt_{subject}_{number}", "data.object.payment_intent": subject})
    await here.start_worker()
    await until(lambda: len(seen) == 10)
    for subject in ("pi_a", "pi_b"):
        assert [id for about, id in seen if about == subject] == [f"evt_{subject}_{n}" for n in range(5)]


async def test_an_ordered_event_is_handled_inline_when_it_is_its_turn(office) -> None:
    app = Onceward("ordered")

    @app.on("stripe", "charge.succeeded", ordering=True)
    async def complete(event: Event, tx: Tx) -> dict[str, str]:
        return {"did": event.event_id}

    here = await office(app)
    await here.source(mode="inline")
    reply = await here.post(fields={"id": "evt_o"})
    assert (reply.status, reply.json) == (200, {"status": "ok", "did": "evt_o"})
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_a_second_handler_is_a_job_of_its_own(office) -> None:
    app = quiet()
    tries: list[int] = []

    @app.on("stripe", "charge.succeeded", as_job=True, retry=[0.01])
    async def tell_crm(event: Event, tx: Tx) -> str:
        tries.append(event.attempt)
        if len(tries) == 1:
            raise RuntimeError("the CRM is asleep")
        return event.event_id

    here = await office(app)
    await here.source()
    reply = await here.post(fields={"id": "evt_two"})
    await here.start_worker()
    await here.status(reply.json["id"], "success")
    job = await until(
        lambda: here.db.fetchrow("select * from onceward.attempts where kind = 'job' and outcome = 'success'")
    )
    assert (job["task"], job["result"]) == ("stripe/charge.succeeded#tell_crm", "evt_two")
    assert tries == [1, 2]
    assert await here.db.fetchval("select caused_by from onceward.jobs") == reply.json["id"]
    assert await here.db.fetchval("select count(*) from onceward.jobs") == 1


def test_two_handlers_of_one_type_are_an_error_at_start() -> None:
    app = quiet()
    with pytest.raises(ValueError, match="as_job"):

        @app.on("stripe", "charge.succeeded")
        async def second(event: Event, tx: Tx) -> None: ...

    other = quiet()  # of the same name, so no source could choose between them
    with pytest.raises(ValueError, match="two handlers"):
        app.include(other)


async def test_included_apps_bring_their_handlers(office) -> None:
    whole = Onceward("whole")
    whole.include(quiet())
    here = await office(whole)
    await here.source()
    await here.start_worker()
    reply = await here.post()
    assert (await here.status(reply.json["id"], "success"))["result"] == "handled"


async def test_old_bodies_go_and_the_key_still_dedupes(office) -> None:
    here = await office(quiet())
    await here.source()
    await here.start_worker()
    done = await here.post(fields={"id": "evt_old"})
    await here.status(done.json["id"], "success")
    waiting = await here.post("customer.created", fields={"id": "evt_waiting"})
    await here.db.execute("update onceward.webhook_events set received_at = received_at - interval '40 days'")
    old = upkeep(here, keep=timedelta(days=30))
    await old.prune()
    row = await here.event(done.json["id"])
    assert (row["payload"], row["raw"], row["result"]) == (None, None, "handled")
    assert (await here.event(waiting.json["id"]))["payload"] is not None
    again = await here.post(fields={"id": "evt_old"})
    assert again.json == {"status": "ok", "result": "handled"}
    assert await here.db.fetchval("select count(*) from onceward.webhook_events") == 2
    forgetful = upkeep(here, keep=timedelta(days=1), keep_keys=timedelta(days=30))
    await forgetful.prune()
    left = await here.db.fetch("select event_id from onceward.webhook_events")
    assert [row["event_id"] for row in left] == ["evt_waiting"]


async def test_stripping_passes_windows_and_batches(db: Database) -> None:
    await db.execute(
        "insert into onceward.webhook_events (event_id, provider, type, raw, status, received_at)"
        " select 'evt_' || n, 'stripe', 't', 'x', 'success', now() - interval '40 days' from generate_series(1, 50) n"
    )
    await db.execute("update onceward.webhook_events set status = 'success', settles = settles + 1")
    await db.execute("update onceward.webhook_events set received_at = now() where event_id in ('evt_41', 'evt_42')")
    bodies = old_bodies(db, UpkeepOptions(strip_pause_s=0.0), days=None, at_once=3)
    bodies = replace(bodies, window=10)
    assert await bodies.all() == 50
    whole = "select array_agg(event_id order by seq) from onceward.webhook_events where raw is not null"
    assert await db.fetchval(whole) == ["evt_41", "evt_42"]
    mark = "select through from onceward.prune_marks where name = 'events:default'"
    assert await db.fetchval(mark) == await db.fetchval("select max(seq) from onceward.webhook_events")


async def test_a_person_is_erased_from_events_and_everything_still_adds_up(office) -> None:
    here = await office(quiet())
    await here.source()
    about = await here.post(fields={"id": "evt_ada", "data.object.billing_details.email": "ada@example.org"})
    other = await here.post(fields={"id": "evt_other"})
    await here.start_worker()
    for reply in (about, other):
        await here.status(reply.json["id"], "success")
    done = await erase(here.db, "Ada@example.org", ERASERS, organization=None, actor="test")
    assert done.rows["received webhooks"] == 1
    row = await here.event(about.json["id"])
    assert (row["payload"], row["raw"], len(row["headers"]["erased_sha256"])) == (None, None, 64)
    assert (await here.event(other.json["id"]))["payload"] is not None
    again = await here.post(fields={"id": "evt_ada"})
    assert again.headers["onceward-duplicate"] == "true"
    async with here.db.acquire() as conn:
        for check in CHECKS:
            assert await check.run(conn) == []
    await here.db.execute("delete from onceward.webhook_events where event_id = 'evt_other'")
    await here.db.execute("update onceward.webhook_events set status = 'pending', settles = settles + 1")
    async with here.db.acquire() as conn:
        [unfinished] = [check for check in CHECKS if check.name == "inbox.unfinished_events_have_work"]
        assert len(await unfinished.run(conn)) == 1

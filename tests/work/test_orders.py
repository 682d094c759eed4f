"""Options of an enqueue: unique keys, due times, priority, bundles; and the errors of invalid ones."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward import Engine, Job, Onceward, Tx, enqueue_sql
from onceward.db import Database
from onceward.testing import FrozenClock, assert_enqueued, drain, perform

app = Onceward("orders")
ran: list[object] = []


@app.job
async def note(*, what: str = "x") -> str:
    ran.append(what)
    return what


@app.job
async def typed(*, id: UUID, at: datetime, amount: int) -> dict[str, object]:
    return {"id_is": type(id).__name__, "at_is": type(at).__name__, "amount": amount}


@app.job
async def after_all(tx: Tx) -> str:
    return "all done"


@app.job(retry=[])
async def broken() -> None:
    raise RuntimeError("never works")


@app.job
def in_a_thread(*, n: int) -> int:
    import threading

    assert threading.current_thread() is not threading.main_thread()
    return n * 2


@app.job
async def long(job: Job, *, rows: int) -> int:
    start = await job.cursor(0)
    for n in range(start, rows):
        await job.checkpoint(n + 1)
        if n == 2 and job.attempt == 1:
            raise RuntimeError("stopped half way")
    return start


@pytest.fixture
def engine(db: Database) -> Engine:
    ran.clear()
    return Engine(db, app.registry)


async def test_the_same_unique_key_twice_is_one_job_while_it_is_unfinished(engine: Engine) -> None:
    one = await engine.enqueue(note.unique("k"))
    two = await engine.enqueue(note.unique("k"))
    assert (two.id, two.duplicate) == (one.id, True)
    await drain(engine)
    three = await engine.enqueue(note.unique("k"))
    assert not three.duplicate


async def test_concurrent_enqueues_of_one_key_make_one_job(engine: Engine) -> None:
    done = await asyncio.gather(*(engine.enqueue(note.unique(f"k{n % 3}")) for n in range(60)))
    assert len({each.id for each in done}) == 3
    assert await engine.db.fetchval("select count(*) from onceward.work") == 3


async def test_a_key_for_ever_outlives_the_job_and_one_within_a_period_does_not_outlive_that(engine: Engine) -> None:
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        for order in (note.unique("ever", forever=True), note.unique("hour", within=timedelta(hours=1))):
            assert not (await engine.enqueue(order)).duplicate
        await drain(engine)
        assert (await engine.enqueue(note.unique("ever", forever=True))).duplicate
        assert (await engine.enqueue(note.unique("hour", within=timedelta(hours=1)))).duplicate
        await clock.advance(hours=1)
        assert (await engine.enqueue(note.unique("ever", forever=True))).duplicate
        assert not (await engine.enqueue(note.unique("hour", within=timedelta(hours=1)))).duplicate


async def test_keys_are_unique_per_organization(engine: Engine) -> None:
    one, two = uuid4(), uuid4()
    a = await engine.enqueue(note.unique("k").for_organization(one))
    b = await engine.enqueue(note.unique("k").for_organization(two))
    assert not a.duplicate
    assert not b.duplicate


async def test_a_job_is_not_run_before_its_time(engine: Engine) -> None:
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        await engine.enqueue(note.schedule_in(hours=24), what="tomorrow")
        await engine.enqueue(note.schedule_at(datetime(2026, 5, 1, 6, tzinfo=UTC)), what="six")
        assert await drain(engine) == 0
        await clock.advance(hours=6)
        assert await drain(engine) == 1
        await clock.advance(hours=18)
        await drain(engine)
    assert ran == ["six", "tomorrow"]


async def test_a_boost_is_a_bounded_head_start(engine: Engine) -> None:
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        await engine.enqueue(note, what="old")
        await clock.advance(minutes=2)
        await engine.enqueue(note, what="plain")
        await engine.enqueue(note.head_start(60), what="boosted")
        await drain(engine)
    assert ran == ["old", "boosted", "plain"]


async def test_what_waits_for_a_bundle_runs_when_its_last_member_ended_in_any_way(engine: Engine) -> None:
    async with engine.transaction() as tx:
        then = await tx.enqueue_then([note.call(), note.call(what="y"), broken.call()], after_all.call())
    await drain(engine)
    assert await engine.result(then.id) is None, "a dead letter is not an end yet"
    dead = await engine.db.fetchval("select id from onceward.work where dead_reason is not null")
    assert await engine.db.fetchval("select onceward.discard($1)", dead) == "discarded"
    await drain(engine)
    finished = await engine.result(then.id)
    assert finished is not None
    assert finished.result == "all done"


async def test_arguments_arrive_as_their_types(engine: Engine) -> None:
    result = await perform(engine, typed, id=uuid4(), at=datetime.now(UTC), amount=5)
    assert result == {"id_is": "UUID", "at_is": "datetime", "amount": 5}


async def test_a_plain_function_runs_in_a_thread(engine: Engine) -> None:
    job = await engine.enqueue(in_a_thread, n=21)
    await drain(engine)
    finished = await engine.result(job.id)
    assert finished is not None
    assert finished.result == 42


async def test_a_long_job_goes_on_where_its_checkpoint_is(engine: Engine) -> None:
    job = await engine.enqueue(long, rows=5)
    await drain(engine)
    await engine.db.execute("update onceward.work set sort_at = now()")
    await drain(engine)
    finished = await engine.result(job.id)
    assert finished is not None
    assert finished.result == 3


@pytest.mark.parametrize(
    ("job", "arguments", "says"),
    [
        (typed, {"id": "no uuid", "at": datetime.now(UTC), "amount": 1}, "typed: argument id"),
        (typed, {"id": uuid4(), "at": datetime.now(UTC)}, "typed: argument amount: Field required"),
        (note, {"what": "x", "extra": 1}, "note: argument extra: note has no argument of this name; it has what"),
        (note, {"waht": "x"}, "note: argument waht: note has no argument of this name; did you mean what?"),
        (note, {"what": object()}, "note: argument what"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_at_enqueue_by_name(engine: Engine, job, arguments, says) -> None:
    with pytest.raises(TypeError, match=says):
        await engine.enqueue(job, **arguments)
    assert await engine.db.fetchval("select count(*) from onceward.jobs") == 0


async def test_huge_and_unstorable_arguments_are_refused(engine: Engine) -> None:
    with pytest.raises(ValueError, match="more than 1 MiB"):
        await engine.enqueue(note, what="x" * (1 << 20))
    with pytest.raises(ValueError, match="NUL"):
        await engine.enqueue(note, what="a\x00b")
    await engine.enqueue(note, what="\\u0000")  # six characters, none of them a NUL
    for order, says in [
        (lambda: note.schedule_in(seconds=-1), "negative"),
        (lambda: note.schedule_at(datetime(2026, 1, 1)), "no time zone"),
        (lambda: note.head_start(7200), "between 0 and 3600"),
        (lambda: note.unique(""), "1 to 500"),
        (lambda: note.in_lane("a", parent="b"), "give both parent"),
    ]:
        with pytest.raises(ValueError, match=says):
            order()


def test_handlers_with_bad_signatures_are_refused_when_registered() -> None:
    bad = Onceward("bad")

    with pytest.raises(TypeError, match="keyword-only"):

        @bad.job
        async def positional(n: int) -> None: ...

    with pytest.raises(TypeError, match="cannot use `tx`"):

        @bad.job
        def threaded(tx: Tx) -> None: ...

    with pytest.raises(ValueError, match="two tasks are named"):

        @bad.job(name="same")
        async def one() -> None: ...

        @bad.job(name="same")
        async def two() -> None: ...


async def test_sql_enqueues_in_the_callers_transaction_and_names_what_is_wrong(engine: Engine) -> None:
    id = await engine.db.fetchval("select onceward.enqueue('note', '{\"what\": \"from sql\"}')")
    assert await assert_enqueued(engine, note, what="from sql") == id
    again = await engine.db.fetchval("select onceward.enqueue('note', '{}', unique_key => 'k')")
    assert await engine.db.fetchval("select onceward.enqueue('note', '{}', unique_key => 'k')") == again
    await drain(engine)
    assert ran[0] == "from sql"
    for call, says in [
        ("onceward.enqueue('')", "task must be the name"),
        ("onceward.enqueue('note', '[1]')", "JSON object"),
        ("onceward.enqueue('note', '{}', boost_s => 99999)", "boost_s must lie between"),
        ("onceward.enqueue('note', '{}', on_conflict => 'explode')", "skip, replace or debounce"),
    ]:
        with pytest.raises(asyncpg.PostgresError, match=says):
            await engine.db.fetchval(f"select {call}")


async def test_another_connection_enqueues_in_its_own_transaction(engine: Engine, database_url: str) -> None:
    import psycopg

    text, parameters = enqueue_sql(note.unique("k").schedule_in(seconds=0).call(what="from psycopg"))
    async with await psycopg.AsyncConnection.connect(database_url) as conn:
        cursor = psycopg.AsyncRawCursor(conn)
        await cursor.execute(text.encode(), parameters)
        assert await engine.db.fetchval("select count(*) from onceward.work") == 0, "not before its commit"
        await conn.commit()
    await assert_enqueued(engine, note, what="from psycopg")
    await drain(engine)
    assert ran == ["from psycopg"]


async def test_assert_enqueued_says_what_is_there_instead(engine: Engine) -> None:
    await engine.enqueue(note, what="a")
    with pytest.raises(AssertionError, match=r"note \{'what': 'a'\}"):
        await assert_enqueued(engine, note, what="b")


@pytest.mark.parametrize(
    "order",
    [
        note,
        note.in_order("ticket:7"),
        note.in_lane("user:7", limit=2, parent="all", parent_limit=3),
        note.tagged("import", "nightly").max_attempts(2),
        note.schedule_in(hours=1).in_queue("slow"),
        note.head_start(30),
        note.unique("only one").in_order("ticket:7"),
    ],
    ids=["plain", "in order", "in a lane", "tags and attempts", "later", "boosted", "once"],
)
async def test_a_bulk_enqueue_writes_the_same_rows_as_single_ones(engine: Engine, db: Database, order) -> None:
    rows = """
        select w.id, w.organization_id, w.kind, w.task, w.queue, w.max_attempts, w.lane, w.cap, coalesce(w.ordered, false) as ordered,
               w.parent, w.parent_cap, w.unique_key, j.args, j.tags, abs(extract(epoch from w.sort_at - j.created_at))::int as due_s
          from onceward.work w join onceward.jobs j using (id) order by w.id
    """
    await engine.enqueue(order, what="a")
    [alone] = [dict(row) for row in await db.fetch(rows)]
    await db.execute("truncate onceward.work, onceward.jobs")
    many = await engine.enqueue_many([order.call(what="a"), order.call(what="a")])
    together = [dict(row) for row in await db.fetch(rows)]
    unique = order is not note and order.options.unique_key is not None
    assert [each.duplicate for each in many] == [False, unique]
    assert len(together) == (1 if unique else 2)
    for row in together:
        assert row | {"id": None} == alone | {"id": None}

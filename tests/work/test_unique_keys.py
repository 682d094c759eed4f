"""Unique keys against everything else: expiry, running jobs, retries, checkpoints, batches, hooks, bundles and concurrent callers."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from onceward import Engine, Job, JobEnd, Onceward, Tx
from onceward.db import Database
from onceward.testing import FrozenClock, drain, until
from tests.queries import WAITS_FOR_LOCK

HOUR = timedelta(hours=1)


class Shop:
    """An app whose jobs note their arguments, and wait if the test closes their gate."""

    def __init__(self, **options: Any) -> None:
        self.app = Onceward("shop")
        self.ran: list[str] = []
        self.gate = asyncio.Event()
        self.started = asyncio.Event()

        @self.app.job(**options)
        async def index(job: Job, *, text: str = "x", fails: bool = False) -> str:
            await self.pass_gate(f"{text} from {await job.cursor(0)}" if text.startswith("long") else text)
            if text == "long old":
                await job.checkpoint(7)
            if fails:
                raise RuntimeError("refused")
            return text

        @self.app.job(**options)
        async def index_in_tx(tx: Tx, *, text: str) -> str:
            await self.pass_gate(text)
            return text

        @self.app.job(batch=10)
        async def index_many(jobs: list[Job], tx: Tx) -> None:
            await self.pass_gate("+".join(str(job.args["text"]) for job in jobs))

        self.index, self.index_in_tx, self.index_many = index, index_in_tx, index_many

    async def pass_gate(self, text: str) -> None:
        self.ran.append(text)
        self.started.set()
        await self.gate.wait()


@pytest.fixture
def shop() -> Shop:
    made = Shop(retry=[0, 0])
    made.gate.set()
    return made


@pytest.fixture
def engine(db: Database, shop: Shop) -> Engine:
    return Engine(db, shop.app.registry)


async def test_a_key_within_a_period_stays_with_its_job_until_that_has_finished(engine: Engine, shop: Shop) -> None:
    hourly = shop.index.unique("k", within=HOUR)
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        first = await engine.enqueue(hourly)
        await clock.advance(hours=2)
        second = await engine.enqueue(hourly)
        assert (second.id, second.duplicate) == (first.id, True)
        await drain(engine)
        third = await engine.enqueue(hourly)
        assert not third.duplicate, "the period is over, and the first job has finished"
        assert await engine.db.fetchval("select work_id from onceward.unique_keys") == third.id


async def test_a_key_remembers_the_job_that_has_it_whatever_form_that_job_was_enqueued_with(
    engine: Engine, shop: Shop
) -> None:
    plain = await engine.enqueue(shop.index.unique("k"))
    hourly = await engine.enqueue(shop.index.unique("k", within=HOUR))
    assert (hourly.id, hourly.duplicate) == (plain.id, True)
    await drain(engine)
    again = await engine.enqueue(shop.index.unique("k", within=HOUR))
    assert (again.id, again.duplicate) == (plain.id, True)
    assert await engine.db.fetchval("select count(*) from onceward.work") == 0


async def test_a_job_that_ends_while_it_is_enqueued_again_leaves_no_key_of_a_job_that_never_existed(
    engine: Engine, shop: Shop
) -> None:
    hourly = shop.index.unique("k", within=HOUR)
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        first = await engine.enqueue(hourly)
        await clock.advance(hours=2)
        async with engine.db.transaction(role="engine") as ending:
            await ending.execute("delete from onceward.work where id = $1", first.id)
            waiting = asyncio.create_task(engine.enqueue(hourly))
            await until(lambda: engine.db.fetchval(WAITS_FOR_LOCK))
        second = await waiting
    assert not second.duplicate
    assert await engine.db.fetchval("select work_id from onceward.unique_keys") == second.id
    assert await engine.db.fetchval("select id from onceward.work") == second.id


@pytest.mark.parametrize("form", [{}, {"within": HOUR}, {"forever": True}], ids=["unfinished", "within", "forever"])
async def test_replace_takes_the_earlier_time_and_debounce_starts_the_delay_again(
    engine: Engine, shop: Shop, form: dict[str, Any]
) -> None:
    async with FrozenClock(engine.db, datetime(2026, 5, 1, tzinfo=UTC)) as clock:
        for on_conflict in ("replace", "debounce"):
            job = shop.index.unique(on_conflict, on_conflict=on_conflict, **form).schedule_in(minutes=10)
            await engine.enqueue(job, text=f"old {on_conflict}")
            await clock.advance(minutes=6)
            assert (await engine.enqueue(job, text=f"new {on_conflict}")).duplicate
            await clock.advance(minutes=6)
            await drain(engine)
            if on_conflict == "debounce":
                assert shop.ran == ["new replace"], "debounce waits ten minutes from the last enqueue"
            await clock.advance(minutes=6)
            await drain(engine)
    assert shop.ran == ["new replace", "new debounce"]


async def test_new_arguments_of_a_waiting_retry_have_all_attempts_and_no_checkpoint(
    engine: Engine, db: Database
) -> None:
    shop = Shop(retry=[600])
    shop.gate.set()
    engine = Engine(db, shop.app.registry)
    order = shop.index.unique("k", on_conflict="replace")
    job = await engine.enqueue(order, text="long old", fails=True)
    await drain(engine)
    await engine.enqueue(order, text="long new", fails=True)
    await drain(engine)
    assert shop.ran == ["long old from 0", "long new from 0"]
    row = await db.fetchrow("select attempts, dead_reason from onceward.work where id = $1", job.id)
    assert tuple(row or ()) == (1, None), "the second attempt is the first one with these arguments"
    numbers = await db.fetchval("select array_agg(number order by number) from onceward.attempts")
    assert numbers == [1, 2]


@pytest.mark.parametrize("name", ["index", "index_in_tx", "index_many"])
@pytest.mark.parametrize("on_conflict", ["replace", "debounce"])
async def test_a_running_attempt_keeps_its_arguments_and_the_job_runs_again_with_the_new_ones(
    bench, shop: Shop, name: str, on_conflict: Any
) -> None:
    shop.gate.clear()
    here = await bench(shop.app)
    job = getattr(shop, name)
    order = job.unique("k", on_conflict=on_conflict)
    first = await here.engine.enqueue(order, text="old")
    await here.start_worker()
    await shop.started.wait()
    for text in ("middle", "new"):
        again = await here.engine.enqueue(order, text=text)
        assert (again.id, again.duplicate) == (first.id, True)
    assert (await here.engine.enqueue(job.unique("k"), text="skipped")).duplicate
    shop.gate.set()
    await here.engine.wait(first.id)
    assert shop.ran == ["old", "new"]
    attempts = await here.db.fetch("select number, outcome from onceward.attempts order by number")
    assert [tuple(row) for row in attempts] == [(1, "success"), (2, "success")]
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


@pytest.mark.parametrize("text", ["old", "long old"])
async def test_an_attempt_that_fails_for_good_does_not_take_the_new_arguments_with_it(bench, text: str) -> None:
    shop = Shop(retry=[])
    here = await bench(shop.app)
    hook_ends: list[tuple[Any, str]] = []

    @shop.index.on_end
    async def note(tx: Tx, end: JobEnd) -> None:
        hook_ends.append((end.arguments["text"], end.outcome))

    order = shop.index.unique("k", on_conflict="replace")
    first = await here.engine.enqueue(order, text=text, fails=True)
    await here.start_worker()
    await shop.started.wait()
    await here.engine.enqueue(order, text="long new")
    shop.gate.set()
    finished = await here.engine.wait(first.id)
    assert (finished.outcome, finished.result) == ("success", "long new")
    assert shop.ran[1:] == ["long new from 0"]
    await until(lambda: hook_ends == [("long new", "success")])
    assert await here.db.fetchval("select count(*) from onceward.checkpoints") == 0


async def test_a_worker_that_dies_with_replaced_arguments_does_not_cause_a_second_run_of_them(
    engine: Engine, shop: Shop
) -> None:
    order = shop.index.unique("k", on_conflict="replace")
    first = await engine.enqueue(order, text="old")
    await engine.db.execute("update onceward.work set lease = 5, claimed_at = now()")
    await engine.enqueue(order, text="new")
    await engine.db.execute("update onceward.work set lease = null, claimed_at = null")
    await drain(engine)
    assert shop.ran == ["new"]
    assert (await engine.result(first.id)) is not None


async def test_cancelling_a_running_job_ends_it_with_its_new_arguments(engine: Engine, shop: Shop) -> None:
    order = shop.index.unique("k", on_conflict="replace")
    first = await engine.enqueue(order, text="old")
    await engine.db.execute("update onceward.work set lease = 5, claimed_at = now()")
    await engine.enqueue(order, text="new")
    assert await engine.db.fetchval("select onceward.settle($1, 5, 1, 'cancelled', now())", first.id)
    assert await engine.db.fetchval("select count(*) from onceward.work") == 0


async def test_many_callers_of_one_key_in_every_form_make_one_job(engine: Engine, shop: Shop) -> None:
    forms: list[dict[str, Any]] = [{}, {"within": HOUR}, {"forever": True}]
    orders = [
        shop.index.unique("k", on_conflict=on_conflict, **form)
        for form in forms
        for on_conflict in ("skip", "replace", "debounce")
    ]
    done = await asyncio.gather(*(engine.enqueue(order, text=str(n)) for n in range(4) for order in orders))
    assert len({each.id for each in done}) == 1
    assert [each.duplicate for each in done].count(False) == 1
    await drain(engine)
    assert len(shop.ran) == 1


async def test_a_bundle_leaves_the_job_alone_that_has_the_key_of_its_last_job(engine: Engine, shop: Shop) -> None:
    other = await engine.enqueue(shop.index.unique("k", on_conflict="replace").schedule_in(hours=1), text="other")
    before = await engine.db.fetchrow("select * from onceward.work")
    async with engine.transaction() as tx:
        then = shop.index.unique("k", on_conflict="replace").call(text="then")
        last = await tx.enqueue_then([shop.index.call(text="member")], then)
    assert (last.id, last.duplicate) == (other.id, True)
    assert await engine.db.fetchrow("select * from onceward.work where id = $1", other.id) == before
    await drain(engine)
    assert shop.ran == ["member"]
    assert await engine.db.fetchrow("select * from onceward.work where id = $1", other.id) == before
    assert await engine.db.fetchval("select count(*) from onceward.bundles") == 0


async def test_two_bundles_with_one_last_job_run_it_after_the_members_of_both(engine: Engine, shop: Shop) -> None:
    then = shop.index.unique("k").call(text="then")
    async with engine.transaction() as tx:
        first = await tx.enqueue_then([shop.index.call(text="a")], then)
    async with engine.transaction() as tx:
        later = shop.index.schedule_in(hours=1).call(text="b")
        second = await tx.enqueue_then([later, shop.index.call(text="c")], then)
    assert (second.id, second.duplicate) == (first.id, True)
    await drain(engine)
    assert sorted(shop.ran) == ["a", "c"]
    await engine.enqueue(shop.index.unique("k", on_conflict="debounce"), text="then with newer arguments")
    await drain(engine)
    assert sorted(shop.ran) == ["a", "c"], "new arguments do not end the waiting"
    await engine.db.execute("update onceward.work set sort_at = now() where sort_at <> 'infinity'")
    await drain(engine)
    assert shop.ran[2:] == ["b", "then with newer arguments"]
    assert await engine.db.fetchval("select count(*) from onceward.bundles") == 0


async def test_a_bundle_whose_last_job_was_done_for_ever_still_runs_its_members(engine: Engine, shop: Shop) -> None:
    once = shop.index.unique("k", forever=True)
    await engine.enqueue(once, text="once")
    await drain(engine)
    async with engine.transaction() as tx:
        assert (await tx.enqueue_then([shop.index.call(text="member")], once.call(text="twice"))).duplicate
    await drain(engine)
    assert shop.ran == ["once", "member"]

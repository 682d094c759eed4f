"""Organization A floods a line, B does one thing in it: B waits for its share, not for the flood. The same without turns shows the flood.

How many of A's come before B's is counted, never time. Here are the lines that workers claim; webhooks in are in
tests/inbox/test_admission.py, the connections of pages and live queries at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from onceward import Engine, Job, Onceward, Workflow
from onceward.db import Database
from onceward.db.callers import Caller, calling_as
from onceward.db.turns import Turns
from onceward.messages import Sending, Template, queue
from tests.outbox.conftest import OutboxBench, make_bench
from tests.work.claims import Claims

__all__ = ["make_bench"]

FLOOD, ROOM = 120, 6
FAIR = 4 * ROOM
"""What may come before B: what was claimed before it came, and a turn of A."""
ORGANIZATIONS = (
    "insert into onceward.organizations (organization_id, slug, name) select o, 's' || o, 's' from unnest($1::uuid[]) o"
)
TEMPLATE = Template("note", {"en": {"subject": "Hello", "text": "Hello {{ n }}"}}, {}, {"n": 1})
SCHEDULE = (
    "insert into onceward.schedules (name, task, queue, every_s, missed, window_s, most, overlap, decided_until)"
    " values ('nightly', 'work', 'default', 60, 'once', 60, 1, 'allow', onceward.now())"
)
app = Onceward("neighbours")


@app.job
async def work(job: Job) -> None: ...


@app.workflow
async def story(wf: Workflow) -> None: ...


@pytest.fixture
async def owners(db: Database) -> tuple[UUID, UUID]:
    """A and B, of which A comes first in the order of lines: so claims without turns are at A's work first."""
    rows = await db.fetch(
        "select o from unnest($1::uuid[]) o order by onceward.line_of(o, null)", [UUID(int=1), UUID(int=2)]
    )
    a, b = (row["o"] for row in rows)
    await db.execute(ORGANIZATIONS, [a, b])
    return a, b


Put = Callable[[Engine, UUID | None, int], Awaitable[object]]


async def jobs(engine: Engine, owner: UUID | None, count: int) -> None:
    await engine.enqueue_many([work.for_organization(owner).call()] * count)


async def keyed(engine: Engine, owner: UUID | None, count: int) -> None:
    await engine.enqueue_many([work.for_organization(owner).in_order(f"{owner}:{n}").call() for n in range(count)])


async def workflows(engine: Engine, owner: UUID | None, count: int) -> None:
    await asyncio.gather(*(engine.start_workflow(story.for_organization(owner)) for _ in range(count)))


async def messages(engine: Engine, owner: UUID | None, count: int) -> None:
    async with engine.db.transaction(organization=owner) as tx:
        sendings = [Sending(to="a@example.org", key=f"{owner}:{n}", data={"n": n}) for n in range(count)]
        await queue(tx, TEMPLATE, sendings)


@pytest.mark.parametrize(
    ("put", "line"), [(jobs, "default"), (keyed, "default"), (workflows, "workflows"), (messages, "message.email")]
)
async def test_one_piece_of_work_waits_for_its_share_of_a_flood(
    db: Database, owners: tuple[UUID, UUID], put: Put, line: str
) -> None:
    engine = Engine(db, app.registry)
    await engine.start()
    a, b = owners
    await put(engine, a, FLOOD)
    claims = Claims(db, line)
    assert set(await claims.next(ROOM)) == {a}
    await put(engine, b, 1)
    assert await claims.before(b, ROOM) <= FAIR
    assert await claims.before(b, ROOM, most=FLOOD) > FLOOD - FAIR, "A goes on alone"
    if put is not messages:  # which have a lane for each organization, also without turns
        await put(engine, a, FLOOD)
        unfair = Claims(db, line, fair=False)
        await unfair.next(ROOM)
        await put(engine, b, 1)
        assert await unfair.before(b, ROOM) >= FLOOD - 2 * ROOM
    await engine.stop()


async def test_the_run_of_a_schedule_waits_for_its_share_of_a_flood(db: Database, owners: tuple[UUID, UUID]) -> None:
    engine = Engine(db, app.registry)
    await db.execute(SCHEDULE)
    for put, fair in ((jobs, True), (keyed, True), (jobs, False)):
        await put(engine, owners[0], FLOOD)
        claims = Claims(db, "default", fair=fair)
        await claims.next(ROOM)
        await db.execute("select onceward.write_run('nightly', clock_timestamp(), 'clock', 0)")
        passed = await claims.before(None, ROOM)
        assert passed <= FAIR, "work of nobody comes first without turns, too"
        await db.execute("truncate onceward.work, onceward.jobs, onceward.runs")


@pytest.mark.parametrize("slow", [False, True])
async def test_a_delivery_waits_for_its_share_of_a_flood(
    make_bench: Callable[..., Awaitable[OutboxBench]], owners: tuple[UUID, UUID], slow: bool
) -> None:
    """With `slow`, nothing of A ever ends: its endpoint holds as many slots as it may, and no more."""
    here = await make_bench()
    a, b = owners
    endpoints = 1 if slow else 12
    for _ in range(endpoints):
        await here.register("http://127.0.0.1:9999/", a)
    await here.register("http://127.0.0.1:9999/", b)
    for _ in range(FLOOD // endpoints):
        await here.publish(organization=a)
    claims = Claims(here.db, "deliveries")
    assert set(await claims.next(ROOM, ends=not slow)) == {a}
    await here.publish(organization=b)
    assert await claims.before(b, ROOM, ends=not slow) <= FAIR
    if slow:
        assert await here.db.fetchval("select count(*) from onceward.work where lease is not null") <= 10 + 1
        return
    unfair = Claims(here.db, "deliveries", fair=False)
    await unfair.next(ROOM)
    await here.publish(organization=b)
    assert await unfair.before(b, ROOM) > 2 * FAIR


@pytest.mark.parametrize("fair", [True, False])
async def test_a_page_and_a_live_query_get_a_connection_beside_heavy_ones(fair: bool) -> None:
    """A has 100 heavy pages and 200 live queries that never end; B opens one page and asks one live query."""
    turns = Turns(12)

    async def ask(owner: str, principal: str) -> None:
        with calling_as(Caller(owner, principal) if fair else None):
            await turns.enter()

    flood = [asyncio.create_task(ask("a", f"page {n % 10}")) for n in range(100)]
    flood += [asyncio.create_task(ask("a", f"query {n}")) for n in range(200)]
    await asyncio.sleep(0)
    small = [asyncio.create_task(ask("b", "page")), asyncio.create_task(ask("b", "query"))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(task.done() for task in small) == fair
    assert sum(task.done() for task in flood) == (8 if fair else 12)
    for task in flood + small:
        task.cancel()


async def test_a_thousand_small_organizations_do_not_stop_a_flood(db: Database, owners: tuple[UUID, UUID]) -> None:
    """In both kinds of claims: A gets its share of every round while 1,000 others always have something."""
    engine = Engine(db, app.registry)
    a, _ = owners
    others = [UUID(int=10_000 + n) for n in range(1000)]
    await jobs(engine, a, 500)
    await keyed(engine, a, 500)
    await engine.enqueue_many([work.for_organization(each).call() for each in others] * 3)
    await engine.enqueue_many([work.for_organization(each).in_order(f"{each}").call() for each in others] * 3)
    claims = Claims(db, "default")
    plain = lanes = total = 0
    for _ in range(8):
        order = await claims.next(300)
        total += len(order)
        served = [n for n, each in enumerate(order) if each == a]
        plain += sum(n < len(order) // 2 for n in served)
        lanes += sum(n >= len(order) // 2 for n in served)
    assert total >= 8 * 500
    assert plain >= 2
    assert lanes >= 2
    left = -1
    while left != 0:
        assert await claims.next(400), "everything is served in the end"
        left = await db.fetchval("select count(*) from onceward.work")

"""A paused source receives, and none of its events runs until it is resumed. The claim decides, not the place of a row."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from onceward import Event, Onceward, Tx
from onceward.inbox.event_search import EventFilter
from onceward.inbox.inline import TAKE
from onceward.inbox.replay import replay
from onceward.inbox.sources import pause, resume
from onceward.inbox.upkeep import Upkeep
from onceward.testing import drain, until
from onceward.work import controls
from onceward.work.claim import BEGINNING, claim_lanes, new_lease
from onceward.work.statements import CLAIM
from tests.inbox.conftest import Office, Reply
from tests.queries import WAITS_FOR_TABLE

MakeOffice = Callable[[Onceward], Awaitable[Office]]
TASKS = ["stripe/charge.succeeded"]


def shop(*, ordering: str | bool = False) -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded", ordering=ordering)
    async def complete(event: Event, tx: Tx) -> str:
        return "handled"

    return app


async def set_paused(here: Office, paused: bool, name: str = "stripe") -> None:
    async with here.db.transaction(role="engine") as tx:
        await (pause if paused else resume)(tx, name, actor="test")
    await here.inbox.catalog.refresh()


async def statuses(here: Office) -> list[str]:
    rows = await here.db.fetch("select status from onceward.webhook_events order by seq")
    return [row["status"] for row in rows]


async def post_around(here: Office, change: Awaitable[None]) -> Reply:
    """Post an event that is placed before the change and commits after it."""
    async with here.db.acquire() as conn, conn.transaction():
        await conn.execute("lock table onceward.webhook_events in exclusive mode")
        posting = asyncio.create_task(here.post())
        await until(lambda: here.db.fetchval(WAITS_FOR_TABLE, "onceward.webhook_events"))
        await change
    return await posting


async def test_an_event_that_commits_after_a_resume_is_not_left_behind(office: MakeOffice) -> None:
    here = await office(shop())
    await here.source()
    await set_paused(here, True)
    assert (await post_around(here, set_paused(here, False))).status == 200
    assert await drain(here.engine) == 1
    assert await statuses(here) == ["success"]


async def test_an_event_that_commits_after_a_pause_waits_for_the_resume(office: MakeOffice) -> None:
    here = await office(shop())
    await here.source()
    assert (await post_around(here, set_paused(here, True))).status == 200
    assert await here.db.fetchval("select lane from onceward.work") is None, "the node did not know of the pause"
    assert await drain(here.engine) == 0
    unchecked = CLAIM.replace("source is null or", "true or")
    async with here.db.acquire() as conn:
        twin = conn.transaction()
        await twin.start()
        assert (
            len(await conn.fetch(unchecked, "events", BEGINNING, TASKS, 5, new_lease(), 1, True, [0], [BEGINNING], [5]))
            == 1
        ), "the race exists"
        await twin.rollback()
    await Upkeep(here.db, here.inbox.catalog, here.engine.waker).group_paused()
    assert await here.db.fetchval("select lane is not null from onceward.work")
    assert await drain(here.engine) == 0
    await set_paused(here, False)
    assert await drain(here.engine) == 1


async def test_a_paused_source_receives_and_others_go_on(office: MakeOffice) -> None:
    here = await office(shop())
    await here.source()
    await here.source("other", provider="stripe")
    await here.post()
    await set_paused(here, True)
    assert (await here.post()).status == 200
    await here.post(name="other")
    assert await drain(here.engine) == 1
    assert await statuses(here) == ["pending", "pending", "success"]
    await set_paused(here, False)
    await here.start_worker()
    await until(lambda: here.db.fetchval("select count(*) = 0 from onceward.work"))
    audited = await here.db.fetch("select action from onceward.audit_log order by id")
    assert [row["action"] for row in audited][2:] == ["source.paused", "source.resumed"]


async def test_all_subjects_and_the_rate_of_a_paused_source_are_skipped_with_one_probe(office: MakeOffice) -> None:
    here = await office(shop(ordering="data.object.payment_intent"))
    await here.source()
    await here.source("slow", provider="stripe", rate_per_s=1000.0)
    for subject in ("pi_a", "pi_b", "pi_c"):
        await here.post(fields={"data.object.payment_intent": subject})
        await here.post(name="slow", fields={"data.object.payment_intent": subject})
    await set_paused(here, True)
    await set_paused(here, True, "slow")

    async def visited() -> tuple[int, int]:
        async with here.db.acquire() as conn:
            looking = conn.transaction()
            await looking.start()
            taken = await claim_lanes(
                conn, queue="events", tasks=TASKS, most=50, lease=new_lease(), worker=1, suspect=False
            )
            await looking.rollback()
            return taken.turns.visited, len(taken.work)

    assert await visited() == (2, 0), "one for each source"
    assert await here.db.fetchval("select count(*) from onceward.lanes where next_at > now()") == 0
    await set_paused(here, False)
    assert await visited() == (4, 3), "each subject, and the source that is still paused"
    assert await drain(here.engine) == 3
    await set_paused(here, False, "slow")
    await here.start_worker()
    await until(lambda: here.db.fetchval("select count(*) = 0 from onceward.work"))


async def test_replays_and_unknown_types_of_a_paused_source_wait(office: MakeOffice) -> None:
    here = await office(shop())
    await here.source()
    done = await here.post()
    assert await drain(here.engine) == 1
    await set_paused(here, True)
    again = await replay(
        here.db, EventFilter(ids=[done.json["id"]]), actor="test", reason="to see it wait", as_new=True
    )
    await here.db.execute("update onceward.work set queue = 'events'")  # no worker was there to know the type
    assert len(again.done) == 1
    assert await drain(here.engine) == 0
    await set_paused(here, False)
    assert await drain(here.engine) == 1


async def test_other_languages_get_no_event_of_a_paused_source(office: MakeOffice) -> None:
    here = await office(Onceward("shop"))
    id = await here.source(mode="external")
    await here.post()
    await set_paused(here, True)
    await here.post()
    next_event = "select * from webhook.claim_next_event($1)"
    assert await here.db.fetch(next_event, id) == await here.db.fetch(next_event, None) == []
    await set_paused(here, False)
    assert len(await here.db.fetch(next_event, id)) == len(await here.db.fetch(next_event, None)) == 1


async def test_a_request_does_not_take_the_event_of_a_paused_source_or_queue(office: MakeOffice) -> None:
    here = await office(shop())
    await here.source()
    seq = (await here.post()).json["id"]
    await set_paused(here, True)
    assert await here.db.fetchrow(TAKE, seq, new_lease(), "events") is None
    await set_paused(here, False)
    await here.db.execute("update onceward.work set lane = null")
    await controls.pause(here.db, "events", actor="test")
    assert await here.db.fetchrow(TAKE, seq, new_lease(), "events") is None
    await controls.resume(here.db, "events", actor="test")
    assert await here.db.fetchrow(TAKE, seq, new_lease(), "events") is not None

"""The waiting line: order, bounds, and that nothing that waits holds a slot."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.limits import AdaptiveLimit
from onceward.live.access import Viewer
from onceward.live.query_run import run
from onceward.live.watched import Tables
from onceward_apps.coursegen import line, queries
from onceward_apps.coursegen.errors import AtLimit
from tests.coursegen.school import School


async def ask(school: School, tier: str = "FREE", user: UUID | None = None, **options: Any) -> UUID:
    """Let a user, a new one by default, ask for a course."""
    user = user or uuid4()
    await school.set_tier(tier, user)
    course_id = await school.add_course(user=user, lessons=1, title=options.pop("title", tier))
    await school.accept(course_id, user=user, **options)
    return course_id


async def order(school: School) -> list[str]:
    rows = await school.db.fetch(
        "select c.title from coursegen.waiting_line($1) l join coursegen.courses c on c.id = l.course_id order by l.place",
        line.SHARE_S,
    )
    return [row["title"] for row in rows]


@pytest.mark.acceptance("004-Q line")
async def test_three_free_users_do_not_lock_out_premium(school: School) -> None:
    await school.db.execute("update onceward.limits set at_most = 1")
    await ask(school, title="running")
    for _ in range(3):
        await ask(school)
    premium = await ask(school, "PREMIUM")
    assert await order(school) == ["PREMIUM", "FREE", "FREE", "FREE"]
    async with school.engine.transaction(organization=school.organization) as tx:
        place = await line.place(tx, await school.course(premium))
    assert place is not None
    assert (place.place, place.waiting) == (1, 4)
    assert place.estimated_s > 0
    assert await school.held() == 1
    await school.drain()
    rows = await school.db.fetch("select title, status from coursegen.courses order by begun_at")
    assert [row["title"] for row in rows[:2]] == ["running", "PREMIUM"]
    assert {row["status"] for row in rows} == {"completed"}
    assert await school.held() == 0


@pytest.mark.acceptance("004-Q line")
async def test_a_course_that_waits_long_is_ahead_of_every_tier(school: School) -> None:
    await school.db.execute("update onceward.limits set at_most = 1")
    await ask(school, title="running")
    old = await ask(school, title="old")
    await school.db.execute("update coursegen.courses set line_at = line_at - interval '46 minutes' where id = $1", old)
    await ask(school, "PREMIUM", title="new")
    assert await order(school) == ["old", "new"]


@pytest.mark.acceptance("004-Q line")
async def test_a_user_with_many_courses_waits_behind_users_with_one(school: School) -> None:
    await school.db.execute("update onceward.limits set at_most = 1")
    await ask(school, title="running")
    greedy = uuid4()
    for number in range(3):
        await ask(school, user=greedy, title=f"greedy {number}")
    for number in range(2):
        await ask(school, title=f"modest {number}")
    assert await order(school) == ["greedy 0", "modest 0", "modest 1", "greedy 1", "greedy 2"]


@pytest.mark.acceptance("004-Q line")
async def test_only_a_full_line_refuses(school: School) -> None:
    school.configure(waiting_most=1, waiting_per_user=2)
    user = uuid4()
    for _ in range(3):  # one slot, two places
        await ask(school, user=user)
    with pytest.raises(AtLimit) as refused:
        await ask(school, user=user)
    assert refused.value.which == "user"
    for _ in range(3):  # two slots, and the only place: courses that wait for others of their user take none
        await ask(school)
    with pytest.raises(AtLimit) as refused:
        await ask(school)
    assert refused.value.which == "global"
    assert await school.held() == 3


async def test_requests_at_once_never_make_the_line_longer_than_its_bound(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.coursegen.school.refuse_early", lambda *_: None)
    school.configure(waiting_most=4)
    asked = await asyncio.gather(*(ask(school) for _ in range(20)), return_exceptions=True)
    assert len([each for each in asked if isinstance(each, AtLimit)]) == 20 - 3 - 4
    assert await school.held() == 3
    assert len(await order(school)) == 4


@pytest.mark.acceptance("004-A account")
async def test_a_refused_account_parks_its_courses_without_slots_and_tells_the_operators_once(school: School) -> None:
    school.openai.use_up_quota()
    first = await ask(school)
    await school.drain()
    course = await school.course(first)
    assert (course["status"], course["waits_for"], await school.held()) == ("queued", "account", 0)
    for _ in range(3):
        await ask(school)
    await school.drain()
    assert await school.held() == 0, "no course starts while the account is refused"
    assert len(school.openai.calls) == 1, "and none asks"
    notices = await school.db.fetch("select type from onceward.notices")
    assert [row["type"] for row in notices] == ["COURSEGEN_MODEL_ACCOUNT"]
    # Another organization is not affected.
    school.organization, parked = await school.add_organization("other"), school.organization
    other = await ask(school)
    await school.drain()
    assert (await school.course(other))["status"] == "completed"
    school.organization = parked
    # An hour later one course tries; the account works, and all are generated. The hour does not count as time of theirs.
    await school.db.execute("update coursegen.model_pauses set next_try_at = onceward.now()")
    await school.db.execute(
        "update coursegen.courses set started_at = started_at - interval '2 hours',"
        " released_at = released_at - interval '2 hours' where released_at is not null"
    )
    await line.admit(school.engine)
    assert await school.held() == 1, "one course tries for all"
    await school.drain()
    rows = await school.db.fetch("select status, error_code from coursegen.courses")
    assert {(row["status"], row["error_code"]) for row in rows} == {("completed", None)}
    assert await school.db.fetchval("select count(*) from coursegen.model_pauses") == 0


async def test_a_retry_holds_no_slot_and_others_use_it(school: School) -> None:
    await school.db.execute("update onceward.limits set at_most = 1")
    school.configure(call_tries=1, longest_wait_s=0)
    school.openai.rate_limit(retry_after_s=60)
    first = await ask(school)
    second = await ask(school)
    await school.drain()
    assert (await school.course(first))["waits_for"] == "retry"
    assert (await school.course(second))["status"] == "completed"


@pytest.mark.acceptance("004-5 global")
async def test_courses_that_wait_raise_the_global_limit_to_its_burst(school: School) -> None:
    node = AdaptiveLimit(school.db, measure=lambda: (2.0, 10.0))
    for _ in range(12):
        await ask(school)
    held: list[int] = []
    for _ in range(3):
        await line.admit(school.engine)
        held.append(await school.held())
        await node.step()
        await school.db.execute(
            "update onceward.limits set changed_at = now() - interval '61 seconds', wanted_at = '-infinity'"
        )
    assert held == [3, 5, 10]


async def test_the_early_answers_read_no_more_than_the_line(school: School) -> None:
    """A request reads the courses that wait, by their index, and never those that have ended."""
    for query in (
        f"select * from coursegen.waiting_line({line.SHARE_S})",
        "select count(*) from coursegen.courses c where c.status in ('queued', 'generating') and c.admitted_at is null"
        " and c.job_id is not null",
    ):
        async with school.db.acquire() as conn, conn.transaction():
            await conn.execute("set local enable_seqscan = off")
            plan = "\n".join(row[0] for row in await conn.fetch(f"explain {query}"))
        assert "Function Scan" in plan or "courses_waiting" in plan, plan


async def test_the_owner_of_a_waiting_course_sees_its_place_live_and_it_is_kept_up_to_date(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if this is the first question of the process: the tables behind the line are declared."""
    monkeypatch.setattr(queries.progress, "relations", {})
    user = uuid4()
    courses = [await ask(school, user=user) for _ in range(3)]
    tables = Tables()
    async with school.db.acquire() as conn:
        await tables.load(conn)
    arguments, _ = queries.progress.load({"course_id": courses[-1]})
    seen = await run(school.db, tables, queries.progress, arguments, Viewer(school.organization), timeout_s=10)
    assert json.loads(seen.text)["queue"]["place"] == 2
    assert seen.stale_in_s == queries.PLACE_STALE_S

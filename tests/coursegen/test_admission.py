"""Requests to generate: accepted once, refused at the limit, and never half done."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from onceward import Engine, OutcomeUnknown, Tx
from onceward.limits import AdaptiveLimit
from onceward.testing import Crash
from onceward_apps.coursegen.errors import AtLimit, NotAccepted, NotFound, NotPossible
from onceward_apps.coursegen.model import MICROS
from tests.coursegen.school import School

FLAKY = """
create sequence coursegen.tries;
create or replace function public.update_course_progress(
    p_course_id uuid, p_step_id integer, p_status text, p_message text, p_error_message text default null,
    p_error_details jsonb default null, p_metadata jsonb default '{}'::jsonb
) returns jsonb language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if nextval('coursegen.tries') <= %d then
        raise exception 'the server is not itself' using errcode = '%s';
    end if;
    return coursegen.fresh_progress();
end $$;
"""
FLAKY_COUNT = """
create sequence coursegen.tries;
grant usage on sequence coursegen.tries to public;
create or replace function onceward.limit_count(p_key text) returns int language plpgsql as $$
begin
    if nextval('coursegen.tries') <= 2 then
        raise exception 'the server is not itself' using errcode = '40001';
    end if;
    return 0;
end $$;
"""


async def unfinished(school: School) -> int:
    return await school.db.fetchval("select count(*) from onceward.work where task = 'coursegen.generate'")


@pytest.mark.acceptance("004-6 saga")
async def test_a_request_makes_a_job_a_slot_and_the_first_step_in_one_commit(school: School) -> None:
    course_id = await school.add_course(language="ru")
    admitted = await school.accept(course_id, request_id="req-1")
    course = await school.course(course_id)
    assert (course["status"], course["job_id"], course["tier"]) == ("queued", admitted.job_id, "FREE")
    first = course["generation_progress"]["steps"][0]
    assert (first["status"], first["message"]) == ("completed", "Инициализация завершена")
    assert first["metadata"] == {"job_id": str(admitted.job_id), "executor": "orchestrator"}
    assert course["generation_progress"]["percentage"] == 20
    assert await school.held() == 1
    assert await school.held(f"coursegen:user:{school.user}") == 1


@pytest.mark.acceptance("004-2 metrics")
async def test_the_same_course_again_gives_the_same_job_and_takes_no_second_slot(school: School) -> None:
    course_id = await school.add_course()
    first = await school.accept(course_id)
    again = await asyncio.gather(*(school.accept(course_id) for _ in range(5)))
    assert {each.job_id for each in again} == {first.job_id}
    assert all(each.duplicate for each in again)
    assert await school.held() == 1
    noted = await school.metrics("duplicate_job_detected")
    assert [(row["job_id"], row["metadata"]["unique_key"], row["user_id"]) for row in noted] == [
        (str(first.job_id), f"course:{course_id}", school.user)
    ] * 5
    assert {row["severity"] for row in noted} == {"info"}


@pytest.mark.acceptance("004-4 limits")
async def test_a_user_at_the_limit_of_the_tier_is_refused_and_it_is_recorded(school: School) -> None:
    school.configure(waiting_most=0)
    await school.set_tier("BASIC")
    for _ in range(2):
        await school.accept(await school.add_course())
    third = await school.add_course()
    with pytest.raises(AtLimit) as refused:
        await school.accept(third)
    assert refused.value.which == "user"
    assert refused.value.retry_after_s > 0
    [noted] = await school.metrics("concurrency_limit_hit")
    assert (noted["severity"], noted["user_id"], noted["subject"]) == ("warn", school.user, str(third))
    expected = {
        "tier": "BASIC",
        "user_limit": 2,
        "current_jobs": 2,
        "global_limit": 3,
        "rejected_course_id": str(third),
    }
    assert noted["metadata"].items() >= expected.items()
    assert (await school.course(third))["status"] == "draft"
    assert (await school.course(third))["generation_progress"] is None
    assert await unfinished(school) == 2


async def test_the_global_limit_refuses_users_who_have_free_slots(school: School) -> None:
    school.configure(waiting_most=0)
    for _ in range(3):
        user = uuid4()
        await school.accept(await school.add_course(user=user), user=user)
    with pytest.raises(AtLimit) as refused:
        await school.accept(await school.add_course())
    assert refused.value.which == "global"


async def test_tiers_come_from_the_database_and_an_unknown_one_is_free(school: School) -> None:
    school.configure(waiting_most=0)
    await school.db.execute("update onceward.limits set at_most = 50")
    slots: dict[str, int] = {}
    for tier in ("FREE", "BASIC", "STANDARD", "PREMIUM", "GOLD"):
        user = uuid4()
        await school.set_tier(tier, user)
        slots[tier] = 0
        with pytest.raises(AtLimit):
            while slots[tier] < 10:
                await school.accept(await school.add_course(user=user), user=user)
                slots[tier] += 1
    assert slots == {"FREE": 1, "BASIC": 2, "STANDARD": 3, "PREMIUM": 5, "GOLD": 1}


async def test_a_refusal_that_only_the_reservation_sees_leaves_nothing_behind(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two requests pass the early look at the same moment; the second loses the race for the slot."""
    school.configure(waiting_most=0)
    monkeypatch.setattr("tests.coursegen.school.refuse_early", lambda *_: None)
    await school.accept(await school.add_course())
    second = await school.add_course()
    with pytest.raises(AtLimit) as refused:
        await school.accept(second)
    assert refused.value.which == "user"
    assert await unfinished(school) == 1
    assert (await school.course(second))["generation_progress"] is None
    [noted] = await school.metrics("concurrency_limit_hit")
    assert noted["metadata"]["rejected_course_id"] == str(second)
    assert noted["metadata"]["global_limit"] == 3


async def test_somebody_elses_course_is_not_found(school: School) -> None:
    course_id = await school.add_course(user=uuid4())
    with pytest.raises(NotFound):
        await school.accept(course_id)
    other = await school.add_organization("other")
    theirs = await school.add_course(organization=other)
    with pytest.raises(NotFound):
        await school.accept(theirs)


@pytest.mark.acceptance("004-6 saga")
async def test_a_transient_error_is_tried_three_times(school: School) -> None:
    course_id = await school.add_course()
    await school.db.execute(FLAKY % (2, "40001"))
    admitted = await school.accept(course_id)
    assert not admitted.duplicate
    assert await school.held() == 1
    assert await school.metrics("job_rollback") == []


async def test_a_transient_error_before_the_transaction_is_tried_three_times_too(school: School) -> None:
    course_id = await school.add_course()
    await school.db.execute(FLAKY_COUNT)
    assert not (await school.accept(course_id)).duplicate
    await school.db.execute("alter sequence coursegen.tries restart")
    await school.db.execute("alter sequence coursegen.tries increment -1 minvalue -9")  # fails for ever
    with pytest.raises(NotAccepted):
        await school.accept(course_id)
    [exhausted] = await school.metrics("rpc_retry_exhausted")
    assert (exhausted["subject"], exhausted["metadata"]["attempts"]) == (str(course_id), 3)


@pytest.mark.acceptance("004-6 saga")
async def test_after_the_third_failure_nothing_is_left_and_both_events_are_recorded(school: School) -> None:
    course_id = await school.add_course()
    await school.db.execute(FLAKY % (3, "40001"))
    with pytest.raises(NotAccepted):
        await school.accept(course_id)
    assert await unfinished(school) == 0
    assert await school.held() == 0
    assert (await school.course(course_id))["status"] == "draft"
    [rolled_back] = await school.metrics("job_rollback")
    [exhausted] = await school.metrics("rpc_retry_exhausted")
    assert rolled_back["severity"] == exhausted["severity"] == "error"
    assert (rolled_back["user_id"], rolled_back["subject"]) == (school.user, str(course_id))
    assert set(rolled_back["metadata"]) == {"reason", "attempts", "last_error", "rollback_timestamp"}
    assert rolled_back["metadata"]["attempts"] == 3
    assert "40001" in rolled_back["metadata"]["last_error"]


async def test_an_error_that_a_retry_cannot_help_is_not_retried(school: School) -> None:
    course_id = await school.add_course()
    await school.db.execute(FLAKY % (1, "22023"))
    with pytest.raises(NotAccepted):
        await school.accept(course_id)
    [rolled_back] = await school.metrics("job_rollback")
    assert rolled_back["metadata"]["attempts"] == 1
    assert await school.metrics("rpc_retry_exhausted") == []


async def test_a_commit_that_was_not_confirmed_is_found_again_by_its_key(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    course_id = await school.add_course()
    real, lost = Tx.commit, []

    async def commit(self: Any, *args: Any, **options: Any) -> None:
        await real(self, *args, **options)
        if not lost and self.conn is not None and await school.held():
            lost.append(True)
            raise OutcomeUnknown("the connection was lost during COMMIT")

    monkeypatch.setattr(Tx, "commit", commit)
    admitted = await school.accept(course_id)
    assert lost
    assert not admitted.duplicate
    assert await unfinished(school) == 1
    assert await school.held() == 1
    # The second commit met the job of the first one, which the engine cannot tell from a second request.
    assert len(await school.metrics("duplicate_job_detected")) == 1


async def test_higher_tiers_run_first(school: School) -> None:
    await school.db.execute("update onceward.limits set at_most = 50")
    titles = {"FREE": "d", "STANDARD": "b", "BASIC": "c", "PREMIUM": "a"}
    for tier, title in titles.items():
        user = uuid4()
        await school.set_tier(tier, user)
        await school.accept(await school.add_course(user=user, title=title, lessons=1), user=user)
    await school.drain()
    rows = await school.db.fetch("select title from coursegen.courses order by started_at, begun_at")
    assert [row["title"] for row in rows] == ["a", "b", "c", "d"]


async def test_a_tier_whose_month_is_spent_is_refused_until_the_next_month(school: School) -> None:
    school.configure(monthly_caps_usd="FREE=0.000001, BASIC=100")
    await school.generate()
    with pytest.raises(AtLimit) as refused:
        await school.accept(await school.add_course())
    assert refused.value.which == "monthly_cap"
    assert 0 < refused.value.retry_after_s <= 31 * 86400 + 1
    await school.set_tier("BASIC")
    await school.accept(await school.add_course())
    spent = await school.db.fetchval("select sum(cost_micros) from coursegen.tier_costs where tier = 'FREE'")
    assert 0 < spent < MICROS


async def test_a_failed_course_continues_and_a_restart_writes_a_new_version(school: School) -> None:
    course_id = await school.generate()
    await school.db.execute("update coursegen.courses set status = 'failed', shown = null where id = $1", course_id)
    await school.accept(course_id)
    course = await school.course(course_id)
    assert (course["attempt"], course["generation_progress"]["percentage"]) == (1, 100)
    assert len(await school.lessons(course_id)) == 2
    await school.drain()
    await school.accept(course_id, restart=True)
    course = await school.course(course_id)
    assert (course["attempt"], course["status"]) == (2, "queued")
    assert course["generation_progress"]["percentage"] == 20


async def test_a_course_whose_cancelled_job_still_stops_cannot_start_yet(school: School) -> None:
    await school.set_tier("BASIC")
    course_id = await school.add_course()
    await school.accept(course_id)
    await school.db.execute("update coursegen.courses set status = 'cancelled' where id = $1", course_id)
    with pytest.raises(NotPossible, match="still stopping"):
        await school.accept(course_id)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.acceptance("004-4 limits")
async def test_contention_never_exceeds_a_limit(school: School, early: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many users at once, several requests each, on two engines. The twin without the early look shows the reservation alone."""
    school.configure(waiting_most=0)
    if not early:
        monkeypatch.setattr("tests.coursegen.school.refuse_early", lambda *_: None)
    await school.db.execute("update onceward.limits set at_most = 7")
    users = [uuid4() for _ in range(8)]
    for user in users:
        await school.set_tier("BASIC", user)
    requested = [(user, await school.add_course(user=user)) for user in users for _ in range(4)]

    async def ask(user: Any, course: Any) -> bool:
        try:
            await school.accept(course, user=user)
        except AtLimit:
            return False
        return True

    accepted = await asyncio.gather(*(ask(user, course) for user, course in requested))
    # A slot that two requests reach for at once may be refused to both, but never given to both.
    assert 1 <= sum(accepted) <= 7
    assert await school.held() == sum(accepted)
    for user in users:
        assert await school.held(f"coursegen:user:{user}") <= 2
    assert await unfinished(school) == sum(accepted)
    assert isinstance(school.engine, Engine)


@pytest.mark.acceptance("004-5 global")
async def test_the_global_limit_starts_at_three_and_follows_the_load_between_its_bounds(school: School) -> None:
    """A machine that is idle with courses waiting raises it level by level; a busy one lowers it, and nothing is stopped."""
    school.configure(waiting_most=0)
    load = [10.0, 10.0]
    adaptive = AdaptiveLimit(school.db, measure=lambda: (load[0], load[1]))

    async def adapted() -> int:
        adaptive._cpu = None
        await school.db.execute("update onceward.limits set changed_at = changed_at - interval '2 minutes'")
        await adaptive.step()
        return await school.db.fetchval("select at_most from onceward.limits where name = 'global'")

    assert await school.db.fetchval("select at_most from onceward.limits where name = 'global'") == 3
    users = [uuid4() for _ in range(6)]
    for user in users[:3]:
        await school.accept(await school.add_course(user=user), user=user)
    with pytest.raises(AtLimit):
        await school.accept(await school.add_course(user=users[3]), user=users[3])
    await school.settle_notes()
    assert [await adapted(), await adapted(), await adapted()] == [5, 10, 10]
    for user in users[3:]:
        await school.accept(await school.add_course(user=user), user=user)
    load[:] = [70.0, 10.0]
    assert await adapted() == 5
    load[:] = [10.0, 90.0]
    assert await adapted() == 3
    assert await school.held() == 6
    reason = await school.db.fetchval("select reason from onceward.limit_state('global')")
    assert "memory 90 %" in reason
    with pytest.raises(AtLimit):
        await school.accept(await school.add_course())


async def test_a_request_killed_at_any_statement_leaves_all_or_nothing(
    school: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workflow that this app replaces lost jobs between the slot, the job and the progress."""
    await school.db.execute("update onceward.limits set at_most = 100")
    passed: list[str] = []
    die_at = 0
    for verb in ("fetch", "fetchrow", "fetchval", "execute"):
        real = getattr(Tx, verb)

        async def cut(self: Any, query: str, *args: Any, real: Any = real) -> Any:
            passed.append(query)
            if len(passed) == die_at:
                raise Crash(query)
            return await real(self, query, *args)

        monkeypatch.setattr(Tx, verb, cut)
    first = await school.add_course()
    passed.clear()
    await school.accept(first, user=school.user)
    statements = len(passed)
    assert statements >= 5
    await school.db.execute("update onceward.work set sort_at = 'infinity'")
    for die_at in range(1, statements + 1):  # noqa: B007
        user = uuid4()
        course_id = await school.db.fetchval(
            "insert into coursegen.courses (organization_id, user_id, title, lesson_count, budget_micros)"
            " values ($1, $2, 't', 1, 1) returning id",
            school.organization,
            user,
        )
        passed.clear()
        with pytest.raises(Crash):
            await school.accept(course_id, user=user)
        assert await school.held() == 1
        assert await unfinished(school) == 1
        assert (await school.course(course_id))["generation_progress"] is None

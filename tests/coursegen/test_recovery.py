"""Nothing is forgotten: crashes at every commit, orphans, lost workers, cancelled and replayed jobs."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import orjson
import pytest

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.schedules import Scheduler, run_now
from onceward.testing import Crash, crash_test, drain, give_back, stall_test
from onceward.trust import verify
from onceward.work import gate
from onceward_apps.coursegen import app as coursegen
from onceward_apps.coursegen import checks, sources
from onceward_apps.coursegen.jobs import generate
from onceward_apps.coursegen.sources import SourceIn
from onceward_apps.coursegen.store import courses
from tests.coursegen.school import School, reconcile, retry_now

FORGET = """
truncate coursegen.courses, coursegen.course_lessons, coursegen.drafts, coursegen.llm_calls, coursegen.tier_costs,
         onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.limit_slots, onceward.published,
         onceward.deliveries, onceward.runs, onceward.run_items cascade
"""

EXTRAS: dict[str, Any] = {
    "pictures": True,
    "sources": sources.stored([SourceIn(title="Knots", text="A bowline holds.", url="https://example.org/knots")]),
}


async def observed(school: School) -> dict[str, Any]:
    """What a finished course must look like, however often its job was interrupted."""
    [course] = await school.db.fetch("select * from coursegen.courses")
    paid = await school.db.fetch(
        "select item, count(*) from coursegen.llm_calls where state = 'done' group by 1 order by 1"
    )
    return {
        "status": course["status"],
        "percentage": course["generation_progress"]["percentage"],
        "steps": [step["status"] for step in course["generation_progress"]["steps"]],
        "lessons": [
            (lesson["content"], lesson["exercises"], lesson["picture"]) for lesson in await school.lessons(course["id"])
        ],
        "review": (await school.version(course["id"]))["review"],
        "paid": [tuple(row) for row in paid],
        "open_calls": await school.db.fetchval("select count(*) from coursegen.llm_calls where state = 'started'"),
        "held": await school.held(),
    }


async def test_a_crash_at_any_commit_of_a_short_generation_changes_nothing(school: School) -> None:
    school.configure(steps="tests.coursegen.other_steps:STEPS")

    async def arrange() -> None:
        await school.accept(await school.add_course(lessons=1))

    gates = await crash_test(
        school.engine, arrange=arrange, observe=lambda: observed(school), reset=lambda: school.db.execute(FORGET)
    )
    assert gates.count("fenced-before-commit") == gates.count("fenced-after-commit") == 7
    assert "after-end-hook" in gates


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("extras", [{}, EXTRAS], ids=["plain", "extras"])
async def test_a_crash_at_any_commit_changes_nothing_and_repeats_at_most_the_call_in_flight(
    school: School, extras: dict[str, Any]
) -> None:
    lost: list[int] = []
    calls = 5 if extras else 4

    async def arrange() -> None:
        course_id = await school.add_course(lessons=1, **extras)
        await school.accept(course_id)
        school.openai.calls.clear()

    async def observe() -> dict[str, Any]:
        lost.append(await school.db.fetchval("select count(*) from coursegen.llm_calls where state <> 'done'"))
        # Every call that the model saw is in the log, and at most one of them was in vain.
        assert len(school.openai.calls) <= calls + 1
        return await observed(school)

    gates = await crash_test(school.engine, arrange=arrange, observe=observe, reset=lambda: school.db.execute(FORGET))
    assert gates.count("fenced-before-commit") == gates.count("fenced-after-commit") > 12
    assert "after-run" in gates
    assert max(lost) == 1
    assert lost.count(0) > 1


@pytest.mark.acceptance("004-H pictures", "004-H sources")
async def test_a_crash_around_the_commit_of_a_drawing_loses_nothing(school: School) -> None:
    """The short case of the proof above: the commits that record the call for the drawing, store it, and go on."""

    async def begin() -> None:
        await school.db.execute(FORGET)
        await school.accept(await school.add_course(lessons=1, **EXTRAS))
        school.openai.calls.clear()

    commits: list[bool] = []

    def note(name: str) -> None:
        if name == "fenced-after-commit":
            commits.append(any("SVG" in str(call.messages) for call in school.openai.calls[-1:]))

    await begin()
    gate.hook = note
    try:
        await school.drain()
    finally:
        gate.hook = None
    whole = await observed(school)
    assert ("picture:1", 1) in whole["paid"]
    assert whole["lessons"][0][2]["svg"]
    stored = commits.index(True) + 1
    for name in ("fenced-before-commit", "fenced-after-commit"):
        for number in (stored - 1, stored, stored + 1):
            await begin()
            await crash(school, name, number)
            await give_back(school.engine)
            await school.drain()
            assert await observed(school) == whole, (name, number)
            assert len(school.openai.calls) <= 5 + 1


async def test_a_worker_that_stalls_before_its_first_commit_changes_nothing(database_url: str) -> None:
    gates = ["fenced-before-commit", "after-run"]
    assert set(await stall_test("tests.coursegen.stalls:generation", database_url, only=gates)) == set(gates)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scenario", ["generation", "with_extras"])
async def test_a_worker_that_stalls_at_any_commit_changes_nothing(database_url: str, scenario: str) -> None:
    assert len(await stall_test(f"tests.coursegen.stalls:{scenario}", database_url)) > 20


async def test_a_process_killed_while_the_model_answers_repeats_only_that_call(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    school.openai.piece_characters = 10
    real = school.openai.write

    def die(body: Any) -> str:
        if len(school.openai.calls) == 3:
            running.cancel()
        return real(body)

    school.openai.write = die
    running = asyncio.ensure_future(school.drain())
    with pytest.raises(asyncio.CancelledError):
        await running
    school.openai.write = real
    await give_back(school.engine)
    await school.drain()
    assert (await school.course(course_id))["status"] == "completed"
    by_item: dict[str, list[str]] = {}
    for call in await school.calls(course_id):
        by_item.setdefault(call["item"], []).append(call["state"])
    assert by_item.pop("lesson:2") in (["lost", "done"], ["stopped", "done"])
    assert set(map(tuple, by_item.values())) == {("done",)}


async def crash(school: School, name: str, number: int) -> None:
    """Let the process die when it passes this gate for the nth time."""
    passed: list[str] = []

    def crash_there(gate_name: str) -> None:
        passed.append(gate_name)
        if gate_name == name and passed.count(name) == number:
            raise Crash(name)

    gate.hook = crash_there
    try:
        with pytest.raises(Crash):
            await school.drain()
    finally:
        gate.hook = None


async def crash_in_the_first_call(school: School) -> None:
    """Let the process die between the record of the call and its answer."""
    await crash(school, "fenced-after-commit", 3)  # started, progress, call recorded


async def test_a_lost_call_counts_with_all_it_may_have_cost(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    await crash_in_the_first_call(school)
    [started] = await school.calls(course_id)
    assert started["state"] == "started"
    await give_back(school.engine)
    await school.drain()
    first = (await school.calls(course_id))[0]
    assert (first["state"], first["cost_micros"], first["estimated"]) == ("lost", first["reserved_micros"], True)
    assert not await problems_found(school)


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_call_of_a_dead_process_is_counted_when_its_course_is_cancelled_or_deleted(
    school: School, deleted: bool
) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await crash_in_the_first_call(school)
    await give_back(school.engine)
    async with school.engine.transaction(organization=school.organization) as tx:
        await tx.cancel(admitted.job_id)
        if deleted:
            await courses.delete(tx, course_id)
    await school.drain()
    [call] = await school.calls(course_id)
    assert (call["state"], call["cost_micros"]) == ("lost", call["reserved_micros"])
    assert await school.db.fetchval("select sum(cost_micros) from coursegen.tier_costs") == call["cost_micros"]
    assert not await problems_found(school)
    await school.db.execute("update coursegen.llm_calls set state = 'started', cost_micros = null")
    assert any("is open, and its job" in line for line in await problems_found(school))


async def problems_found(school: School) -> list[str]:
    return [line for result in await verify(school.db, checks.CHECKS) for line in result.problems]


async def enqueue_by_sql(school: School, course_id: UUID) -> int:
    async with school.db.acquire() as conn, conn.transaction():
        await conn.execute("set local role onceward_app")
        await conn.execute("select set_config('onceward.organization', $1, true)", str(school.organization))
        return await conn.fetchval(
            "select onceward.enqueue('coursegen.generate', $1, queue => 'coursegen', unique_key => $2)",
            {"course_id": str(course_id)},
            f"course:{course_id}",
        )


@pytest.mark.acceptance("004-6 saga")
async def test_a_job_that_another_program_enqueued_is_recovered_and_holds_a_slot(school: School) -> None:
    course_id = await school.add_course(language="ru")
    job_id = await enqueue_by_sql(school, course_id)
    await school.drain()
    course = await school.course(course_id)
    assert (course["status"], course["job_id"]) == ("completed", job_id)
    first = course["generation_progress"]["steps"][0]
    assert first["message"] == "Инициализация завершена (восстановлено воркером)"
    assert first["metadata"] == {"recovered_by_worker": True, "job_id": str(job_id)}
    [noted] = await school.metrics("orphaned_job_recovery")
    assert (noted["severity"], noted["user_id"], noted["subject"], noted["job_id"]) == (
        "warn",
        school.user,
        str(course_id),
        str(job_id),
    )
    assert await school.db.fetchval("select count(*) from onceward.limit_slots where work_id = $1", job_id) == 2


async def test_a_recovery_is_recorded_once_however_often_the_job_starts(school: School) -> None:
    course_id = await school.add_course()
    await enqueue_by_sql(school, course_id)
    school.openai.fail_next(3, status=500)
    await school.drain()
    await retry_now(school)
    assert (await school.course(course_id))["status"] == "completed"
    assert len(await school.metrics("orphaned_job_recovery")) == 1


async def test_an_orphan_waits_for_a_slot_and_never_exceeds_the_limit(school: School) -> None:
    admitted = await school.add_course()
    await school.accept(admitted)
    orphan = await school.add_course()
    await enqueue_by_sql(school, orphan)
    await school.db.execute(
        "update onceward.work set sort_at = 'infinity' where id = $1", (await school.course(admitted))["job_id"]
    )
    await school.drain()
    assert (await school.course(orphan))["waits_for"] == "slot"
    assert await school.held(f"coursegen:user:{school.user}") == 1
    await school.db.execute("update onceward.work set sort_at = onceward.now()")
    await school.drain()
    assert {(await school.course(each))["status"] for each in (admitted, orphan)} == {"completed"}


async def test_a_second_job_for_a_course_that_is_being_generated_does_nothing(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    async with school.engine.transaction(organization=school.organization) as tx:
        second = await tx.enqueue(generate.head_start(600), course_id=course_id)
    await school.drain()
    finished = await school.engine.result(second.id)
    assert finished is not None
    assert finished.result["status"] == "halted"
    assert (await school.course(course_id))["status"] == "completed"
    assert len(school.openai.calls) == 6


async def test_a_job_without_an_organization_is_refused_clearly(school: School) -> None:
    course_id = await school.add_course()
    enqueued = await school.engine.enqueue(generate, course_id=course_id)
    await school.drain()
    finished = await school.engine.result(enqueued.id)
    assert finished is not None
    assert finished.outcome == "failed"
    assert "onceward.organization" in finished.error["message"]


@pytest.mark.acceptance("004-4 limits")
async def test_three_lost_workers_end_the_course_and_free_its_slot(school: School) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await school.db.execute("update onceward.work set crashes = 2 where id = $1", admitted.job_id)
    await school.drain("none")  # tells the database which jobs have hooks, as the start of a worker does
    await lose_a_worker(school.db, admitted.job_id)
    await school.drain()
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "worker_lost")
    assert await school.held() == 0


async def lose_a_worker(db: Database, job_id: int) -> None:
    """Let a worker claim the job and die, and let another one notice."""
    await db.execute("update onceward.work set lease = 7, claimed_at = clock_timestamp() where id = $1", job_id)
    await db.execute("insert into onceward.claims (lease, worker, ids) values (7, 99, $1)", [job_id])
    await db.fetch("select * from onceward.rescue(99, null)")


async def test_a_replayed_job_waits_for_a_slot_like_a_new_request(school: School) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await school.db.execute("update onceward.work set crashes = 2 where id = $1", admitted.job_id)
    await lose_a_worker(school.db, admitted.job_id)
    await reconcile(school)
    other = await school.add_course()
    blocker = await school.accept(other)
    await school.db.execute("update onceward.work set sort_at = 'infinity' where id = $1", blocker.job_id)
    assert await school.db.fetchval("select onceward.replay($1)", admitted.job_id) == "replayed"
    await school.drain()
    assert (await school.course(course_id))["waits_for"] == "slot"
    assert await school.held(f"coursegen:user:{school.user}") == 1
    assert school.openai.calls == []
    await school.db.execute("update onceward.work set sort_at = onceward.now()")
    await school.drain()
    assert {(await school.course(each))["status"] for each in (course_id, other)} == {"completed"}


async def test_a_replayed_job_with_a_free_slot_finishes_its_course(school: School) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await school.db.execute("update onceward.work set crashes = 2 where id = $1", admitted.job_id)
    await lose_a_worker(school.db, admitted.job_id)
    await reconcile(school)
    await school.db.fetchval("select onceward.replay($1)", admitted.job_id)
    await reconcile(school)  # the old end in its history must not end the new run
    await school.drain()
    assert (await school.course(course_id))["status"] == "completed"


@pytest.mark.acceptance("004-4 limits")
async def test_a_cancelled_job_ends_the_course_and_frees_the_slot(school: School) -> None:
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await school.drain("none")
    assert await school.db.fetchval("select onceward.cancel($1)", admitted.job_id) == "cancelled"
    await school.drain()
    assert (await school.course(course_id))["status"] == "cancelled"
    assert await school.held() == 0


async def test_a_time_limit_counts_over_all_attempts(school: School) -> None:
    course_id = await school.add_course()
    await school.accept(course_id)
    school.openai.fail_next(3, status=500)
    await school.drain()
    await school.db.execute("update coursegen.courses set started_at = started_at - interval '2 hours'")
    await retry_now(school)
    course = await school.course(course_id)
    assert (course["status"], course["error_code"]) == ("failed", "timeout")


async def add_endpoint(school: School) -> UUID:
    return await school.db.fetchval(
        "insert into onceward.endpoints (organization_id, url, events, direct)"
        " values ($1, 'https://customer.example/hook', array['*'], true) returning endpoint_id",
        school.organization,
    )


async def with_callback(school: School) -> tuple[UUID, int]:
    """Accept a course whose request named a `webhookUrl`."""
    endpoint = await add_endpoint(school)
    course_id = await school.add_course()
    admitted = await school.accept(course_id, webhook=("https://customer.example/hook", endpoint))
    return course_id, admitted.job_id


async def callbacks(school: School) -> list[tuple[str, str, str | None]]:
    rows = await school.db.fetch("select type, body from onceward.published order by id")
    events = [orjson.loads(row["body"])["data"] for row in rows]
    assert await school.db.fetchval("select count(*) from onceward.deliveries") == len(rows)
    return [(row["type"], event["status"], event["error"]) for row, event in zip(rows, events, strict=True)]


async def test_lost_workers_and_a_timeout_are_called_back_once(school: School) -> None:
    await school.set_tier("BASIC")
    _, job_id = await with_callback(school)
    await school.db.execute("update onceward.work set crashes = 2 where id = $1", job_id)
    await lose_a_worker(school.db, job_id)
    for _ in range(2):
        await reconcile(school)
    assert await callbacks(school) == [("course.failed", "failed", "worker_lost")]
    school.configure(timeout_s=1)
    school.openai.stall_stream()
    course_id = await school.add_course()
    endpoint = await school.db.fetchval("select endpoint_id from onceward.endpoints")
    await school.accept(course_id, webhook=("https://customer.example/hook", endpoint))
    await drain(school.engine, "coursegen")
    assert await callbacks(school) == [
        ("course.failed", "failed", "worker_lost"),
        ("course.failed", "failed", "timeout"),
    ]


async def test_every_check_of_the_installation_passes_after_a_generation(school: School) -> None:
    await school.generate()
    loaded = FEATURES.plus(coursegen.features()).load("checks")
    every = [check for group in loaded for check in group]
    assert [result for result in await verify(school.db, every) if not result.ok] == []


async def test_a_course_whose_end_nobody_noticed_is_found_by_the_reconciliation(school: School) -> None:
    """A worker of an older version has no hook; the schedule finds what it left."""
    course_id = await school.add_course()
    admitted = await school.accept(course_id)
    await school.db.execute("delete from onceward.end_hooks")
    await school.db.fetchval("select onceward.cancel($1)", admitted.job_id)
    assert (await school.course(course_id))["status"] == "queued"
    await reconcile(school)
    assert (await school.course(course_id))["status"] == "cancelled"


SLOTS_AT_COMMIT = """
create table public.slots_at_commit (status text, held bigint);
create function public.note_slots() returns trigger language plpgsql security definer as $$
begin
    insert into public.slots_at_commit
    select new.status, count(*) from onceward.limit_slots s
      join onceward.work w on w.id = s.work_id and w.dead_reason is null where s.work_id = new.job_id;
    return null;
end $$;
create constraint trigger note_slots after update on coursegen.courses deferrable initially deferred
    for each row when (new.status in ('completed', 'failed')) execute function public.note_slots();
"""


@pytest.mark.acceptance("004-4 limits")
async def test_the_commit_that_shows_a_course_as_ended_has_freed_its_slots(school: School) -> None:
    await school.db.execute(SLOTS_AT_COMMIT)
    await school.generate()
    school.openai.refuse()
    await school.generate()
    rows = await school.db.fetch("select distinct status, held from public.slots_at_commit order by 1, 2")
    assert [tuple(row) for row in rows] == [("completed", 0), ("failed", 0)]


async def test_the_reconciliation_survives_a_crash_at_every_gate(school: School) -> None:
    await Scheduler(school.db, coursegen.schedules.values()).register()
    endpoint = await add_endpoint(school)

    async def arrange() -> None:
        course_id = await school.add_course()
        admitted = await school.accept(course_id, webhook=("https://customer.example/hook", endpoint))
        await school.db.execute("delete from onceward.end_hooks")
        await school.db.fetchval("select onceward.cancel($1)", admitted.job_id)
        await school.db.execute("update coursegen.courses set updated_at = updated_at - interval '1 minute'")
        async with school.engine.transaction() as tx:
            await tx.become_engine()
            await run_now(tx, coursegen.schedules["coursegen.reconcile"], by="test")

    async def observe() -> dict[str, Any]:
        runs = await school.db.fetch("select status, processed, succeeded, failed from onceward.runs")
        return {
            "courses": [row["status"] for row in await school.db.fetch("select status from coursegen.courses")],
            "callbacks": await callbacks(school),
            "runs": [tuple(row) for row in runs],
            "held": await school.held(),
        }

    gates = await crash_test(school.engine, arrange=arrange, observe=observe, reset=lambda: school.db.execute(FORGET))
    assert "item-before-commit" in gates
    assert (await observe())["callbacks"] == [("course.failed", "cancelled", "cancelled")]

"""`update_course_progress`: one atomic, idempotent function. Progress never falls, whatever order calls arrive in."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from onceward.db import Database
from tests.coursegen.school import School

CALL = "select update_course_progress($1, $2, $3, $4, $5, $6, $7)"
STATUSES = ("pending", "in_progress", "completed", "failed")
STEP_FIELDS = {"status", "message", "started_at", "completed_at", "error", "error_details", "metadata"}


async def update(
    db: Any,
    course: UUID,
    step: int | None,
    status: str | None,
    message: str | None = "m",
    error: str | None = None,
    details: Any = None,
    metadata: Any = None,
) -> dict[str, Any]:
    return await db.fetchval(CALL, course, step, status, message, error, details, metadata or {})


@pytest.mark.acceptance("004-3 progress")
async def test_a_missing_or_empty_progress_becomes_five_steps(school: School) -> None:
    for stored in (None, {}, [], {"steps": []}, {"steps": None, "percentage": 3}):
        await becomes_five_steps(school, stored)


async def becomes_five_steps(school: School, stored: Any) -> None:
    course = await school.add_course()
    await school.db.execute("update coursegen.courses set generation_progress = $2 where id = $1", course, stored)
    progress = await update(school.db, course, 2, "in_progress", "writing", metadata={"a": 1})
    assert set(progress) == {"steps", "percentage", "current_step"}
    assert [step["status"] for step in progress["steps"]] == ["pending", "in_progress", "pending", "pending", "pending"]
    assert all(set(step) == STEP_FIELDS for step in progress["steps"])
    assert progress["steps"][1]["message"] == "writing"
    assert progress["steps"][1]["metadata"] == {"a": 1}
    assert (progress["percentage"], progress["current_step"]) == (30, 2)


PERCENTAGES = [
    (1, "completed", 20),
    (5, "completed", 100),
    (3, "in_progress", 50),
    (4, "failed", 60),
    (2, "pending", 20),
]


@pytest.mark.acceptance("004-3 progress")
async def test_percentages_follow_the_seed(school: School) -> None:
    for step, status, percentage in PERCENTAGES:
        course = await school.add_course()
        assert (await update(school.db, course, step, status))["percentage"] == percentage


@pytest.mark.acceptance("004-3 progress")
async def test_timestamps_are_set_once_and_metadata_is_merged(school: School) -> None:
    course = await school.add_course()
    first = (await update(school.db, course, 1, "in_progress", metadata={"a": 1}))["steps"][0]
    assert first["started_at"]
    assert first["completed_at"] is None
    done = (await update(school.db, course, 1, "completed", metadata={"b": 2}))["steps"][0]
    again = (await update(school.db, course, 1, "completed", metadata={"b": 3}))["steps"][0]
    assert done["started_at"] == first["started_at"]
    assert again["completed_at"] == done["completed_at"]
    assert again["metadata"] == {"a": 1, "b": 3}


async def test_pending_and_failed_set_no_completion_and_a_failed_step_can_be_tried_again(school: School) -> None:
    course = await school.add_course()
    assert (await update(school.db, course, 2, "pending"))["steps"][1]["completed_at"] is None
    failed = (await update(school.db, course, 2, "failed", error="broken", details={"code": 7}))["steps"][1]
    assert (failed["completed_at"], failed["error"], failed["error_details"]) == (None, "broken", {"code": 7})
    again = (await update(school.db, course, 2, "in_progress"))["steps"][1]
    assert (again["status"], again["error"], again["error_details"]) == ("in_progress", None, None)


async def test_a_completed_step_never_goes_back_but_gains_metadata(school: School) -> None:
    course = await school.add_course()
    await update(school.db, course, 1, "completed", "done")
    late = await update(school.db, course, 1, "in_progress", "late", metadata={"late": True})
    assert late["steps"][0]["status"] == "completed"
    assert late["steps"][0]["message"] == "done"
    assert late["steps"][0]["metadata"] == {"late": True}


async def test_a_late_first_step_does_not_move_the_percentage_back(school: School) -> None:
    course = await school.add_course()
    await update(school.db, course, 4, "completed")
    late = await update(school.db, course, 1, "completed")
    assert (late["percentage"], late["current_step"]) == (80, 4)


BAD: list[tuple[Any, Any, Any, str]] = [
    (0, "completed", {}, "Invalid step_id: 0"),
    (6, "completed", {}, "Invalid step_id: 6"),
    (None, "completed", {}, "Invalid step_id: null"),
    (1, "done", {}, "Invalid status: done"),
    (1, None, {}, "Invalid status: null"),
    (1, "completed", [1], "Invalid metadata: array"),
    (1, "completed", {"a": "x" * 70_000}, "too long"),
]


async def test_bad_arguments_raise(school: School) -> None:
    course = await school.add_course()
    for step, status, metadata, words in BAD:
        with pytest.raises(asyncpg.PostgresError, match=words):
            await update(school.db, course, step, status, metadata=metadata)
    assert (await school.course(course))["generation_progress"] is None


async def test_an_unknown_course_raises(school: School) -> None:
    for unknown in (uuid4(), None):
        with pytest.raises(asyncpg.NoDataFoundError, match="Unknown course"):
            await update(school.db, unknown, 1, "completed")  # pyright: ignore[reportArgumentType]


async def test_a_caller_reaches_the_courses_of_its_own_organization_only(school: School) -> None:
    other = await school.add_organization("other")
    for role in ("onceward_app", "onceward_sql_worker"):
        await reaches_its_own(school, role, other)


async def reaches_its_own(school: School, role: str, other: UUID) -> None:
    mine = await school.add_course()
    async with school.db.acquire() as conn:
        for organization, allowed in ((school.organization, True), (other, False), ("", False)):
            async with conn.transaction():
                await conn.execute(f"set local role {role}")
                await conn.execute("select set_config('onceward.organization', $1, true)", str(organization))
                if allowed:
                    assert (await update(conn, mine, 1, "completed"))["percentage"] == 20
                    continue
                with pytest.raises(asyncpg.NoDataFoundError):
                    async with conn.transaction():
                        await update(conn, mine, 2, "completed")
    assert (await school.course(mine))["generation_progress"]["percentage"] == 20


async def test_the_function_has_a_fixed_search_path_and_is_not_public(db: Database) -> None:
    row = await db.fetchrow(
        "select prosecdef, proconfig, has_function_privilege('public', oid, 'execute') as public from pg_proc"
        " where oid = 'public.update_course_progress'::regproc"
    )
    assert row is not None
    assert row["prosecdef"]
    assert row["proconfig"] == ["search_path=pg_catalog, pg_temp"]
    assert not row["public"]


@pytest.mark.acceptance("004-3 progress")
async def test_concurrent_updates_lose_nothing(school: School) -> None:
    course = await school.add_course()
    await asyncio.gather(
        *(update(school.db, course, step, "completed", metadata={f"k{n}": n}) for step in range(1, 6) for n in range(4))
    )
    progress = (await school.course(course))["generation_progress"]
    assert progress["percentage"] == 100
    assert all(len(step["metadata"]) == 4 for step in progress["steps"])


updates = st.tuples(st.integers(1, 5), st.sampled_from(STATUSES))


@settings(
    max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)
@given(steps=st.lists(updates, min_size=1, max_size=12))
@pytest.mark.acceptance("004-3 progress")
def test_in_any_order_of_calls_the_progress_never_falls_and_a_repeat_changes_nothing(
    property_loop: asyncio.AbstractEventLoop, property_school: School, steps: list[tuple[int, str]]
) -> None:
    property_loop.run_until_complete(check_order(property_school, steps))


async def check_order(school: School, steps: list[tuple[int, str]]) -> None:
    course = await school.add_course()
    before: dict[str, Any] = {"percentage": 0, "current_step": 0, "steps": [{"status": "pending"}] * 5}
    async with school.db.acquire() as conn:
        for step, status in steps:
            after = await update(conn, course, step, status)
            assert after["percentage"] >= before["percentage"]
            assert after["current_step"] >= before["current_step"]
            for old, new in zip(before["steps"], after["steps"], strict=True):
                if old["status"] == "completed":
                    assert new["status"] == "completed"
                    assert new["completed_at"] == old["completed_at"]
            assert await update(conn, course, step, status) == after
            before = after


@pytest.fixture
def property_loop() -> Any:
    """One loop and one database for all examples of the property: a database for each would take minutes."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def property_school(property_loop: asyncio.AbstractEventLoop, database_url: str, tmp_path: Any) -> Any:
    async def opened() -> School:
        return await School.open(await Database.open(database_url, min_size=1, max_size=2), tmp_path)

    school = property_loop.run_until_complete(opened())
    yield school
    property_loop.run_until_complete(school.close())
    property_loop.run_until_complete(school.db.close())

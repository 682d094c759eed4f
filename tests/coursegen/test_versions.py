"""A new version of a course is written beside the one that readers see. Whatever happens to it, no paid text is lost."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward_apps.coursegen.completion import end
from onceward_apps.coursegen.errors import NotPossible
from onceward_apps.coursegen.store import courses
from tests.coursegen.school import School

pytestmark = pytest.mark.acceptance("004-V versions")


async def texts(school: School, course_id: UUID) -> list[str]:
    return [lesson["content"] for lesson in await school.lessons(course_id)]


async def checks_pass(school: School) -> None:
    from onceward_apps.coursegen.checks import CHECKS

    async with school.db.acquire() as conn:
        assert [found for check in CHECKS for found in await check.run(conn)] == []


async def refuse(school: School, course_id: UUID) -> None:
    school.openai.refuse()
    await school.drain()


async def spend(school: School, course_id: UUID) -> None:
    await school.db.execute("update coursegen.courses set budget_micros = 1 where id = $1", course_id)
    await school.drain()


async def cancel(school: School, course_id: UUID) -> None:
    async with school.engine.transaction(organization=school.organization) as tx:
        course = await courses.lock(tx, course_id)
        assert await end(tx, course, "cancelled", "cancelled")
        await tx.cancel(course["job_id"])


@pytest.mark.parametrize("request_", [{"lesson": 2}, {"restart": True}], ids=["rewrite", "restart"])
@pytest.mark.parametrize(
    ("trouble", "code"), [(refuse, "content_refused"), (spend, "budget_exceeded"), (cancel, "cancelled")]
)
async def test_a_version_that_is_not_finished_leaves_the_course_as_it_was(
    school: School, request_: Any, trouble: Any, code: str
) -> None:
    course_id = await school.generate()
    before = await texts(school, course_id)
    await school.accept(course_id, **request_)
    assert await texts(school, course_id) == before, "the old text is readable while the new one is written"
    await trouble(school, course_id)
    course = await school.course(course_id)
    assert (course["status"], course["error_code"], course["shown"]) == ("completed", code, 1)
    assert course["generation_progress"]["percentage"] == 100
    assert await texts(school, course_id) == before
    assert await school.held() == 0
    await checks_pass(school)


async def test_an_unfinished_rewrite_is_continued_and_its_text_is_not_paid_for_again(school: School) -> None:
    course_id = await school.generate()
    before = await texts(school, course_id)
    await school.accept(course_id, lesson=2)
    real = school.openai.write

    def refuse_exercises(body: Any) -> str:
        if school.openai.calls[-1].key and len(school.openai.calls) == 7:
            school.openai.refuse()
        return real(body).replace("stayed", "changed")

    school.openai.write = refuse_exercises
    await school.drain()
    assert (await school.course(course_id))["error_code"] == "content_refused"
    assert await texts(school, course_id) == before
    await school.accept(course_id, lesson=2)
    await school.drain()
    course = await school.course(course_id)
    assert (course["status"], course["shown"], course["error_code"]) == ("completed", 2, None)
    assert [call["item"] for call in await school.calls(course_id)][6:] == ["lesson:2", "exercises:2", "exercises:2"]
    after = await texts(school, course_id)
    assert (after[0], after[1] == before[1]) == (before[0], False)
    await checks_pass(school)


async def test_versions_are_kept_and_can_be_shown_again(school: School) -> None:
    course_id = await school.generate()
    first = await texts(school, course_id)
    real = school.openai.write
    school.openai.write = lambda body: real(body).replace("stayed", "changed")
    await school.accept(course_id, restart=True)
    await school.drain()
    assert await texts(school, course_id) != first
    async with school.engine.transaction(organization=school.organization) as tx:
        kept = await courses.versions(tx, course_id)
        assert [(row["attempt"], row["kind"], row["lessons"]) for row in kept] == [(2, "restart", 2), (1, "first", 2)]
        assert await courses.show_version(tx, course_id, 1)
        assert not await courses.show_version(tx, course_id, 3)
    assert await texts(school, course_id) == first
    await checks_pass(school)


async def test_a_completed_course_is_written_again_only_on_request(school: School) -> None:
    course_id = await school.generate()
    with pytest.raises(NotPossible, match="restart: true"):
        await school.accept(course_id)
    assert (await school.course(course_id))["status"] == "completed"
    assert await school.held() == 0

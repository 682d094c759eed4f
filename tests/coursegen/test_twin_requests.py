"""Twin requests to course generation: at once they leave what one would. See `tests/twins.py`.

No worker runs, as if generating took longer than the requests: it takes minutes with a real model.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.limits import set_global
from onceward_apps.coursegen import app as coursegen
from onceward_apps.coursegen import checks
from tests import twins
from tests.coursegen.server import Server, running
from tests.twins import Case, Cases

USERS = "/api/coursegen"
VALID = {
    "courses": "select count(*) from coursegen.courses",
    "courses in the queue": "select count(*) from coursegen.courses where status = 'queued'",
    "courses cancelled": "select count(*) from coursegen.courses where status = 'cancelled'",
    "courses described": "select count(*) from coursegen.courses where brief <> ''",
    "courses shown": "select count(shown) from coursegen.courses",
    "attempts": "select coalesce(sum(attempt), 0) from coursegen.courses",
    "lessons written": "select count(*) from coursegen.course_lessons where content is not null",
    "unfinished work": "select count(*) from onceward.work where dead_reason is null",
    "slots": "select count(*) from onceward.limit_slots s"
    " where exists (select from onceward.work w where w.id = s.work_id)",
    "endpoints": "select count(*) from onceward.endpoints",
    "tiers": "select count(*) from coursegen.users",
    "published": "select count(*) from onceward.published",
}
EVERYTHING = {
    "jobs": twins.JOBS,
    "audit": "select count(*) from onceward.audit_log where action <> 'organization.acted_for'",
}
WITH_LESSON = """
with course as (
    update coursegen.courses set status = 'completed', shown = 1, generation_progress = '{"percentage": 100}' where id = $1
    returning id, organization_id
), version as (
    insert into coursegen.course_versions (organization_id, course_id, attempt, kind, completed_at, progress)
    select organization_id, id, 1, 'first', now(), '{"percentage": 100}' from course returning organization_id, course_id
)
insert into coursegen.course_lessons (organization_id, course_id, attempt, position, title, content)
select organization_id, course_id, 1, 1, 'Bowline', 'text' from version
"""


class Stage(twins.Stage):
    """The server, with courses of users who have all their slots."""

    valid = VALID
    everything = EVERYTHING

    def __init__(self, server: Server) -> None:
        super().__init__(server.url, server.db)
        self.server = server

    async def is_idle(self) -> bool:
        return True

    def user(self) -> dict[str, str]:
        """The headers of a new user."""
        return {"authorization": f"Bearer {self.server.token(uuid4())}"}

    async def call(self, user: dict[str, str], path: str, body: Any = None) -> Any:
        answer = await self.server.call("POST", f"{USERS}{path}", body, token=user["authorization"][7:])
        assert answer.status < 300, answer
        return answer.body

    async def course(self, user: dict[str, str]) -> str:
        return (await self.call(user, "/courses", {"title": "Knots", "lessons": 1}))["id"]

    async def queued(self, user: dict[str, str]) -> str:
        course = await self.course(user)
        await self.call(user, "/generate", {"courseId": course, "webhookUrl": f"{self.server.hooks.url}/done"})
        return course

    async def cancelled(self, user: dict[str, str]) -> str:
        course = await self.queued(user)
        await self.call(user, f"/courses/{course}/cancel")
        return course

    async def completed(self, user: dict[str, str]) -> str:
        course = await self.course(user)
        await self.db.execute(WITH_LESSON, UUID(course))
        return course


async def generate(stage: Stage) -> Case:
    user = stage.user()
    body = {"courseId": await stage.course(user)}
    return Case(f"{USERS}/generate", body, [{**body, "restart": True}, {**body, "restart": False}], user)


async def generate_with_callback(stage: Stage) -> Case:
    user = stage.user()
    url = f"{stage.server.hooks.url}/{next(stage.numbers)}"
    body = {"courseId": await stage.course(user), "webhookUrl": url}
    return Case(f"{USERS}/generate", body, [{**body, "restart": True}], user)


async def restart(stage: Stage) -> Case:
    user = stage.user()
    body = {"courseId": await stage.completed(user), "restart": True}
    return Case(f"{USERS}/generate", body, [], user)


async def create(stage: Stage) -> Case:
    body = {"title": "Knots", "lessons": 1}
    why = "two courses may have the same title: a draft costs nothing until it is generated"
    return Case(f"{USERS}/courses", body, [], stage.user(), several=why)


async def delete(stage: Stage) -> Case:
    user = stage.user()
    return Case(f"{USERS}/courses/{await stage.queued(user)}", None, [], user)


async def cancel(stage: Stage) -> Case:
    user = stage.user()
    return Case(f"{USERS}/courses/{await stage.queued(user)}/cancel", {}, [{"n": 1}], user)


async def resume(stage: Stage) -> Case:
    user = stage.user()
    return Case(f"{USERS}/courses/{await stage.cancelled(user)}/resume", {}, [{"budget": 1.5}, {"budget": 1.2}], user)


async def retry(stage: Stage) -> Case:
    user = stage.user()
    return Case(f"{USERS}/courses/{await stage.completed(user)}/lessons/1/retry", {}, [{"n": 1}], user)


async def edit(stage: Stage) -> Case:
    user = stage.user()
    return Case(f"{USERS}/courses/{await stage.course(user)}", {"brief": "x"}, [{"brief": "y"}], user)


async def show_version(stage: Stage) -> Case:
    user = stage.user()
    course = await stage.completed(user)
    await stage.db.execute("update coursegen.courses set shown = null where id = $1", UUID(course))
    return Case(f"{USERS}/courses/{course}/versions/1/show", {}, [{"n": 1}], user)


async def tier(stage: Stage) -> Case:
    staff = {"authorization": f"Bearer {stage.server.key}"}
    return Case(f"/api/v1/coursegen/users/{uuid4()}", {"tier": "BASIC"}, [{"tier": "basic"}], staff)


async def chosen_models(stage: Stage) -> Case:
    staff = {"authorization": f"Bearer {stage.server.key}"}
    return Case("/api/v1/coursegen/models", {"models": f"*=openai/{uuid4()}"}, [{"models": "*=anthropic"}], staff)


CASES: Cases[Stage] = {
    f"POST {USERS}/generate": generate,
    f"POST {USERS}/generate (with a callback)": generate_with_callback,
    f"POST {USERS}/generate (again from the start)": restart,
    f"POST {USERS}/courses": create,
    f"DELETE {USERS}/courses/{{course_id}}": delete,
    f"POST {USERS}/courses/{{course_id}}/cancel": cancel,
    f"POST {USERS}/courses/{{course_id}}/resume": resume,
    f"POST {USERS}/courses/{{course_id}}/lessons/{{number}}/retry": retry,
    f"PATCH {USERS}/courses/{{course_id}}": edit,
    f"POST {USERS}/courses/{{course_id}}/versions/{{number}}/show": show_version,
    "PUT /api/v1/coursegen/users/{user_id}": tier,
    "PUT /api/v1/coursegen/models": chosen_models,
}


@pytest.fixture
async def stage(database_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with running(database_url, tmp_path, roles={"web"}) as server:
        await set_global(server.db, 1000, actor="test")
        yield Stage(server)


def test_every_route_has_a_case() -> None:
    assert twins.routes_of(CASES) == twins.written_routes(coursegen)


async def test_identical_and_nearly_identical_requests_at_once_leave_what_one_would(stage: Stage) -> None:
    await twins.expect_twins_to_leave_one(stage, CASES, checks.CHECKS)

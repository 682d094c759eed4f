"""Course generation in the walk: courses of each organization, and how every route could be misused to reach them."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid4

import jwt as pyjwt

from onceward.db import Database
from tests.trust.crosswise.routes import Ask

COURSE = """
insert into coursegen.courses (organization_id, user_id, title, brief, lesson_count, budget_micros, status, generation_progress)
values ($1, $2, $3, $3, 1, 1000000, $4, coursegen.fresh_progress()) returning id
"""
LESSON = """
with version as (
    insert into coursegen.course_versions (organization_id, course_id, attempt, kind, completed_at, outline, progress)
    values ($1, $2, 1, 'first', now(), jsonb_build_object('description', $3::text), '{"percentage": 100}')
)
insert into coursegen.course_lessons (organization_id, course_id, attempt, position, title, summary, content, exercises)
values ($1, $2, 1, 1, $3, $3, $3, '[]')
"""
CALL = """
insert into coursegen.llm_calls (organization_id, course_id, user_id, attempt, job_id, step, item, request_id, tier,
       model, state,
                                 reserved_micros, cost_micros)
values ($1, $2, gen_random_uuid(), 1, 1, 2, $3, gen_random_uuid(), 'PREMIUM', 'm', 'done', 1, 1)
"""

# Only the user whose course it is may see it, so each caller of the walk sends the token of its own user.
USER = {"Authorization": "Bearer @course_token"}
API = "/api/coursegen"
DRAFT = {"course_id": "$course"}

READING: dict[tuple[str, str], Ask] = {
    ("GET", f"{API}/courses"): Ask(headers=USER),
    ("GET", f"{API}/courses/{{course_id}}"): Ask(fill=DRAFT, headers=USER),
    ("GET", f"{API}/courses/{{course_id}}/content"): Ask(fill=DRAFT, headers=USER),
    ("GET", f"{API}/courses/{{course_id}}/forecast"): Ask(fill=DRAFT, headers=USER, blank=True),
    ("GET", f"{API}/courses/{{course_id}}/export"): Ask(fill=DRAFT, headers=USER),
    ("GET", f"{API}/courses/{{course_id}}/versions"): Ask(
        fill={"course_id": "$done_course"}, headers=USER, shows="nothing"
    ),
    ("GET", "/coursegen"): Ask(shows="nothing"),
    ("GET", "/coursegen/courses/{course_id}"): Ask(fill=DRAFT, shows="nothing"),
    ("GET", "/coursegen/static/{name}"): Ask(fill={"name": "$slug"}, shows="nothing", refused=True),
}
CHANGING: dict[tuple[str, str], Ask] = {
    ("PUT", "/api/v1/coursegen/models"): Ask(json={"models": "*=openai"}),
    ("PUT", "/api/v1/coursegen/users/{user_id}"): Ask(fill={"user_id": "$course_user"}, json={"tier": "PREMIUM"}),
    ("POST", f"{API}/courses"): Ask(json={"title": "t"}, headers=USER),
    ("POST", f"{API}/generate"): Ask(json={"courseId": "$course"}, headers=USER),
    ("POST", f"{API}/courses/{{course_id}}/cancel"): Ask(fill=DRAFT, headers=USER),
    ("POST", f"{API}/courses/{{course_id}}/resume"): Ask(fill={"course_id": "$failed_course"}, headers=USER),
    ("POST", f"{API}/courses/{{course_id}}/versions/{{number}}/show"): Ask(
        fill={"course_id": "$done_course", "number": "1"}, headers=USER
    ),
    ("POST", f"{API}/courses/{{course_id}}/lessons/{{number}}/retry"): Ask(
        fill={"course_id": "$done_course", "number": "1"}, headers=USER
    ),
    ("PATCH", f"{API}/courses/{{course_id}}"): Ask(fill=DRAFT, json={"brief": "b"}, headers=USER),
    ("DELETE", f"{API}/courses/{{course_id}}"): Ask(fill=DRAFT, headers=USER),
}
PAGES: dict[tuple[str, str], Ask] = {("GET", "/dashboard/coursegen"): Ask()}
COMMANDS: dict[str, str | None] = {
    "coursegen tier": "$course_user PREMIUM",
    "coursegen courses": "--json",
    "coursegen show": "$course",
    "coursegen resume": "$failed_course",
}
QUERIES: dict[str, dict[str, Any]] = {
    "coursegen.progress": {"course_id": "$course"},
    "coursegen.draft": {"course_id": "$course"},
}


async def fill(db: Database, organization: UUID, marker: str, ids: dict[str, str], secret: str) -> None:
    """Give an organization a user with three courses; the ids go into `ids` by the names that the tables use."""
    user = uuid4()
    claims = {"sub": str(user), "exp": int(time.time()) + 86400, "organization_id": str(organization)}
    ids |= {"course_user": str(user), "course_token": pyjwt.encode(claims, secret, "HS256")}
    for name, status in (("course", "draft"), ("failed_course", "failed"), ("done_course", "completed")):
        course = await db.fetchval(COURSE, organization, user, marker, status)
        ids[name] = str(course)
        await db.execute(LESSON, organization, course, marker)
        await db.execute(CALL, organization, course, marker)

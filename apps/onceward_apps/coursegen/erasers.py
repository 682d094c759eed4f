"""Personal data of course generation: who asked for a course, and what they wrote about it."""

from __future__ import annotations

from onceward.trust import Eraser

# A course that is being generated needs the tier of its user, and what they have spent of the cap of the month.
GENERATING = (
    "exists (select from coursegen.courses c where c.organization_id = t.organization_id and c.user_id = t.user_id"
    " and c.status in ('queued', 'generating'))"
)

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="courses",
        table="coursegen.courses",
        columns={"user_id": "whole", "title": "text", "brief": "text", "sources": "json", "webhook_url": "text"},
        blank={
            "user_id": "'00000000-0000-0000-0000-000000000000'::uuid",
            "title": "'erased'",
            "brief": "''",
            "sources": "'[]'",
            "webhook_url": "null",
        },
        together=True,
        # A course that is being generated needs its description.
        waits="t.status in ('queued', 'generating')",
        names=("user_id",),
        linked="t.user_id = any($5)",
    ),
    Eraser(
        name="progress of courses",
        table="coursegen.courses",
        columns={"generation_progress": "json", "error": "text"},
        blank={"generation_progress": "coursegen.fresh_progress()", "error": "'erased'"},
        waits="t.status in ('queued', 'generating')",
    ),
    Eraser(
        name="plans and reviews of courses",
        table="coursegen.course_versions",
        columns={"outline": "json", "review": "json", "progress": "json"},
        blank={
            "outline": """'{"erased": true}'""",
            "review": """'{"erased": true}'""",
            "progress": "coursegen.fresh_progress()",
        },
    ),
    Eraser(
        name="lessons",
        table="coursegen.course_lessons",
        columns={
            "title": "text",
            "summary": "text",
            "content": "text",
            "part": "text",
            "exercises": "json",
            "picture": "json",
        },
        blank={
            "title": "'erased'",
            "summary": "''",
            "content": "''",
            "part": "null",
            "exercises": "'[]'",
            "picture": "'{}'",
        },
        together=True,
    ),
    Eraser(
        name="drafts of lessons",
        table="coursegen.drafts",
        columns={"title": "text", "text": "text"},
        delete=True,
    ),
    Eraser(
        name="users of course generation",
        table="coursegen.users",
        columns={"user_id": "whole"},
        delete=True,
        waits=GENERATING,
        names=("user_id",),
        linked="t.user_id = any($5)",
        complete=True,
    ),
    Eraser(
        name="calls to the language model",
        table="coursegen.llm_calls",
        columns={"user_id": "whole", "error": "text"},
        blank={"user_id": "'00000000-0000-0000-0000-000000000000'::uuid", "error": "'erased'"},
        # A call that is being made needs its user for the cap of the month.
        waits="t.state = 'started'",
        names=("user_id",),
    ),
    Eraser(
        name="costs of users",
        table="coursegen.user_costs",
        columns={"user_id": "whole"},
        delete=True,
        waits=GENERATING,
        names=("user_id",),
        linked="t.user_id = any($5)",
        complete=True,
    ),
)

UNSEARCHED: dict[str, str] = {
    "coursegen.users.tier": "a closed set",
    "coursegen.courses.language": "a language",
    "coursegen.courses.tier": "a closed set",
    "coursegen.courses.request_id": "random",
    "coursegen.courses.error_code": "a closed set",
    "coursegen.model_pauses.reason": "the code of an error",
    "coursegen.drafts.item": "the name of a step",
    "coursegen.llm_calls.item": "the name of a step",
    "coursegen.llm_calls.tier": "a closed set",
    "coursegen.llm_calls.model": "the name of a model",
    "coursegen.tier_costs.*": "sums",
    "coursegen.organization_settings.models": "names of models",
    "coursegen.organization_settings.prices": "names of models",
}

"""A generation that two processes run: one stands still at a gate, the other finishes it, and the first goes on."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from onceward.db import Database
from onceward.testing import StallScenario
from onceward_apps.coursegen import sources
from onceward_apps.coursegen.sources import SourceIn
from tests.coursegen.school import School

RESET = """
truncate coursegen.courses, coursegen.course_lessons, coursegen.drafts, coursegen.llm_calls, coursegen.tier_costs,
         onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.workers, onceward.limit_slots cascade
"""


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[School]:
    """Each process has a language model of its own; what counts is what the database says was paid."""
    with tempfile.TemporaryDirectory() as folder:
        school = await School.open(db, Path(folder))
        yield school
        await school.close()


async def arrange(school: School) -> None:
    await school.accept(await school.add_course(lessons=1))


async def arrange_with_extras(school: School) -> None:
    given = [SourceIn(title="Knots", text="A bowline holds.", url="https://example.org/knots")]
    course = await school.add_course(lessons=1, pictures=True, sources=sources.stored(given))
    await school.accept(course)


async def run(school: School) -> None:
    await school.drain()


async def observe(school: School) -> dict[str, Any]:
    [course] = await school.db.fetch("select * from coursegen.courses")
    paid = await school.db.fetch(
        "select item, count(*) from coursegen.llm_calls where state = 'done' group by 1 order by 1"
    )
    return {
        "status": course["status"],
        "steps": [step["status"] for step in course["generation_progress"]["steps"]],
        "lessons": [
            (each["content"], each["exercises"], each["picture"]) for each in await school.lessons(course["id"])
        ],
        "paid": [tuple(row) for row in paid],
        "open_calls": await school.db.fetchval("select count(*) from coursegen.llm_calls where state = 'started'"),
        "successes": await school.db.fetchval("select count(*) from onceward.attempts where outcome = 'success'"),
        "held": await school.held(),
    }


async def reset(school: School) -> None:
    for _ in range(20):
        try:
            await school.db.execute(RESET)
        except asyncpg.DeadlockDetectedError:
            continue
        return
    raise AssertionError("the tables could not be emptied: each try ended in a deadlock")


generation = StallScenario(open=opened, arrange=arrange, run=run, observe=observe, reset=reset)
with_extras = StallScenario(open=opened, arrange=arrange_with_extras, run=run, observe=observe, reset=reset)

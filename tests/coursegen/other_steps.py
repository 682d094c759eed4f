"""Steps that copy a text instead of asking a model, to show that steps can be replaced."""

from __future__ import annotations

from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.steps import Step, complete
from onceward_apps.coursegen.store import courses


async def plan(generation: Generation) -> None:
    async with generation.transaction() as tx:
        await courses.save_outline(tx, generation.course_id, {"description": "d"}, [("Only", "one")])
    await complete(generation, 2, lessons=1)


async def copy(generation: Generation) -> None:
    async with generation.transaction() as tx:
        await courses.save_lesson(tx, generation.course_id, 1, "copied")
    await complete(generation, 3)


async def skip_exercises(generation: Generation) -> None:
    await complete(generation, 4)


async def skip_review(generation: Generation) -> None:
    await complete(generation, 5)


STEPS = (
    Step(2, "plan", plan),
    Step(3, "copy", copy),
    Step(4, "exercises", skip_exercises),
    Step(5, "review", skip_review),
)

"""Steps 2 to 5 of a generation. Each skips what is already done, so an attempt continues where the last one stopped.

`ONCEWARD_COURSEGEN_STEPS` names another tuple of steps, to generate in another way with the same admission, progress,
budget and recovery.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from onceward import Tx
from onceward_apps.coursegen import model, model_calls, pictures, prompts, safe_text
from onceward_apps.coursegen.answers import NotFitting
from onceward_apps.coursegen.generation import Generation
from onceward_apps.coursegen.model_calls import Question
from onceward_apps.coursegen.store import courses

MAX_LESSON_CHARACTERS = 60_000


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its number from 2 to 5, its name, and the function that does what is left of it."""

    number: int
    name: str
    run: Callable[[Generation], Awaitable[None]]


def load_steps(reference: str) -> Sequence[Step]:
    """Return the steps that a reference (`package.module:NAME`) names. Raises ValueError if they are not 2 to 5."""
    module, _, name = reference.partition(":")
    steps: Sequence[Step] = getattr(import_module(module), name)
    if [step.number for step in steps] != [2, 3, 4, 5]:
        raise ValueError(f"ONCEWARD_COURSEGEN_STEPS={reference}: the steps must be numbered 2, 3, 4, 5")
    return steps


async def lessons_of(generation: Generation) -> list[Any]:
    async with generation.job.transaction() as tx:
        return await courses.lessons(tx, generation.course_id)


async def complete(generation: Generation, step: int, /, **values: Any) -> None:
    if not model.is_completed(generation.progress, step):
        await generation.report(step, "completed", **values)


async def begin_item(generation: Generation, step: int, /, **values: Any) -> None:
    """Say what is being written now, unless the step was completed by an earlier run."""
    if not model.is_completed(generation.progress, step):
        await generation.report(step, "in_progress", **values)


async def write_outline(generation: Generation) -> None:
    """Plan the course: one call, one commit with all lessons."""
    course = generation.course
    if not await lessons_of(generation):
        await begin_item(generation, 2)

        async def save(tx: Tx, answer: prompts.Outline) -> None:
            if len(answer.lessons) != course["lesson_count"]:
                problem = f"lessons: must have exactly {course['lesson_count']} entries, not {len(answer.lessons)}"
                raise NotFitting(problem, answer.model_dump_json())
            planned = [
                (safe_text.plain_text(each.title, most=300), safe_text.plain_text(each.summary, most=4000))
                for each in answer.lessons
            ]
            outline = {"description": safe_text.markdown(answer.description, most=4000)}
            await courses.save_outline(tx, generation.course_id, outline, planned)

        question = Question(step=2, item="outline", title=course["title"], messages=prompts.outline(course))
        await model_calls.fill_in(generation, question, prompts.Outline, save)
    await complete(generation, 2, lessons=len(await lessons_of(generation)))


async def write_lessons(generation: Generation) -> None:
    """Write the lessons that have no text yet, one call and one commit each."""
    lessons = await lessons_of(generation)
    titles = [lesson["title"] for lesson in lessons]
    for lesson in lessons:
        if lesson["content"] is not None:
            continue
        number = lesson["position"]
        await begin_item(generation, 3, number=number, lessons=len(lessons))

        async def save(tx: Tx, text: str, number: int = number) -> None:
            content = safe_text.markdown(text, most=MAX_LESSON_CHARACTERS)
            if not content:
                raise NotFitting("the lesson is empty", text)
            await courses.save_lesson(tx, generation.course_id, number, content)

        async def keep(tx: Tx, text: str, number: int = number) -> None:
            await courses.keep_part(
                tx, generation.course_id, number, safe_text.unfinished(text, most=MAX_LESSON_CHARACTERS)
            )

        messages = prompts.lesson(generation.course, titles, lesson["title"], lesson["summary"], number)
        question = Question(
            step=3,
            item=f"lesson:{number}",
            title=lesson["title"],
            messages=messages,
            written=lesson["part"] or "",
            keep=keep,
        )
        await model_calls.write(generation, question, save)
    await pictures.draw(generation)
    await complete(generation, 3, lessons=len(lessons))


async def write_exercises(generation: Generation) -> None:
    """Write the exercises of the lessons that have none yet."""
    lessons = await lessons_of(generation)
    for lesson in lessons:
        if lesson["exercises"] is not None:
            continue
        number = lesson["position"]
        await begin_item(generation, 4, number=number, lessons=len(lessons))

        async def save(tx: Tx, answer: prompts.Exercises, number: int = number) -> None:
            written = [
                {name: safe_text.markdown(text, most=4000) for name, text in each.model_dump().items()}
                for each in answer.exercises
            ]
            await courses.save_exercises(tx, generation.course_id, number, written)

        messages = prompts.exercises(generation.course, lesson["title"], lesson["content"])
        question = Question(step=4, item=f"exercises:{number}", title=lesson["title"], messages=messages)
        await model_calls.fill_in(generation, question, prompts.Exercises, save)
    await complete(generation, 4, lessons=len(lessons))


async def write_review(generation: Generation) -> None:
    """Review the whole course once."""
    if generation.version["review"] is None:
        lessons = await lessons_of(generation)
        await begin_item(generation, 5)

        async def save(tx: Tx, answer: prompts.Review) -> None:
            review = {
                "summary": safe_text.markdown(answer.summary, most=4000),
                "strengths": [safe_text.plain_text(each, most=300) for each in answer.strengths],
                "improvements": [safe_text.plain_text(each, most=300) for each in answer.improvements],
            }
            await courses.save_review(tx, generation.course_id, review)

        messages = prompts.review(generation.course, [(each["title"], each["content"]) for each in lessons])
        question = Question(step=5, item="review", title=generation.course["title"], messages=messages)
        await model_calls.fill_in(generation, question, prompts.Review, save)
    await complete(generation, 5)


STEPS: tuple[Step, ...] = (
    Step(2, "outline", write_outline),
    Step(3, "lessons", write_lessons),
    Step(4, "exercises", write_exercises),
    Step(5, "review", write_review),
)

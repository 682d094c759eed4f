"""What a generation will probably cost, before it starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onceward import Query, Tx
from onceward_apps.coursegen import model
from onceward_apps.coursegen.models import Plan
from onceward_apps.coursegen.store import costs, courses

LEAST_CALLS = 5
"""With fewer calls of its own, the forecast of a step uses the numbers below."""
TYPICAL: dict[int, tuple[int, int]] = {2: (400, 120), 3: (700, 1500), 4: (1900, 600), 5: (400, 400)}
"""Tokens of question and answer by step: of one call, in steps 2 and 5 for one lesson of the course."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """`expected_micros` is typical; `most_micros` is never exceeded. `cap_left_micros`: None without a monthly cap."""

    calls: int
    expected_micros: int
    most_micros: int
    cap_left_micros: int | None

    @property
    def fits(self) -> bool:
        return self.cap_left_micros is None or self.expected_micros <= self.cap_left_micros


async def forecast(reader: Tx | Query, course: Any, plan: Plan, *, restart: bool = False) -> Forecast:
    """Return what is left to pay for a course: everything, or what an unfinished version still needs."""
    begun = course["status"] in ("failed", "cancelled") or course["status"] in model.RUNNING
    lessons = await courses.lessons(reader, course["id"]) if begun and not restart else []
    wanted = _calls(course["lesson_count"], lessons)
    if course["pictures"]:
        wanted[3] += sum(lesson["picture"] is None for lesson in lessons) if lessons else course["lesson_count"]
    expected = 0
    for step, number in wanted.items():
        names = [ref.name for ref in plan.models_of(step)]
        expected += number * plan.prices_of(names[0]).cost(*await _tokens(reader, step, course["lesson_count"]))
    cap_left = await costs.left(reader, plan, course["user_id"])
    limits = [course["budget_micros"], *([] if cap_left is None else [cap_left])]
    return Forecast(
        calls=sum(wanted.values()), expected_micros=expected, most_micros=min(limits), cap_left_micros=cap_left
    )


def _calls(lesson_count: int, lessons: Sequence[Any]) -> dict[int, int]:
    """Return the number of calls that each step still needs."""
    if not lessons:
        return {2: 1, 3: lesson_count, 4: lesson_count, 5: 1}
    texts = sum(lesson["content"] is None for lesson in lessons)
    exercises = sum(lesson["exercises"] is None for lesson in lessons)
    return {2: 0, 3: texts, 4: exercises, 5: 1}


async def _tokens(reader: Tx | Query, step: int, lesson_count: int) -> tuple[int, int]:
    seen = await costs.typical(reader, step)
    if seen["calls"] >= LEAST_CALLS:
        return round(seen["prompt_tokens"]), round(seen["completion_tokens"])
    question, answer = TYPICAL[step]
    scale = lesson_count if step in (2, 5) else 1
    return question * (scale if step == 5 else 1), answer * (scale if step == 2 else 1)

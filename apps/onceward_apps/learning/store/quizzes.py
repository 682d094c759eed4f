"""SQL of quizzes: questions, and the results of students."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Query, Tx

QUESTIONS = """
select id, position, question, options, correct from learning.quiz_questions where item_id = $1 order by position
"""
ADD = """
insert into learning.quiz_questions (item_id, position, question, options, correct)
select $1, $2, $3, $4, $5
"""
COPY = """
insert into learning.quiz_questions (item_id, position, question, options, correct)
select n.id, q.position, q.question, q.options, q.correct
  from learning.quiz_questions q join learning.content_items i on i.id = q.item_id
  join learning.content_items n on n.cohort_id = $2 and n.kind = i.kind and n.title = i.title
 where i.cohort_id = $1
"""
RESULT = """
insert into learning.quiz_results as r (enrollment_id, item_id, best, last, passed_at, last_key)
values ($1, $2, $3, $3, case when $4 then onceward.now() end, $5)
on conflict (enrollment_id, item_id) do update
   set attempts = r.attempts + 1, best = greatest(r.best, excluded.best), last = excluded.last,
       passed_at = coalesce(r.passed_at, excluded.passed_at), attempted_at = onceward.now(),
       last_key = excluded.last_key
 where excluded.last_key is null or r.last_key is distinct from excluded.last_key
returning attempts, best, passed_at
"""


async def questions(tx: Tx | Query, item_id: UUID) -> list[Any]:
    return await tx.fetch(QUESTIONS, item_id)


async def replace(tx: Tx, item_id: UUID, questions: Sequence[Any]) -> None:
    await tx.execute("delete from learning.quiz_questions where item_id = $1", item_id)
    for position, each in enumerate(questions):
        await tx.execute(ADD, item_id, position, each.question, list(each.options), list(each.correct))


async def copy(tx: Tx, cohort_id: UUID, to_cohort: UUID) -> None:
    """Copy the questions of all quizzes of a cohort to the items of the same kind and title."""
    await tx.execute(COPY, cohort_id, to_cohort)


async def keep_result(
    tx: Tx, enrollment_id: UUID, item_id: UUID, percent: int, *, passed: bool, key: str | None
) -> Any:
    """Count an attempt. None: the request was repeated."""
    return await tx.fetchrow(RESULT, enrollment_id, item_id, percent, passed, key)


async def result(tx: Tx | Query, enrollment_id: UUID, item_id: UUID) -> Any:
    return await tx.fetchrow(
        "select attempts, best, last, passed_at from learning.quiz_results where enrollment_id = $1 and item_id = $2",
        enrollment_id,
        item_id,
    )

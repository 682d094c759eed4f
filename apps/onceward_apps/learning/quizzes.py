"""Quizzes with questions: text of the school, answered as often as a student likes, passed at a percentage.

    Which of these are even?
    * 2
    - 3
    * 4

A line with a star is a right option, one with a hyphen a wrong one; an empty line ends a question.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import curriculum
from onceward_apps.learning.store import quizzes as rows

MOST_QUESTIONS = 100
MOST_OPTIONS = 10
LONGEST = 1000


@dataclass(frozen=True, slots=True)
class Question:
    question: str
    options: tuple[str, ...]
    correct: tuple[int, ...]
    """The right options, counted from 0."""


@dataclass(frozen=True, slots=True)
class Graded:
    """How an attempt went. `wrong` are the ids of the questions that were not answered right."""

    percent: int
    passed: bool
    wrong: tuple[str, ...]


def parse(text: str) -> list[Question]:
    """Return the questions of a text. Raises `InvalidRequest` with the number of the line."""
    found: list[Question] = []
    words: list[str] = []
    options: list[str] = []
    correct: list[int] = []

    def end(line: int) -> None:
        if not words and not options:
            return
        where = f"the question that ends in line {line}"
        if not words:
            raise InvalidRequest(f"{where} has no text before its options")
        if not 2 <= len(options) <= MOST_OPTIONS:
            raise InvalidRequest(f"{where} has {len(options)} options: give 2 to {MOST_OPTIONS}")
        if not correct:
            raise InvalidRequest(f"{where} has no right option: begin its line with a star")
        question = " ".join(words)
        if len(question) > LONGEST or any(len(each) > LONGEST for each in options):
            raise InvalidRequest(f"{where} is longer than {LONGEST} characters")
        found.append(Question(question, tuple(options), tuple(correct)))
        words.clear()
        options.clear()
        correct.clear()

    number = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line[:2] in ("* ", "- "):
            if line[0] == "*":
                correct.append(len(options))
            options.append(line[2:].strip())
        elif not line:
            end(number)
        else:
            if options:
                end(number - 1)
            words.append(line)
    end(number)
    if len(found) > MOST_QUESTIONS:
        raise InvalidRequest(f"the quiz has {len(found)} questions: at most {MOST_QUESTIONS} are allowed")
    return found


def write(questions: Sequence[Any]) -> str:
    """Return questions (rows, or `Question`) as the text that `parse` reads."""
    blocks: list[str] = []
    for each in questions:
        question, options, correct = (
            (each.question, each.options, each.correct)
            if isinstance(each, Question)
            else (each["question"], each["options"], each["correct"])
        )
        lines = [f"{'*' if number in correct else '-'} {option}" for number, option in enumerate(options)]
        blocks.append("\n".join((question, *lines)))
    return "\n\n".join(blocks)


async def set_questions(tx: Tx, item_id: UUID, text: str, *, actor: str) -> int:
    """Replace the questions of a quiz, and return how many it has. Who has passed has still passed."""
    item = await curriculum.lock_item(tx, item_id)
    if item is None:
        raise NotFound(f"there is no item {item_id}")
    if item["kind"] != "quiz":
        raise LearningError(f"{item['title']} is not a quiz: only a quiz has questions")
    questions = parse(text)
    await rows.replace(tx, item_id, questions)
    changes = {"questions": len(questions)}
    await tx.audit("quiz_changed", entity_type="Item", entity_id=item_id, changes=changes, actor=actor)
    return len(questions)


async def answer(
    tx: Tx, enrollment_id: UUID, item_id: UUID, answers: Mapping[str, Sequence[int]], *, key: str | None = None
) -> Graded:
    """Grade the answers of a student: question id to the chosen options. The same `key` again counts once.

    The caller has checked that the item is open for the student, and marks it as done if it is passed.
    """
    item = await curriculum.lock_item(tx, item_id)
    questions = await rows.questions(tx, item_id)
    if item is None or not questions:
        raise LearningError("this item has no questions")
    unknown = set(answers) - {str(each["id"]) for each in questions}
    if unknown:
        raise InvalidRequest("the questions have changed: load the page again")
    wrong = [
        str(each["id"])
        for each in questions
        if sorted(set(answers.get(str(each["id"]), ()))) != sorted(each["correct"])
    ]
    right = len(questions) - len(wrong)
    passed = 100 * right >= item["pass_percentage"] * len(questions)
    graded = Graded(100 * right // len(questions), passed, tuple(wrong))
    await rows.keep_result(tx, enrollment_id, item_id, graded.percent, passed=passed, key=key)
    return graded

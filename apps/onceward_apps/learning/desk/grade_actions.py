"""What an instructor does: grade work, write the questions of quizzes, write and moderate in the chat."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, DeskFigure, LongText, Options
from onceward.web.dashboard import many
from onceward_apps.learning import chat, quizzes, submissions
from onceward_apps.learning.desk.listings import CHAT, COHORTS, ITEMS, WORKS, desk
from onceward_apps.learning.store import quizzes as quiz_rows

INSTRUCTOR = ("instructor",)
VERDICTS = {"PASSED": "Passed", "RETURNED": "Return it to the student"}


class GradeForm(BaseModel):
    """How good the work is."""

    verdict: Annotated[Literal["PASSED", "RETURNED"], Options(VERDICTS)] = Field("PASSED", title="Result")
    grade: int | None = Field(None, title="Points", ge=0, le=100, description="Of 100. May be empty.")
    feedback: Annotated[str, LongText()] = Field(
        "", title="Feedback", max_length=5000, description="The student reads it."
    )


class QuestionsForm(BaseModel):
    """The questions of a quiz as text."""

    questions: Annotated[str, LongText()] = Field(
        "",
        title="Questions",
        max_length=100_000,
        description="A question, then its options in lines of their own: * before right ones, - before wrong ones.",
    )


class WriteForm(BaseModel):
    """A message of the school in the chat of a cohort."""

    author: str = Field(title="Your name", min_length=1, max_length=200)
    message: Annotated[str, LongText()] = Field(title="Message", min_length=1, max_length=chat.MAX_MESSAGE)


@desk.action(WORKS, "Grade", model=GradeForm, when="r.status = 'HANDED_IN'", roles=INSTRUCTOR, causes=("mail",))
async def grade(tx: Tx, act: Act[GradeForm]) -> str:
    given = act.given
    graded = await submissions.grade(
        tx, UUID(act.id), given.verdict, grade=given.grade, feedback=given.feedback, actor=act.by.actor
    )
    if given.verdict == "PASSED":
        return f"{graded['title']} is passed and counts as done. The student gets a message."
    return f"{graded['title']} goes back. The student gets a message, and can hand it in again."


async def load_questions(tx: Tx, id: str) -> QuestionsForm | None:
    return QuestionsForm(questions=quizzes.write(await quiz_rows.questions(tx, UUID(id))))


@desk.action(ITEMS, "Questions", model=QuestionsForm, load=load_questions, when="r.kind = 'quiz'", roles=INSTRUCTOR)
async def set_questions(tx: Tx, act: Act[QuestionsForm]) -> str:
    number = await quizzes.set_questions(tx, UUID(act.id), act.given.questions, actor=act.by.actor)
    if number == 0:
        return "The quiz has no questions: students mark it as done."
    return f"The quiz has {many(number, 'question')}. Who has passed has still passed."


@desk.action(
    COHORTS, "Write in the chat", model=WriteForm, when="r.status in ('CONFIRMED', 'IN_PROGRESS')", roles=INSTRUCTOR
)
async def write(tx: Tx, act: Act[WriteForm]) -> str:
    await chat.post_for_school(tx, UUID(act.id), act.given.author, act.given.message, actor=act.by.actor)
    return "Students read it now, marked as a message of the school."


@desk.action(CHAT, "Remove", on="rows", reason=True, danger=True, roles=INSTRUCTOR)
async def moderate(tx: Tx, act: Act[BaseModel]) -> str:
    await chat.moderate(tx, int(act.id), reason=act.reason, actor=act.by.actor)
    return "The message is gone. Its place in the chat says that the school removed it."


desk.figure(
    DeskFigure(
        title="Work to grade",
        sql="select count(*) from learning.submissions"
        " where status = 'HANDED_IN' and ($1::uuid is null or organization_id = $1)",
        listing="submissions",
        query="status=HANDED_IN",
    )
)

"""Instructors: quizzes with questions, work that is handed in and graded, and the chat of a school."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from onceward.testing import assert_sent
from onceward.trust.erase import erase
from onceward_apps.learning import certificates, chat, content, quizzes, submissions
from onceward_apps.learning.app import app
from onceward_apps.learning.cohort_changes import duplicate_cohort
from onceward_apps.learning.enrollments import enrol_by_hand
from onceward_apps.learning.erasers import ERASERS
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import chat as chat_rows
from onceward_apps.learning.store import curriculum, views
from onceward_apps.learning.store import submissions as rows
from tests.learning.school import School
from tests.learning.server import STUDENT, running

QUIZ = """Which of these are even?
* 2
- 3
* 4

What is the name of
the course?
* Data
- Cooking
"""


def test_a_quiz_is_written_as_text_and_read_back() -> None:
    found = quizzes.parse(QUIZ)
    assert found == [
        quizzes.Question("Which of these are even?", ("2", "3", "4"), (0, 2)),
        quizzes.Question("What is the name of the course?", ("Data", "Cooking"), (0,)),
    ]
    assert quizzes.parse(quizzes.write(found)) == found
    assert quizzes.parse(" \n\n") == []
    for text, why in (
        ("Why?\n* a", "line 2 has 1 options"),
        ("Why?\n- a\n- b", "no right option"),
        ("* a\n- b", "no text before"),
        ("x" * 1001 + "\n* a\n- b", "longer than 1000"),
        ("Why?\n* a\n- b\n\n" * 101, "101 questions"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            quizzes.parse(text)


async def student_with(school: School, **item: Any) -> tuple[UUID, UUID, UUID]:
    """Return a running cohort, an enrolment in it, and its one item."""
    cohort = await school.cohort(price=0, status="IN_PROGRESS", has_live_sessions=False)
    async with school.transaction() as tx:
        enrollment = await enrol_by_hand(tx, cohort, await school.student("Ada"), reason="x", actor="op")
        values: dict[str, Any] = {"title": "Work", "kind": "assignment", **item}
        made = await curriculum.add_item(tx, cohort, **values)
    return cohort, enrollment, made["id"]


@pytest.mark.acceptance("quizzes")
async def test_a_quiz_is_passed_at_its_percentage_and_counts_as_done(school: School) -> None:
    cohort, enrollment, item = await student_with(school, kind="quiz", pass_percentage=100)
    async with school.transaction() as tx:
        assert await quizzes.set_questions(tx, item, QUIZ, actor="op") == 2
        one, two = [
            str(row["id"]) for row in await tx.fetch("select id from learning.quiz_questions order by position")
        ]

        async def answer(answers: dict[str, list[int]], key: str | None = None) -> quizzes.Graded:
            return await quizzes.answer(tx, enrollment, item, answers, key=key)

        assert await answer({one: [2, 0], two: [1]}) == quizzes.Graded(50, False, (two,))
        assert await answer({}) == quizzes.Graded(0, False, (one, two))
        assert await answer({one: [0, 1, 2], two: [0]}, "the same key") == quizzes.Graded(50, False, (one,))
        await answer({one: [0, 1, 2], two: [0]}, "the same key")
        assert await answer({one: [0, 2], two: [0]}) == quizzes.Graded(100, True, ())
        row = await tx.fetchrow("select * from learning.quiz_results")
        assert (row["attempts"], row["best"], row["passed_at"] is not None) == (4, 100, True)
        with pytest.raises(InvalidRequest, match="have changed"):
            await answer({str(enrollment): [0]})
        shown = (await views.items(tx, await views.get_enrollment(tx, enrollment)))[0]
        assert (shown["has_questions"], shown["quiz_best"]) == (True, 100)
        copy = await duplicate_cohort(
            tx, cohort, name="Next", starts_at=(await tx.fetchval("select now()")), actor="op"
        )
        assert (
            await tx.fetchval(
                "select count(*) from learning.quiz_questions q join learning.content_items i on i.id = q.item_id"
                " where i.cohort_id = $1",
                copy["id"],
            )
            == 2
        )
        assert await content.remove_item(tx, item, actor="op") == 0


@pytest.mark.acceptance("gradeSubmissions")
async def test_work_is_handed_in_returned_and_passed_and_the_student_hears_of_it(school: School) -> None:
    _, enrollment, item = await student_with(school, graded=True)
    files = app.services.files

    async def hand_in(text: str) -> Any:
        async with school.transaction() as tx:
            return await submissions.hand_in(tx, await views.get_enrollment(tx, enrollment), item, text)

    async def grade(verdict: submissions.Verdict, feedback: str = "") -> Any:
        async with school.transaction() as tx:
            known = await rows.find(tx, enrollment, item)
            return await submissions.grade(tx, known["id"], verdict, grade=90, feedback=feedback, actor="instructor")

    async def upload(name: str, content: bytes = b"%PDF-") -> UUID:
        return await submissions.add_file(
            school.engine,
            school.organization,
            enrollment,
            item,
            name=name,
            content_type="application/pdf",
            content=content,
        )

    with pytest.raises(InvalidRequest, match="a text or a file"):
        await hand_in("  ")
    kept, dropped = await upload("essay.pdf"), await upload("../../draft.pdf")
    async with school.transaction() as tx:
        await submissions.discard_file(tx, enrollment, item, dropped)
    assert (await hand_in(""))["revision"] == 1
    with pytest.raises(InvalidRequest, match="what is missing"):
        await grade("RETURNED")
    await grade("RETURNED", "Please add a chart.")
    with pytest.raises(LearningError, match="RETURNED"):
        await grade("PASSED")
    assert [(await hand_in("With a chart"))["revision"], (await hand_in("With a chart"))["revision"]] == [2, 2]
    await grade("PASSED")
    for late in (hand_in("again"), upload("late.pdf")):
        with pytest.raises(LearningError, match="cannot change any more"):
            await late
    mails = await assert_sent(school.engine, "work-graded", count=2)
    assert [mail.data["passed"] for mail in sorted(mails, key=lambda mail: mail.key)] == [False, True]
    async with school.transaction() as tx:
        assert (await certificates.standing(tx, enrollment)).completion == 100
        with pytest.raises(LearningError, match="1 students have handed in"):
            await content.remove_item(tx, item, actor="op")

    paths = {each: submissions.path_of(school.organization, each) for each in (kept, dropped)}
    assert [await files.get(path) for path in paths.values()] == [b"%PDF-", b"%PDF-"]
    await school.schedule("learning.old_records")
    assert [await files.get(path) for path in paths.values()] == [b"%PDF-", None]
    await erase(school.db, "ada@example.org", ERASERS, organization=school.organization, actor="test")
    await school.schedule("learning.old_records")
    assert await files.get(paths[kept]) is None
    assert await school.count("submission_files") == 0
    assert (await school.row("submissions", enrollment_id=enrollment))["text"] == ""


async def test_an_upload_that_was_cut_off_leaves_no_file(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    _, enrollment, item = await student_with(school, graded=True)

    async def upload() -> UUID:
        return await submissions.add_file(
            school.engine, school.organization, enrollment, item, name="a.txt", content_type="text/plain", content=b"a"
        )

    for _ in range(submissions.MOST_FILES - 1):
        await upload()

    async def cut_off(*_: Any) -> bool:
        raise ConnectionError("the process ended here")

    with monkeypatch.context() as patched:
        patched.setattr(rows, "stored", cut_off)
        with pytest.raises(ConnectionError):
            await upload()
    with pytest.raises(LearningError, match="5 files already"):
        await upload()
    async with school.transaction() as tx:
        assert len(await rows.files(tx, (await rows.find(tx, enrollment, item))["id"])) == submissions.MOST_FILES - 1
    left = await school.db.fetchval("select id from learning.submission_files where stored_at is null")
    await school.later(days=2)
    await school.schedule("learning.old_records")
    assert await app.services.files.get(submissions.path_of(school.organization, left)) is None
    await upload()


@pytest.mark.acceptance("moderateChat")
async def test_the_school_writes_in_the_chat_and_removes_messages(school: School) -> None:
    cohort, enrollment, _ = await student_with(school)
    ada = (await school.row("enrollments", id=enrollment))["user_id"]
    async with school.transaction() as tx:
        rude = (await chat.post(tx, cohort, ada, "something rude"))["messageId"]
        await chat.post_for_school(tx, cohort, "Grace Hopper", "Welcome", actor="op")
        assert await chat_rows.unread(tx, cohort, ada) == 1
        await chat.moderate(tx, rude, reason="insult", actor="op")
        with pytest.raises(NotFound):
            await chat.moderate(tx, rude, reason="insult", actor="op")
        shown = await chat_rows.newest(tx, cohort, 10, reader=ada)
    assert [(row["name"], row["message"], row["removed"], row["by_school"]) for row in shown] == [
        ("Ada", "", True, False),
        ("Grace Hopper", "Welcome", False, True),
    ]


@pytest.mark.acceptance("gradeSubmissions", "quizzes")
async def test_a_student_answers_and_hands_in_over_http(database_url: str, tmp_path: Path) -> None:
    async with running(database_url, tmp_path) as server:
        cohort = await server.cohort()
        enrollment, other = await server.enrol(cohort, "Ada"), await server.enrol(cohort, "Bob")
        async with server.engine.transaction(organization=server.organization) as tx:
            quiz = (await curriculum.add_item(tx, cohort, kind="quiz", title="Quiz"))["id"]
            work = (await curriculum.add_item(tx, cohort, kind="assignment", title="Work", graded=True))["id"]
            await quizzes.set_questions(tx, quiz, QUIZ, actor="op")
        await server.begin(cohort)
        users = {
            row["id"]: row["user_id"] for row in await server.db.fetch("select id, user_id from learning.enrollments")
        }
        ada, bob = server.jwt(users[enrollment]), server.jwt(users[other])

        def path(item: UUID, owner: UUID = enrollment) -> str:
            return f"{STUDENT}/enrollments/{owner}/items/{item}"

        status, shown = await server.call("GET", f"{path(quiz)}/questions", token=ada)
        assert status == 200
        assert "correct" not in str(shown)
        assert [each["several"] for each in shown["questions"]] == [True, False]
        answers = {shown["questions"][0]["id"]: [0, 2], shown["questions"][1]["id"]: [0]}
        for item in (quiz, work):
            status, _ = await server.call("PUT", path(item), {"done": True}, token=ada)
            assert status == 403, "nobody grades themselves"
        status, graded = await server.call("POST", f"{path(quiz)}/answers", {"answers": answers}, token=ada)
        assert (status, graded) == (200, {"percent": 100, "passed": True, "wrong": []})

        async with server.http.post(
            f"{server.url}{path(work)}/files",
            params={"name": "page.html"},
            data=b"<script>",
            headers={"authorization": f"Bearer {ada}", "content-type": "text/html"},
        ) as answer:
            assert answer.status == 201, await answer.text()
            file = (await answer.json())["id"]
        status, handed = await server.call("PUT", f"{path(work)}/submission", {"text": "See the file"}, token=ada)
        assert (status, handed["status"]) == (200, "HANDED_IN")
        async with server.http.get(
            f"{server.url}{path(work)}/files/{file}", headers={"authorization": f"Bearer {ada}"}
        ) as answer:
            assert (answer.status, await answer.read()) == (200, b"<script>")
            assert answer.headers["content-disposition"].startswith("attachment"), "a page of a student runs nowhere"
            assert answer.headers["content-type"] == "application/octet-stream"
        assert (await server.call("GET", f"{path(work)}/files/{file}", token=bob))[0] == 404
        assert (await server.call("GET", f"{path(work, other)}/files/{file}", token=bob))[0] == 404
        assert (await server.call("GET", f"/learn/submissions/files/{file}", token=bob))[0] in (401, 403)
        status, body = await server.call("GET", f"/learn/submissions/files/{file}", token=server.key)
        assert (status, body) == (200, "<script>")
        status, home = await server.call("GET", f"{STUDENT}/enrollments/{enrollment}/content", token=ada)
        assert [each["work"] for each in home["items"]] == [None, "HANDED_IN"]
        assert home["completion_percentage"] == 50

"""Work that students hand in: a text and files, graded by an instructor. A passed one marks its item as done.

The states are drawn in `migrations/0003_grading.sql`. Files are in the file store; the row of a file is written before
it and confirmed after it, so that a crash leaves no file that nothing names.
"""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from onceward import Engine, Tx
from onceward_apps.learning import activity, links
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import submissions as rows
from onceward_apps.learning.store import views
from onceward_apps.learning.store.rows import OwnEnrollment
from onceward_apps.learning.student_mails import mail

MOST_FILES = 5
MOST_BYTES = 10 * 1024 * 1024
"""The largest file. ONCEWARD_MAX_BODY_BYTES may allow less."""
MOST_TEXT = 20_000
Verdict = Literal["PASSED", "RETURNED"]


def path_of(organization: UUID, file_id: UUID) -> str:
    """Return where a file is in the file store. The name that the student gave it is not part of it."""
    return f"learning/submissions/{organization}/{file_id}"


async def hand_in(tx: Tx, enrollment: OwnEnrollment, item_id: UUID, text: str) -> Any:
    """Hand in the work for an item, or hand it in again. The caller has checked that the item is open and graded."""
    text = text.strip()
    if len(text) > MOST_TEXT or "\x00" in text:
        raise InvalidRequest(f"text has {len(text)} characters: at most {MOST_TEXT} are allowed, and no NUL")
    known = await _open(tx, enrollment["id"], item_id)
    if not text and not await rows.files(tx, known["id"]):
        raise InvalidRequest("hand in a text or a file")
    if (known["status"], known["text"]) == ("HANDED_IN", text):
        return known  # the same request again
    handed = await rows.hand_in(tx, known["id"], text)
    ids = {"cohort_id": enrollment["cohort_id"], "enrollment_id": enrollment["id"], "user_id": enrollment["user_id"]}
    await activity.record(tx, "work_handed_in", **ids)
    return handed


async def add_file(
    engine: Engine,
    organization: UUID,
    enrollment_id: UUID,
    item_id: UUID,
    *,
    name: str,
    content_type: str,
    content: bytes,
) -> UUID:
    """Store a file for the work of a student, and return its id. The caller has checked that the item is open."""
    name = " ".join(name.replace("/", " ").replace("\\", " ").split())
    if not 1 <= len(name) <= 200 or not name.isprintable():
        raise InvalidRequest(f"name has {len(name)} characters: 1 to 200 printable ones are allowed")
    if not 1 <= len(content) <= MOST_BYTES:
        raise InvalidRequest(f"the file has {len(content)} bytes: 1 to {MOST_BYTES} are allowed")
    async with engine.transaction(organization=organization) as tx:
        known = await _open(tx, enrollment_id, item_id)
        if await rows.count_files(tx, known["id"]) >= MOST_FILES:
            raise LearningError(f"the work has {MOST_FILES} files already: remove one first")
        file_id = await rows.add_file(tx, known["id"], name, content_type[:100], len(content))
    await app.services.files.put(path_of(organization, file_id), content, content_type=content_type)
    async with engine.transaction(organization=organization) as tx:
        if not await rows.stored(tx, file_id):
            raise LearningError("the work was removed while the file was stored")
    return file_id


async def discard_file(tx: Tx, enrollment_id: UUID, item_id: UUID, file_id: UUID) -> None:
    known = await _open(tx, enrollment_id, item_id)
    if not await rows.discard(tx, file_id, known["id"]):
        raise NotFound("this file does not exist")


async def _open(tx: Tx, enrollment_id: UUID, item_id: UUID) -> Any:
    known = await rows.open_for(tx, enrollment_id, item_id)
    if known["status"] == "PASSED":
        raise LearningError("this work was graded as passed: it cannot change any more")
    return known


async def grade(tx: Tx, submission_id: UUID, verdict: Verdict, *, grade: int | None, feedback: str, actor: str) -> Any:
    """Grade work that was handed in, and mail the student. Passed work counts as done."""
    known = await rows.lock(tx, submission_id)
    if known is None:
        raise NotFound(f"there is no submission {submission_id}")
    if known["status"] != "HANDED_IN":
        raise LearningError(f"the work is {known['status']}: only work that was handed in can be graded")
    if grade is not None and not 0 <= grade <= 100:
        raise InvalidRequest(f"grade is {grade}: 0 to 100 are allowed")
    feedback = feedback.strip()
    if verdict == "RETURNED" and not feedback:
        raise InvalidRequest("say in the feedback what is missing: the student reads it")
    await rows.grade(tx, submission_id, verdict, grade, feedback, actor)
    if verdict == "PASSED":
        await views.mark_done(tx, known["enrollment_id"], known["item_id"], done=True)
    data: dict[str, Any] = {"name": known["user_name"], "cohortName": known["cohort_name"], "title": known["title"]}
    data |= {"passed": verdict == "PASSED", "grade": grade, "feedback": feedback}
    data["homeUrl"] = links.home(known["enrollment_id"])
    await mail(tx, "work-graded", known, key=f"submission:{submission_id}:{known['revision']}:graded", data=data)
    changes = {"status": verdict, "grade": grade}
    ids: dict[str, Any] = {"entity_type": "Submission", "entity_id": submission_id, "changes": changes}
    await tx.audit("work_graded", **ids, actor=actor)
    return known


async def delete_file(row: Any, tx: Tx) -> None:
    """Delete a file that was discarded or whose upload was cut off, then its row. A repeat finds nothing to delete."""
    await app.services.files.delete(path_of(row["organization_id"], row["id"]))
    await rows.forget_file(tx, row["id"])

"""SQL of the work that students hand in, with its files."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query, Tx

OPEN = """
insert into learning.submissions (enrollment_id, item_id) values ($1, $2)
on conflict (enrollment_id, item_id) do nothing
"""
LOCK_OF = "select * from learning.submissions where enrollment_id = $1 and item_id = $2 for update"
SHOWN = """
select s.*, i.title, i.cohort_id, e.user_id, u.email, u.name as user_name, u.locale, u.erased_at, c.name as cohort_name
  from learning.submissions s
  join learning.content_items i on i.id = s.item_id
  join learning.enrollments e on e.id = s.enrollment_id
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = i.cohort_id
"""
LOCK = f"{SHOWN} where s.id = $1 for update of s"
HAND_IN = """
update learning.submissions set text = $2, status = 'HANDED_IN', revision = revision + 1, handed_in_at = onceward.now()
 where id = $1 returning *
"""
GRADE = """
update learning.submissions set status = $2, grade = $3, feedback = $4, graded_by = $5, graded_at = onceward.now()
 where id = $1
"""
FILES = """
select id, name, content_type, size, created_at from learning.submission_files
 where submission_id = $1 and stored_at is not null and discarded_at is null order by created_at, id
"""
ADD_FILE = """
insert into learning.submission_files (submission_id, name, content_type, size) values ($1, $2, $3, $4) returning id
"""
STORED = """
update learning.submission_files set stored_at = onceward.now() where id = $1 and discarded_at is null returning id
"""
DISCARD = """
update learning.submission_files set discarded_at = onceward.now()
 where id = $1 and submission_id = $2 and discarded_at is null returning id
"""
FILE = """
select f.id, f.name, f.content_type, f.organization_id, s.enrollment_id, e.user_id
  from learning.submission_files f
  join learning.submissions s on s.id = f.submission_id
  join learning.enrollments e on e.id = s.enrollment_id
 where f.id = $1 and f.stored_at is not null and f.discarded_at is null
"""
# An upload takes seconds: one that is not confirmed after a day was cut off.
FILES_TO_DELETE = """
select id, organization_id from learning.submission_files
 where discarded_at is not null or (stored_at is null and created_at < onceward.now() - interval '1 day')
 order by created_at limit $1
"""


async def open_for(tx: Tx, enrollment_id: UUID, item_id: UUID) -> Any:
    """Return the submission of a student for an item, locked. The first call creates it."""
    await tx.execute(OPEN, enrollment_id, item_id)
    return await tx.fetchrow(LOCK_OF, enrollment_id, item_id)


async def find(tx: Tx | Query, enrollment_id: UUID, item_id: UUID) -> Any:
    return await tx.fetchrow(
        "select * from learning.submissions where enrollment_id = $1 and item_id = $2", enrollment_id, item_id
    )


async def lock(tx: Tx, submission_id: UUID) -> Any:
    return await tx.fetchrow(LOCK, submission_id)


async def hand_in(tx: Tx, submission_id: UUID, text: str) -> Any:
    return await tx.fetchrow(HAND_IN, submission_id, text)


async def grade(tx: Tx, submission_id: UUID, status: str, grade: int | None, feedback: str, by: str) -> None:
    await tx.execute(GRADE, submission_id, status, grade, feedback, by)


async def files(tx: Tx | Query, submission_id: UUID) -> list[Any]:
    return await tx.fetch(FILES, submission_id)


async def count_files(tx: Tx, submission_id: UUID) -> int:
    """Return how many files it has, those whose upload is under way too."""
    return await tx.fetchval(
        "select count(*) from learning.submission_files where submission_id = $1 and discarded_at is null",
        submission_id,
    )


async def add_file(tx: Tx, submission_id: UUID, name: str, content_type: str, size: int) -> UUID:
    return await tx.fetchval(ADD_FILE, submission_id, name, content_type, size)


async def stored(tx: Tx, file_id: UUID) -> bool:
    """Confirm that a file is stored. False: it was discarded meanwhile."""
    return await tx.fetchval(STORED, file_id) is not None


async def discard(tx: Tx, file_id: UUID, submission_id: UUID) -> bool:
    return await tx.fetchval(DISCARD, file_id, submission_id) is not None


async def file(tx: Tx, file_id: UUID) -> Any:
    return await tx.fetchrow(FILE, file_id)


async def forget_file(tx: Tx, file_id: UUID) -> None:
    await tx.execute("delete from learning.submission_files where id = $1", file_id)


async def handed_in(tx: Tx, item_id: UUID) -> int:
    """Return how many students have handed in work for an item, or have stored a file for it."""
    return await tx.fetchval(
        "select count(*) from learning.submissions s where s.item_id = $1 and (s.status <> 'DRAFT'"
        " or exists (select from learning.submission_files f where f.submission_id = s.id))",
        item_id,
    )


async def remove_drafts(tx: Tx, item_id: UUID) -> None:
    """Delete what was begun, without files, for an item that is removed."""
    await tx.execute("delete from learning.submissions where item_id = $1", item_id)

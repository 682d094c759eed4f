"""SQL of certificates and of what an enrolment has achieved."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Query, Tx
from onceward_apps.learning.progress import Standing

# A session that was moved or cancelled afterwards counts as the rows say now. Of several observations the strongest
# counts, then the newest: a correction by a person, a no-show, the scheduled end of the meeting.
STANDING = """
select e.id, e.user_id, e.cohort_id, e.status as enrollment_status, c.status as cohort_status, c.has_live_sessions,
       c.required_attendance_percentage, e.exit_survey_completed_at is not null as exit_survey_done,
       items.required as items_required, items.done as items_done, held.ended as sessions_ended, held.attended
       as sessions_attended
  from learning.enrollments e
  join learning.cohorts c on c.id = e.cohort_id
  cross join lateral (
      select count(*) as required, count(p.item_id) as done
        from learning.content_items i left join learning.progress p on p.item_id = i.id and p.enrollment_id = e.id
       where i.cohort_id = c.id and i.required
         and (i.resource is null or exists (select from learning.supplemental_resources r
                                             where r.enrollment_id = e.id and r.resource = i.resource))) items
  cross join lateral (
      select count(*) as ended, count(*) filter (where seen.attended) as attended
        from learning.sessions s
        left join lateral (
            select o.attended from learning.attendance_observations o
             where o.enrollment_id = e.id and o.session_id = s.id
             order by (o.source = 'correction') desc, (o.source = 'no_show') desc, o.id desc limit 1) seen on true
       where s.cohort_id = c.id and s.cancelled_at is null and s.ends_at <= onceward.now()) held
 where e.id = $1
"""
OPEN = """
select e.id, e.organization_id
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id
 where c.status = 'COMPLETED' and e.status in ('ACTIVE', 'EXPIRED') and e.exit_survey_completed_at is not null
   and not exists (select from learning.certificates k where k.enrollment_id = e.id)
"""
ISSUE = """
insert into learning.certificates (enrollment_id, user_id, cohort_id, credential_id, url, snapshot)
values ($1, $2, $3, $4, $5, $6) on conflict (enrollment_id) where replaced_by is null do nothing returning id, issued_at
"""
REPLACE = """
update learning.certificates set replaced_by = $2, revoked_at = onceward.now(), revoked_reason = 'replaced'
 where id = $1
"""
REISSUE = """
insert into learning.certificates (id, enrollment_id, user_id, cohort_id, credential_id, url, snapshot)
select $1, enrollment_id, user_id, cohort_id, $3, $4, snapshot || jsonb_build_object('studentName', $5::text)
  from learning.certificates where id = $2
"""
NOT_VALID = """
select status_number from learning.certificates
 where organization_id = onceward.organization() and status_number between $1 and $2
   and (revoked_at is not null or snapshot ? 'erased')
 order by status_number
"""
NAMES = """
select u.name, u.email, u.locale, u.erased_at, e.user_id, c.name as cohort_name, c.starts_at, c.ends_at,
       (select o.name from onceward.organizations o where o.organization_id = e.organization_id) as organization_name
  from learning.enrollments e join learning.users u on u.id = e.user_id join learning.cohorts c on c.id = e.cohort_id
 where e.id = $1
"""


def _standing(row: Any) -> Standing:
    return Standing(
        items_required=row["items_required"],
        items_done=row["items_done"],
        sessions_ended=row["sessions_ended"],
        sessions_attended=row["sessions_attended"],
        has_live_sessions=row["has_live_sessions"],
        required_attendance=row["required_attendance_percentage"],
        exit_survey_done=row["exit_survey_done"],
        cohort_status=row["cohort_status"],
        enrollment_status=row["enrollment_status"],
    )


async def standing(tx: Tx | Query, enrollment_id: UUID) -> Standing | None:
    row = await tx.fetchrow(STANDING, enrollment_id)
    return None if row is None else _standing(row)


async def names(tx: Tx, enrollment_id: UUID) -> Any:
    return await tx.fetchrow(NAMES, enrollment_id)


async def issue(
    tx: Tx,
    enrollment_id: UUID,
    user_id: UUID,
    cohort_id: UUID,
    *,
    credential_id: str,
    url: str,
    snapshot: Mapping[str, Any],
) -> Any:
    """Insert the certificate. Returns None if the enrolment has one already, revoked or not."""
    return await tx.fetchrow(ISSUE, enrollment_id, user_id, cohort_id, credential_id, url, dict(snapshot))


async def ids_of(tx: Tx, enrollment_id: UUID) -> Any:
    return await tx.fetchrow("select user_id, cohort_id from learning.enrollments where id = $1", enrollment_id)


async def candidates(tx: Tx, cohort_id: UUID, after: UUID | None, limit: int) -> list[UUID]:
    """Return enrolments of a completed cohort that may get a certificate, by id."""
    rows = await tx.fetch(
        OPEN + " and e.cohort_id = $1 and ($2::uuid is null or e.id > $2) order by e.id limit $3",
        cohort_id,
        after,
        limit,
    )
    return [row["id"] for row in rows]


async def by_credential(tx: Tx, credential_id: str) -> Any:
    return await tx.fetchrow("select * from learning.certificates where credential_id = $1", credential_id)


async def with_email(tx: Tx, credential_id: str) -> Any:
    return await tx.fetchrow(
        "select c.*, u.email from learning.certificates c join learning.users u on u.id = c.user_id"
        " where c.credential_id = $1",
        credential_id,
    )


async def by_enrollment(tx: Tx | Query, enrollment_id: UUID) -> Any:
    return await tx.fetchrow(
        "select id, credential_id, url, issued_at, revoked_at, document is not null as has_document"
        " from learning.certificates where enrollment_id = $1 and replaced_by is null",
        enrollment_id,
    )


async def lock_valid(tx: Tx, enrollment_id: UUID) -> Any:
    """Return the valid certificate of an enrolment, locked, or None."""
    return await tx.fetchrow(
        "select * from learning.certificates"
        " where enrollment_id = $1 and replaced_by is null and revoked_at is null for update",
        enrollment_id,
    )


async def replace(tx: Tx, certificate_id: UUID, by: UUID) -> None:
    """Record which certificate replaces one, which is not valid any more. The new one is inserted after this."""
    await tx.execute(REPLACE, certificate_id, by)


async def reissue(tx: Tx, certificate_id: UUID, old: UUID, credential_id: str, url: str, name: str) -> None:
    """Insert a certificate with another name, and all else of the old one."""
    await tx.execute(REISSUE, certificate_id, old, credential_id, url, name)


async def with_other_name(tx: Tx, user_id: UUID, name: str) -> list[UUID]:
    """Return the enrolments of a student with a valid certificate in another name."""
    rows = await tx.fetch(
        "select enrollment_id from learning.certificates"
        " where user_id = $1 and replaced_by is null and revoked_at is null and not snapshot ? 'erased'"
        "   and snapshot ->> 'studentName' is distinct from $2 order by issued_at",
        user_id,
        name,
    )
    return [row["enrollment_id"] for row in rows]


async def not_valid(tx: Tx, first: int, last: int) -> list[int]:
    """Return the numbers of certificates of the organization that are not valid any more, in a range."""
    return [row["status_number"] for row in await tx.fetch(NOT_VALID, first, last)]


# The condition is on the row itself: it is checked again after waiting for an erasure that has locked the row.
KEEP_DOCUMENT = """
update learning.certificates set document = $2 where id = $1 and not snapshot ? 'erased' returning id
"""


async def keep_document(tx: Tx, certificate_id: UUID, document: bytes) -> bool:
    """Store the PDF. False: the student was erased while it was drawn, and it names them."""
    return await tx.fetchval(KEEP_DOCUMENT, certificate_id, document) is not None


async def certificate(tx: Tx, certificate_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.certificates where id = $1", certificate_id)


async def revoke(tx: Tx, enrollment_id: UUID, reason: str) -> datetime | None:
    return await tx.fetchval(
        "update learning.certificates set revoked_at = onceward.now(), revoked_reason = $2"
        " where enrollment_id = $1 and revoked_at is null returning revoked_at",
        enrollment_id,
        reason,
    )

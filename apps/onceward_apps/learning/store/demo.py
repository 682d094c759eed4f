"""SQL of the demo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx

# The quick course has only visitors. It is finished when each of them has done what is required.
VISITED = """
select c.id, c.status,
       c.status = 'IN_PROGRESS' and (c.status_changed_at < onceward.now() - interval '30 minutes' or bool_and(
           not exists (select from learning.content_items i
                        where i.cohort_id = c.id and i.required
                          and not exists (select from learning.progress p
                                           where p.item_id = i.id and p.enrollment_id = e.id)))) as is_finished
  from learning.cohorts c join learning.enrollments e on e.cohort_id = c.id and e.status = 'ACTIVE'
 where c.name = $1 and c.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS')
 group by c.id
"""


async def cohorts(tx: Tx, names: list[str]) -> list[Any]:
    """Return the cohorts with these names, the newest start first."""
    return list(
        await tx.fetch(
            "select id, name, status, starts_at from learning.cohorts where name = any($1) order by starts_at desc",
            names,
        )
    )


async def random_enrollment(tx: Tx, cohort_id: UUID, domain: str) -> Any:
    """Return any active enrolment of a cohort whose student has an address of this domain, such as `@a.example`."""
    return await tx.fetchrow(
        "select e.id, e.user_id from learning.enrollments e join learning.users u on u.id = e.user_id"
        " where e.cohort_id = $1 and e.status = 'ACTIVE' and right(u.email, length($2)) = $2"
        " order by random() limit 1",
        cohort_id,
        domain,
    )


async def visited(tx: Tx, name: str) -> list[Any]:
    """Return the cohorts of this name that somebody is enrolled in, and whether all of them have finished."""
    return list(await tx.fetch(VISITED, name))


async def let_time_pass(tx: Tx, cohort_id: UUID, *, start: timedelta, end: timedelta) -> None:
    """Let a cohort have started and ended earlier, and its students have enrolled the day before its start."""
    await tx.execute(
        "update learning.cohorts set starts_at = starts_at - $2::interval, ends_at = ends_at - $3::interval"
        " where id = $1",
        cohort_id,
        start,
        end,
    )
    await tx.execute(
        "update learning.enrollments e set enrolled_at = c.starts_at - interval '1 day' from learning.cohorts c"
        " where c.id = e.cohort_id and c.id = $1",
        cohort_id,
    )

"""The query of the admin dashboard reads indexes, not the whole table, however many enrolments there are."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from onceward_apps.learning.desk import desk
from onceward_apps.learning.store import views
from tests.learning.school import School

ROWS = 20_000
FILL = """
with people as (
    insert into learning.users (organization_id, email) select $1, n || '@example.org' from generate_series(1, $3::int) n
    returning id
)
insert into learning.enrollments (organization_id, user_id, cohort_id, amount_paid, currency, access_expires_at, enrolled_at, status)
select $1, id, $2, 49900, 'EUR', now(), now() - interval '90 days' * random(),
       case when row_number() over () % 5 = 0 then 'ACTIVE' else 'EXPIRED' end from people
"""


@pytest.mark.acceptance("subscribeToAdminDashboard")
async def test_the_admin_query_reads_no_table_of_enrolments_in_full(school: School) -> None:
    cohort = await school.cohort()
    await school.db.execute(FILL, school.organization, cohort, ROWS)
    await school.db.execute("vacuum analyze learning.enrollments")
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    async with school.transaction() as tx:
        totals = await views.totals(tx, school.organization, midnight)
        assert totals["active"] == ROWS // 5
        for query in (views.TOTALS, views.REVENUE):
            plan = await tx.fetch("explain " + query, school.organization, midnight)
            text = "\n".join(row[0] for row in plan)
            assert "Seq Scan on enrollments" not in text, text
            assert "enrollments_active_by_day" in text, text


async def test_the_figures_of_the_desk_read_the_rows_of_their_organization_by_index(school: School) -> None:
    cohort = await school.cohort()
    await school.db.execute(FILL, school.organization, cohort, ROWS)
    await school.db.execute("vacuum analyze learning.enrollments")
    other = await school.add_organization("other")
    [active] = [each.sql for each in desk.figures if each.title == "Active enrolments"]
    statements = [each.sql for each in desk.figures] + [each.sql for each in desk.charts]
    assert all("organization_id = $" in each for each in statements)
    today = datetime.now(UTC).date()
    for organization, enrolled in ((school.organization, ROWS // 5), (other, 0)):
        async with school.engine.transaction(organization=organization) as tx:
            assert await tx.fetchval(active, organization) == enrolled
            for statement in statements:
                values = (today, organization) if "$2" in statement else (organization,)
                text = "\n".join(row[0] for row in await tx.fetch("explain " + statement, *values))
                assert "Seq Scan on enrollments" not in text, text

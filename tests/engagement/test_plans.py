"""The statements of the runs use their indexes: a page costs what it returns, not what the table holds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from onceward.db import Database
from onceward_apps.engagement.store import candidates, states, views

USERS = """
with o as (insert into onceward.organizations (slug, name) values ('o', 'o') returning organization_id),
p as (insert into engagement.user_profiles (organization_id, user_id, whatsapp_jid)
      select o.organization_id, gen_random_uuid(), '+5511900000001' from o, generate_series(1, 6000) returning *)
insert into engagement.user_engagement_states (organization_id, user_id, state, last_activity_at, goodbye_expires_at, remind_at)
select organization_id, user_id, s.state, now() - interval '60 days' * random(),
       case s.state when 'goodbye_sent' then now() - interval '1 day' * random() end,
       case s.state when 'remind_later' then now() - interval '1 day' * random() end
  from p, lateral (select (array['active', 'active', 'goodbye_sent', 'remind_later', 'dormant', 'dormant', 'dormant'])
                          [1 + floor(random() * 7)::int + 0 * length(p.user_id::text)] as state) s
returning organization_id
"""


@pytest.mark.parametrize(
    ("statement", "index"),
    [
        (candidates.INACTIVE, "idx_engagement_last_activity"),
        (candidates.EXPIRED, "idx_engagement_goodbye_expires"),
        (candidates.REMINDERS, "idx_engagement_remind_at"),
        (candidates.REVIEWED, "user_engagement_states_pkey"),
    ],
)
async def test_a_page_of_candidates_is_read_by_its_index(db: Database, statement: str, index: str) -> None:
    organization: UUID = await db.fetchval(USERS)
    await db.execute("analyze engagement.user_profiles, engagement.user_engagement_states")
    nobody = UUID(int=0)
    arguments = (
        (organization, nobody, 100)
        if statement is candidates.REVIEWED
        else (organization, timedelta(days=14), datetime(1900, 1, 1, tzinfo=UTC), nobody, 100)
    )
    plan = "\n".join(row[0] for row in await db.fetch(f"explain {statement}", *arguments))
    assert index in plan, plan
    assert "Seq Scan on user_engagement_states" not in plan, plan


@pytest.mark.acceptance("002-H holes")
async def test_a_sent_message_finds_its_user_by_the_primary_key(db: Database) -> None:
    await db.fetchval(USERS)
    await db.execute("analyze engagement.user_profiles")
    plan = "\n".join(row[0] for row in await db.fetch(f"explain {views.QUEUED}", [1]))
    assert "user_profiles_pkey" in plan, plan
    assert "Seq Scan on user_profiles" not in plan, plan


@pytest.mark.acceptance("002-H holes")
async def test_the_dashboard_reads_counters_instead_of_users(db: Database) -> None:
    """6,000 users need a few rows: the sums are right, and no statement reads the table of users."""
    organization: UUID = await db.fetchval(USERS)
    await db.execute("update engagement.user_profiles set reengagement_opt_out = true where whatsapp_jid is not null")
    await db.execute("update engagement.user_engagement_states set unreachable_at = now() where state = 'active'")
    await db.execute(
        "delete from engagement.user_profiles where user_id in (select user_id from engagement.user_profiles limit 9)"
    )
    await db.execute(states.FOLD, organization)
    await db.execute("analyze engagement.state_counts, engagement.returns, engagement.transitions")
    rows = await db.fetch("select state, count(*) from engagement.user_engagement_states group by state")
    expected = {row["state"]: row["count"] for row in rows}
    counted = await views.counts(db, organization)
    assert counted == {**expected, "unreachable": expected["active"], "opted_out": 5991}
    assert await db.fetchval("select count(*) from engagement.state_counts") == len(counted)
    plans = [
        await db.fetch(f"explain {views.COUNTS}", organization),
        await db.fetch(f"explain {views.RETURNS}", organization, 180),
        await db.fetch(f"explain {views.MOVES}", organization, datetime(2020, 1, 1, tzinfo=UTC), datetime.now(UTC)),
        await db.fetch(f"explain {views.UNREACHABLE}", organization, 20),
    ]
    text = "\n".join(row[0] for plan in plans for row in plan)
    assert "Seq Scan on user_" not in text, text


@pytest.mark.acceptance("002-H holes")
async def test_the_end_of_goodbyes_is_moved_in_pages(db: Database) -> None:
    organization: UUID = await db.fetchval(USERS)
    await db.execute("analyze engagement.user_engagement_states")
    now = datetime.now(UTC)
    arguments = (organization, timedelta(hours=48), datetime(1900, 1, 1, tzinfo=UTC), UUID(int=0), now, 100)
    plan = "\n".join(row[0] for row in await db.fetch(f"explain {states.MOVE_EXPIRY}", *arguments))
    assert "idx_engagement_goodbye_expires" in plan, plan
    assert "Seq Scan on user_engagement_states" not in plan, plan

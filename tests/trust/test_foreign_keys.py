"""A row of one organization cannot refer to a row of another one, whatever code writes it."""

from __future__ import annotations

import asyncpg
import pytest

from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward_apps import all as bundled

CROSSING = """
with tenant as (
    select attrelid, attnum, attnotnull from pg_attribute
     where attname = 'organization_id' and attnum > 0 and not attisdropped
), keys as (
    select c.*, t.attnum = any(c.conkey) as with_organization, t.attnotnull as always_owned
      from pg_constraint c join tenant t on t.attrelid = c.conrelid
     where c.contype = 'f' and c.confrelid in (select attrelid from tenant)
)
-- A table whose rows may belong to nobody needs both keys: the composite one ignores rows without an organization.
select k.conrelid::regclass || ': ' || pg_get_constraintdef(k.oid) as key from keys k
 where not k.with_organization and k.confrelid <> 'onceward.payment_accounts'::regclass  -- some are shared; see the test below
   and (k.always_owned or not exists (
       select from keys o where o.conrelid = k.conrelid and o.confrelid = k.confrelid and o.with_organization and o.conkey @> k.conkey))
 order by 1
"""


async def test_every_foreign_key_between_tenant_tables_has_the_organization(db: Database) -> None:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.plus(bundled.app.features()).migrations)
        assert [row["key"] for row in await conn.fetch(CROSSING)] == []
        await conn.execute(
            "create table parent (id int primary key, organization_id uuid not null);"
            "create table child (organization_id uuid not null, parent_id int references parent)"
        )
        [found] = await conn.fetch(CROSSING)
        assert found["key"].startswith("child: ")


async def test_a_payment_cannot_use_the_account_of_another_organization(db: Database) -> None:
    add = "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id"
    ours, theirs = [await db.fetchval(add, name) for name in ("ours", "theirs")]
    account = "insert into onceward.payment_accounts (organization_id, name, service, source) values ($1, 'a', 'stripe', $2) returning id"
    shared, foreign = await db.fetchval(account, None, "all"), await db.fetchval(account, theirs, "theirs")
    pay = (
        "insert into onceward.payments (organization_id, account_id, subject_type, subject_id, amount, currency, title, expires_at)"
        " values ($1, $2, 'order', $3, 100, 'EUR', 'Order', onceward.now())"
    )
    await db.execute(pay, ours, shared, "1")
    with pytest.raises(asyncpg.ForeignKeyViolationError, match="is not an account of the organization"):
        await db.execute(pay, ours, foreign, "2")

"""Rows of the parts that are filled by workers and handlers rather than over the API."""

from __future__ import annotations

from uuid import UUID

from onceward.capacity import Want, claim, open_pool
from onceward.db import Database
from onceward.ledger import Entry, open_account, post
from onceward.trust.secrets import SecretBox, put_secret

WORK = """
with new as (select nextval('onceward.ids') as id),
body as (insert into onceward.jobs (id, organization_id, task, args) select id, $1, $2, jsonb_build_object('said', $2::text) from new)
insert into onceward.work (id, organization_id, kind, task, queue, sort_at, unique_key, dead_reason, dead_at)
select id, $1, 'job', $2, 'default', now(), $2 || ':' || $3, nullif($3, 'alive'), case when $3 <> 'alive' then now() end
from new returning id
"""
ATTEMPT = """
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, error)
values ($1, $2, 1, 'job', $3, 'retry', jsonb_build_object('type', $3::text, 'message', $3::text))
"""
EVENT = """
insert into onceward.webhook_events (webhook_id, event_id, organization_id, provider, type, payload, status)
values ($1, $2 || $3, $4, 'stripe', $2, jsonb_build_object('said', $2::text), $3) returning seq
"""
WORKFLOW = """
with new as (insert into onceward.workflows (id, organization_id, name, key, version, args, state, attributes)
    values (nextval('onceward.ids'), $1, $2, $2, '1', '{}', $3, jsonb_build_object('said', $2::text)) returning id),
work as (insert into onceward.work (id, organization_id, kind, task, queue, sort_at, dead_reason, dead_at)
    select id, $1, 'workflow', $2, 'workflows', now(), nullif($4, ''), case when $4 <> '' then now() end from new)
insert into onceward.workflow_steps (workflow_id, position, organization_id, kind, key, name, state, started_at)
select id, 1, $1, 'step', $2, $2, 'done', now() from new returning workflow_id
"""
MESSAGE = """
with new as (insert into onceward.messages (id, organization_id, key, channel, template, version, data, recipient, address, token)
    values (nextval('onceward.ids'), $1, $2, 'email', 'order-confirmation', '1', jsonb_build_object('said', $2::text), $2,
            $2 || '@example.org', gen_random_uuid()) returning id, token),
work as (insert into onceward.work (id, organization_id, kind, task, queue, sort_at)
    select id, $1, 'message', 'message.email', 'message.email', now() + interval '1 day' from new)
select id, token from new
"""
DASHBOARD_MESSAGE = """
insert into onceward.dashboard_messages (id, organization_id, recipient, type, severity, title, body)
values (nextval('onceward.ids'), $1, 'admins', 't', 'info', $2, $2) returning id
"""
PAYMENT = """
with account as (select id from onceward.payment_account('learning', 'stripe', 'learning-stripe'))
insert into onceward.payments (organization_id, account_id, subject_type, subject_id, status, amount, currency, title, expires_at,
                               received, charge, decision, paid_at)
select $1, account.id, 'enrolment', $4, 'paid', 5000, 'EUR', $2, now(), 5000, 'pi_' || $2 || $3, 'accepted', now()
from account returning id
"""
PAYMENT_REFUND = """
insert into onceward.payment_refunds (organization_id, payment_id, status, amount, currency, reason, requested_by, failure)
values ($1, $2, 'failed', 1000, 'EUR', $3, $3, $3) returning id
"""
REFUND_BATCH = """
insert into onceward.payment_refund_batches (organization_id, reason, per_minute, requested_by, total)
values ($1, $2, 60, $2, 1) returning id
"""
OTHERS = (
    "insert into onceward.recipients (organization_id, ref, email) values ($1, $2, $2 || '@example.org')",
    "insert into onceward.opt_outs (organization_id, recipient, channel, category, source) values ($1, $2, '*', '*', 'test')",
    "insert into onceward.notices (organization_id, type, severity, title, group_key) values ($1, $2, 'info', $2, $2)",
    "insert into onceward.topic_messages (id, xid, organization_id, topic, payload)"
    " values (nextval('onceward.ids'), pg_current_xact_id(), $1, $2, jsonb_build_object('said', $2::text))",
)


async def fill_tables(db: Database, organization: UUID, webhook_id: UUID, marker: str, ids: dict[str, str]) -> None:
    """One of each; the ids go into `ids` by the names that the table of routes uses."""
    async with db.transaction(role="engine", organization=organization) as tx:
        await put_secret(tx, SecretBox(["k" * 32]), marker, marker)
        ids["job"] = str(await tx.fetchval(WORK, organization, marker, "alive"))
        ids["dead"] = str(await tx.fetchval(WORK, organization, marker, "max_attempts_exceeded"))
        await tx.execute(ATTEMPT, int(ids["dead"]), organization, marker)
        for name, state in (("job_api", "alive"), ("dead_api", "permanent"), ("dead_api_too", "permanent")):
            ids[name] = str(await tx.fetchval(WORK, organization, f"{marker}-{name}", state))
        ids["inbox_event"] = str(await tx.fetchval(EVENT, webhook_id, marker, "pending", organization))
        ids["dead_event"] = str(await tx.fetchval(EVENT, webhook_id, marker, "dead_letter", organization))
        ids["event_id"] = f"{marker}pending"
        ids["workflow"] = str(await tx.fetchval(WORKFLOW, organization, marker, "running", ""))
        ids["dead_workflow"] = str(
            await tx.fetchval(WORKFLOW, organization, f"{marker}-2", "dead_letter", "max_attempts_exceeded")
        )
        row = await tx.fetchrow(MESSAGE, organization, marker)
        assert row is not None
        ids |= {"message": str(row["id"]), "unsubscribe": str(row["token"]), "message_key": marker}
        row = await tx.fetchrow(MESSAGE, organization, f"{marker}-api")
        assert row is not None
        ids["message_api"] = str(row["id"])
        ids["dashboard_message"] = str(await tx.fetchval(DASHBOARD_MESSAGE, organization, marker))
        ids["payment"] = str(await tx.fetchval(PAYMENT, organization, marker, "one", ids["enrollment"]))
        refunded = await tx.fetchval(PAYMENT, organization, marker, "two", ids["enrollment"])
        for name in ("refund_to_repeat", "refund_to_settle"):
            ids[name] = str(await tx.fetchval(PAYMENT_REFUND, organization, refunded, marker))
        ids["refund_batch"] = str(await tx.fetchval(REFUND_BATCH, organization, marker))
        for statement in OTHERS:
            await tx.execute(statement, organization, marker)
        ids["audit"] = str(
            await tx.fetchval("select max(id) from onceward.audit_log where organization_id = $1", organization)
        )
    async with db.transaction(organization=organization) as tx:
        await open_account(tx, f"assets:{marker}", currency="EUR", kind="asset")
        await open_account(tx, f"income:{marker}", currency="EUR", kind="revenue")
        await post(tx, [Entry(f"assets:{marker}", f"income:{marker}", 100, "EUR")], key=marker, memo=marker)
        await open_pool(tx, marker, capacity=5)
        await claim(tx, [Want(marker)], holder=marker, until=None)
    ids["account"] = f"assets:{marker}"


TENANT_TABLES = """
select c.oid::regclass::text as name,
       (select array_agg(quote_ident(a.attname)) from pg_index i
          join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
         where i.indrelid = c.oid and i.indisprimary) as key
from pg_class c join pg_attribute o on o.attrelid = c.oid and o.attname = 'organization_id' and not o.attisdropped
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace::regnamespace::text in ('onceward', 'ticketing', 'engagement', 'coursegen', 'learning', 'clinic')
  and c.relname not in ('page_views', 'usage')  -- a visit of a public page counts for the organization that is visited
order by 1
"""
LARGE = 6_000_000_000_000


async def digest(db: Database, organization: UUID) -> dict[str, str]:
    """Of all rows of an organization, by table: what changes any of them changes it."""
    tables = [row["name"] for row in await db.fetch(TENANT_TABLES)]
    query = " union all ".join(
        f"select '{table}' as name, count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') as rows"
        f" from {table} t where organization_id = $1"
        for table in tables
    )
    return {row["name"]: row["rows"] for row in await db.fetch(query, organization)}


async def needles(db: Database, organization: UUID) -> set[str]:
    """Ids and codes of an organization that can be nothing else wherever they appear."""
    found: set[str] = set()
    for row in await db.fetch(TENANT_TABLES):
        for column in row["key"] or ():
            values = await db.fetch(
                f"select distinct {column}::text as value from {row['name']} where organization_id = $1", organization
            )
            found |= {each["value"] for each in values}
    unique = {each for each in found if len(each) == 36 or (each.isdigit() and int(each) > LARGE)}
    # The payment accounts of the installation are for every organization.
    shared = await db.fetch("select id::text as value from onceward.payment_accounts where organization_id is null")
    unique -= {row["value"] for row in shared}
    for query in (
        "select prefix as value from onceward.api_keys where organization_id = $1",
        "select ticket_code as value from ticketing.tickets where organization_id = $1",
        "select id::text as value from onceward.portal_tokens where organization_id = $1",
        "select message_id as value from onceward.published where organization_id = $1",
        "select user_id::text as value from onceward.memberships where organization_id = $1",
    ):
        unique |= {row["value"] for row in await db.fetch(query, organization)}
    return unique

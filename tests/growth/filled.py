"""Two organizations in one database: a large one, and one with ten rows of each kind, which are the oldest."""

from __future__ import annotations

from uuid import UUID

from onceward.db import Database
from tests.growth.filled_apps import fill_apps

SMALL = 10
"""How many rows of each kind the small organization has."""

FILL = """
create temp table made as
select n, case when n <= {small} then '{small_id}'::uuid else '{large_id}'::uuid end as o, n <= {small} as is_small,
       now() - make_interval(secs => ({rows} - n) * 0.1) as at
  from generate_series(1, {rows} + {small}) n;
create unique index on made (n);
analyze made;
-- Finished jobs, dead letters and waiting jobs.
insert into onceward.jobs (id, organization_id, task, args, created_at)
select k * {step} + n, o, case when n % 5000 = 17 then 'rare' else 'known' || n % 7 end, '{{}}', at
  from made, generate_series(1, 3) k;
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, finished_at, error)
select k * {step} + n, o, 1, 'job', 'known' || n % 7,
       case when k = 2 then 'dead_letter' when n % 5000 = 17 then 'failed' else 'success' end, at, at,
       case when k = 2 then '{{"type": "ValueError", "message": "no"}}'::jsonb end
  from made, generate_series(1, 2) k;
insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at, dead_reason, dead_at)
select k * {step} + n, o, onceward.line_of(o, null), 'job', 'known' || n % 7, 'default', at,
       case when k = 2 then 'max_attempts_exceeded' end, case when k = 2 then at end
  from made, generate_series(2, 3) k;
insert into onceward.sources (webhook_id, organization_id, name, provider)
select ('00000000-0000-4000-8000-' || lpad(to_hex(n + 65536), 12, '0'))::uuid, o, 'source-' || n, 'stripe' from made;
insert into onceward.webhook_events (seq, webhook_id, event_id, organization_id, provider, type, payload, status, received_at)
select 4 * {step} + n, ('00000000-0000-4000-8000-' || lpad(to_hex(n + 65536), 12, '0'))::uuid, 'evt_' || n, o, 'stripe',
       'paid' || n % 7, '{{}}', case when n % 5000 = 17 then 'failed' else 'success' end, at from made;
insert into onceward.published (id, organization_id, type, fingerprint, body, message_id, created_at)
select 5 * {step} + n, o, 't', '', '{{}}', 'm' || n, at from made;
insert into onceward.endpoints (endpoint_id, organization_id, url, events, created_at)
select ('00000000-0000-4000-8001-' || lpad(to_hex(n), 12, '0'))::uuid, o, 'https://example.com/' || n, '{{t}}', at from made;
insert into onceward.deliveries (id, organization_id, endpoint_id, type, caused_by, status, last_attempt_at, created_at)
select 6 * {step} + n, o, ('00000000-0000-4000-8001-' || lpad(to_hex(n), 12, '0'))::uuid, 't', 5 * {step} + n,
       case when n % 5000 = 17 then 'failed' else 'success' end, at, at from made;
insert into onceward.resends (id, organization_id, verb, since, until, missing, rate_per_s, state, created_by)
select 7 * {step} + n, o, 'replay', at, at, false, 1, 'done', 'me' from made;
insert into onceward.messages (id, organization_id, key, channel, template, version, recipient, status, created_at)
select 8 * {step} + n, o, 'k' || n, 'email', 't', '1', 'person-' || n,
       case when n % 5000 = 17 then 'failed' else 'success' end, at from made;
insert into onceward.recipients (organization_id, ref, email)
select o, 'person-' || n, 'person-' || n || '@example.org' from made;
insert into onceward.suppressions (organization_id, address_hash, address, reason, source, created_at)
select o, md5(n::text), 'gone-' || n || '@example.org', 'bounce', 's', at from made;
insert into onceward.notifications (id, organization_id, type, severity, channels, recipients, remaining, created_at)
select 9 * {step} + n, o, 't', 'info', '{{dashboard}}', 1, 0, at from made;
insert into onceward.dashboard_messages (id, organization_id, recipient, type, severity, title, body, created_at)
select 10 * {step} + n, o, 'admins', 't', 'info', 't', 'b', at from made;
insert into onceward.workflows (id, organization_id, name, key, version, args, state, created_at, finished_at)
select 11 * {step} + n, o, 'w' || n % 7, 'k' || n, '1', '{{}}', case when n % 5000 = 17 then 'failed' else 'success' end, at, at
  from made;
insert into onceward.topic_messages (id, xid, organization_id, topic, payload, created_at)
select 12 * {step} + n, pg_current_xact_id(), o, 'topic/' || n, '{{}}', at from made;
insert into onceward.api_keys (organization_id, name, prefix, hash, scopes, created_by)
select o, 'key-' || n, 'pre' || n, '', '{{viewer}}', 'me' from made;
insert into onceward.audit_log (id, organization_id, at, action, entity_type, entity_id, actor, who_hash, content_hash)
select 13 * {step} + n, o, at, 'a', 't', n::text, 'me', '', '' from made;
insert into onceward.users (user_id, email)
select ('00000000-0000-4000-8002-' || lpad(to_hex(n), 12, '0'))::uuid, 'user-' || n || '@example.org' from made;
insert into onceward.memberships (organization_id, user_id, role)
select o, ('00000000-0000-4000-8002-' || lpad(to_hex(n), 12, '0'))::uuid, 'viewer' from made;
insert into onceward.organizations (slug, name) select 'other-' || n, 'Other' from made where n % 10 = 0;
insert into onceward.secrets (organization_id, name, value) select o, 'secret-' || n, '' from made where n <= 200;
insert into onceward.ledger_accounts (id, organization_id, code, currency, kind)
select 14 * {step} + n, o, 'assets:' || n, 'EUR', 'asset' from made where n <= 200;
insert into onceward.ledger_journals (id, organization_id, key, kind, body, entries, total, created_at)
select 15 * {step} + n, o, 'j' || n, 'posted', '', 1, 100, at from made;
insert into onceward.ledger_entries (journal_id, id, organization_id, debit_id, credit_id, amount, currency, pending)
select 15 * {step} + n, n, o, 14 * {step} + case when is_small then 1 else 11 end,
       14 * {step} + case when is_small then 2 else 12 end, 100, 'EUR', false from made;
insert into onceward.payment_accounts (id, name, service) values ('00000000-0000-4000-8003-000000000001', 'all', 'stripe');
insert into onceward.payments (id, organization_id, account_id, subject_type, subject_id, status, amount, currency, title, expires_at,
                               received, charge, decision, paid_at, created_at, email)
select ('00000000-0000-4000-8004-' || lpad(to_hex(n), 12, '0'))::uuid, o, '00000000-0000-4000-8003-000000000001', 'order', n::text,
       'paid', 100, 'EUR', 't', at, 100, 'ch_' || n, 'accepted', at, at, 'person-' || n || '@example.org' from made;
insert into onceward.payment_refunds (organization_id, payment_id, amount, currency, reason, status, requested_by, created_at)
select o, ('00000000-0000-4000-8004-' || lpad(to_hex(n), 12, '0'))::uuid, 1, 'EUR', 'r', 'done', 'me', at from made;
select setval('onceward.ids', 20 * {step});
"""


async def fill(db: Database, rows: int, *, large: UUID, small: UUID, apps: bool = False) -> None:
    """Fill the large tables, without triggers; and those of the apps."""
    text = FILL.format(rows=rows, small=SMALL, step=10 * rows, large_id=large, small_id=small)
    async with db.acquire() as conn:
        await conn.execute(f"set session_replication_role = replica; {text}; reset session_replication_role")
        if apps:
            await conn.execute("set session_replication_role = replica")
            await fill_apps(conn)
            await conn.execute("reset session_replication_role")
        await conn.execute("drop table made")
        await conn.execute("vacuum analyze")

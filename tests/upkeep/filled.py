"""A database with history in every large table, to see what periodic statements read in it."""

from __future__ import annotations

from onceward.db import Database, migrate
from onceward.runtime import FEATURES

ROWS = 20_000

FILL = """
set session_replication_role = replica;
insert into onceward.jobs (id, task, args) select n, 'known', '{}' from generate_series(1, 40000) n;
insert into onceward.attempts (work_id, number, kind, task, outcome, finished_at)
select n, 1, 'job', 'known', 'success', now() - (20000 - n) * interval '1 min' from generate_series(1, 20000) n;
insert into onceward.work (id, kind, task, queue, sort_at)
select n, 'job', 'known', 'default', now() - interval '1 h' from generate_series(20001, 40000) n;
insert into onceward.queues (name, paused_at, paused_by) values ('default', now(), 'me');
insert into onceward.webhook_events (seq, event_id, provider, type, status, received_at)
select n, 'evt_' || n, 'stripe', 't', 'success', now() - interval '1 h' from generate_series(40001, 60000) n;
insert into onceward.endpoints (endpoint_id, url, events, active)
select gen_random_uuid(), 'https://example.com/' || n, '{t}', n > 2 from generate_series(1, 5) n;
insert into onceward.published (id, type, fingerprint, body, message_id)
select n, 't', '', '{}', 'm' || n from generate_series(60001, 80000) n;
insert into onceward.deliveries (id, endpoint_id, type, caused_by, status, last_attempt_at)
select 20000 + id, (select endpoint_id from onceward.endpoints where active limit 1), 't', id, 'success', now()
  from onceward.published;
insert into onceward.messages (id, key, channel, template, version, recipient, status)
select n, 'k' || n, 'email', 't', '1', 'r', 'success' from generate_series(100001, 120000) n;
insert into onceward.workflows (id, name, version, args, state, finished_at)
select n, 'w', 'v', '{}', 'success', now() from generate_series(120001, 140000) n;
insert into onceward.runs (id, schedule, due_at, origin, status, scope, finished_at, has_marks)
select n, 's', now() - n * interval '1 s', 'clock', 'success', n, now(), false from generate_series(140001, 160000) n;
insert into onceward.run_items (scope, step, key, run_id, lease, outcome)
select n, 'each', 'k', n, 1, 'failed' from generate_series(140001, 160000) n;
insert into onceward.topic_messages (id, topic, payload, created_at)
select n, 'topic/' || n, '{}', now() - (180000 - n) * interval '4 s' from generate_series(160001, 180000) n;
insert into onceward.notices (id, type, severity, title, group_key, told_at, told_in)
select n, 't', 'info', 't', 'g' || n, now() - interval '1 day', 1 from generate_series(180001, 200000) n;
insert into onceward.idempotency_keys (organization_id, scope, key, request_hash)
select gen_random_uuid(), '', 'k' || n, '' from generate_series(1, 20000) n;
insert into onceward.webhook_transmissions (webhook_id, transmission_id, body_sha256)
select gen_random_uuid(), n::text, '' from generate_series(1, 20000) n;
insert into onceward.prune_later (name, id, due_at) select 'jobs', n, now() + interval '1 day' from generate_series(1, 20000) n;
insert into onceward.workers (id, name, version, queues, tasks, started_at)
values (1, 'host:1', '1', '{default,events}', '{known,stripe/t}', now() - interval '1 h');
insert into onceward.lanes (queue, lane, rate_per_s, next_at) values ('events', 'source:x', 1, now());
update onceward.sources set paused_at = now();
"""


async def filled(db: Database) -> Database:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
        await conn.execute(FILL)
        await conn.execute("reset session_replication_role")
        await conn.execute("analyze")
    return db

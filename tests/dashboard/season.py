"""A few busy minutes of the shop, written straight into the tables: enough to see every page with something on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from onceward.db import Transaction
from onceward.work import dead_letters
from onceward.work.dead_letters import DeadLetterFilter
from tests.dashboard.shop import World, settled

PAST = """
with made as (
    select nextval('onceward.ids') as id, t.task, t.ms, onceward.now() - make_interval(secs => s + random()) as at, random() as luck
      from generate_series(300, 0, -1) s
      cross join lateral generate_series(1, greatest(1, (9 + 7 * sin(s / 21.0) + 5 * random())::int)) n
      cross join lateral (select (array['render_ticket', 'issue_tickets', 'update_crm', 'generic/order.paid', 'email_receipt'])[1 + floor(random() * 5)::int] as task,
                                 (2 + 20 * random() * random() + case when random() > 0.97 then 400 * random() else 0 end) as ms where n > 0) t
), jobs as (
    insert into onceward.jobs (id, organization_id, task, args, created_at)
    select id, $1, task, '{"order": "A-7731"}', at from made returning id
)
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, finished_at, error)
select id, $1, 1, 'job', task, case when luck > 0.985 then 'retry' else 'success' end, at, at + make_interval(secs => ms / 1000), null
  from made
"""

MESSAGES = """
with made as (select nextval('onceward.ids') as id, n from generate_series(60, 1, -1) n)
insert into onceward.messages (id, organization_id, key, channel, template, version, data, recipient, address, status, reason, attempts,
                               created_at, sent_at)
select id, $1, 'order-' || (7000 + n) || ':confirmation', (array['email', 'email', 'sms', 'slack'])[1 + n % 4], $2, 'v1',
       '{"order": "A-7731", "total": 4200}', 'person' || n || '@example.org', 'person' || n || '@example.org',
       case when n % 17 = 0 then 'cancelled' when n % 23 = 0 then 'unknown' else 'success' end,
       case when n % 17 = 0 then 'opted_out' end, 1, onceward.now() - make_interval(mins => n), onceward.now() - make_interval(mins => n)
  from made
"""

ENDPOINTS = """
insert into onceward.endpoints (organization_id, url, description, events, active, disabled_at, disabled_reason, warned_at)
values ($1, 'https://hooks.partner.example/onceward', 'Partner portal', '{checkout.completed,ticket.scanned}', true, null, null, null),
       ($1, 'https://erp.acme.example/in', 'Bookkeeping', '{*}', true, null, null, onceward.now()),
       ($1, 'https://old.acme.example/hooks', 'Old shop', '{checkout.*}', false, onceward.now() - interval '2 days', 'failing', null)
returning endpoint_id
"""

DELIVERIES = """
with event as (
    insert into onceward.published (id, organization_id, message_id, type, fingerprint, body, created_at)
    select nextval('onceward.ids'), $1, 'msg_' || md5(n::text), (array['checkout.completed', 'ticket.scanned'])[1 + n % 2], '\\x00',
           convert_to('{"type": "checkout.completed", "data": {"order": "A-7731", "total": 4200}}', 'UTF8'),
           onceward.now() - make_interval(mins => n) from generate_series(40, 1, -1) n
    returning id, type, created_at
), made as (
    select nextval('onceward.ids') as id, e.id as caused_by, e.type, e.created_at, p.endpoint_id, random() as luck
      from event e cross join unnest($2::uuid[]) as p (endpoint_id)
), told as (
    insert into onceward.deliveries (id, organization_id, endpoint_id, type, status, attempts, response_status, error, last_attempt_at, caused_by, created_at)
    select id, $1, endpoint_id, type, case when luck > 0.9 then 'failed' else 'success' end, case when luck > 0.9 then 8 else 1 end,
           case when luck > 0.9 then 503 else 200 end, case when luck > 0.9 then '503 Service Unavailable' end, created_at, caused_by, created_at from made
    returning id, status, response_status, created_at
)
insert into onceward.attempts (work_id, organization_id, number, kind, task, outcome, started_at, finished_at, result)
select id, $1, 1, 'delivery', 'delivery', status, created_at, created_at + interval '84 milliseconds',
       jsonb_build_object('status', response_status, 'ms', 84, 'response', 'ok') from told
"""

RUNS = """
with made as (select nextval('onceward.ids') as id, s.name, n from onceward.schedules s cross join generate_series(20, 1, -1) n)
insert into onceward.runs (id, schedule, due_at, origin, status, scope, started_at, finished_at, duration_ms, processed, succeeded, failed)
select id, name, onceward.now() - make_interval(hours => n), 'clock', case when n = 7 then 'failed' else 'success' end, id,
       onceward.now() - make_interval(hours => n), onceward.now() - make_interval(hours => n) + interval '1.4 seconds', 1400, 120, 120 - (n = 7)::int, (n = 7)::int
  from made
"""


async def busy(world: World) -> dict[str, int]:
    """Fill the shop; the ids that pages are shown for."""
    db = world.runtime.database
    async with db.transaction(role="engine") as tx:
        await tx.execute(PAST, world.acme)
        await tx.execute(MESSAGES, world.acme, "order-confirmation")
        endpoints = [row["endpoint_id"] for row in await tx.fetch(ENDPOINTS, world.acme)]
        await tx.execute(DELIVERIES, world.acme, endpoints[:2])
        await _schedules(tx)
    return await _orders(world)


async def _schedules(tx: Transaction) -> None:
    for name, cron, tz in (("expire_holds", "*/5 * * * *", "UTC"), ("nightly_books", "0 2 * * *", "Europe/Berlin")):
        await tx.execute(
            "insert into onceward.schedules (name, task, queue, cron, tz, missed, window_s, most, overlap, decided_until, next_at)"
            " values ($1, $1, 'schedules', $2, $3, 'once', 86400, 100, 'skip', onceward.now(), onceward.now() + interval '4 minutes')"
            " on conflict do nothing",
            name,
            cron,
            tz,
        )
    await tx.execute(RUNS)


async def _orders(world: World) -> dict[str, int]:
    """Orders that went well, and a while in which the CRM did not answer."""
    db = world.runtime.database
    good = [await world.pay(f"A-77{n}", seats=2 + n % 4) for n in range(10, 16)]
    for each in good:
        await settled(db, each)
    world.weather.crm_works = False
    failed = [await world.pay(f"A-78{n}", seats=6 if n == 19 else 2) for n in range(10, 20)]
    for each in failed:
        await settled(db, each)
    dead = await _caused(world, failed, "update_crm")
    for each in dead:
        await settled(db, each)
    world.weather.crm_works = True
    await dead_letters.replay(
        db, DeadLetterFilter(ids=dead[:2]), actor="session:otto", reason="the CRM is back after its maintenance"
    )
    for each in dead[:2]:
        await settled(db, each)
    async with db.transaction(role="engine", organization=world.acme) as tx:
        await tx.execute("select onceward.enqueue('slow_report', '{}', run_at => onceward.now() + interval '2 hours')")
    return {"event": failed[-1], "job": dead[-1], "good": good[0]}


async def _caused(world: World, events: Sequence[int], task: str) -> list[int]:
    rows: list[Any] = []
    async with asyncio.timeout(20):
        while len(rows) < len(events):
            rows = await world.runtime.database.fetch(
                "select id from onceward.jobs where caused_by = any($1) and task = $2 order by id", list(events), task
            )
            await asyncio.sleep(0.02)
    return [row["id"] for row in rows]

"""The sale as a pgbench script: the statements that the sale of a webhook runs, in the same order.

A table holds the values that the app would generate (ids, codes, texts). pgbench reads a colon before a word as a
variable even inside quotes, so such a colon is written chr(58).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from onceward.db import Database
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.store import sales

PREPARE = """
create schema if not exists onceward_bench;
drop table if exists onceward_bench.todo;
drop sequence if exists onceward_bench.turn;
create sequence onceward_bench.turn;
create table onceward_bench.todo (
    n bigint primary key, event text, checkout text, organization text, show text, amount text, currency text,
    claims text, seats text, versions text, items text, sections text, holds text, tickets text, codes text, result text
);
"""
ITEMS = """
select i.checkout_id, array_agg(h.claim_id order by i.position)::text as claims,
       array_agg(i.seat_id order by i.position)::text as seats,
       array_agg(s.version order by i.position)::text as versions,
       array_agg(i.id order by i.position)::text as items,
       array_agg(i.section_id order by i.position)::text as sections,
       array_agg(h.id order by i.position)::text as holds, count(*) as number
  from ticketing.checkout_items i
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join ticketing.seats s on s.id = i.seat_id
 where i.checkout_id = any($1) group by i.checkout_id
"""
RECEIVE = """
with stored as (
    insert into onceward.webhook_events
        (seq, id, webhook_id, event_id, organization_id, provider, type, payload, headers, origin)
    values (nextval('onceward.ids'), gen_random_uuid(), '00000000-0000-0000-0000-000000000001', :event, null, 'stripe',
            'charge.succeeded', jsonb_build_object('id', :event::text, 'amount', :amount::text), '{}', 'http')
    on conflict (webhook_id, event_id) do nothing
    returning seq
), queued as (
    insert into onceward.work (id, kind, task, queue, sort_at, lease, claimed_at)
    select seq, 'event', 'payments-stripe/charge.succeeded', 'events', onceward.now(), 4711, clock_timestamp() from stored
)
select seq from stored \\gset
"""
AUDIT = """
insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, changes, metadata)
values (onceward.organization(), '{action}', 'Checkout', :checkout, 'bench', :result::jsonb, :result::jsonb);
"""
POST = """
select journal_id from onceward.ledger_post('checkout:' || :checkout::text || chr(58) || 'sale',
    array['cash', 'cash'], array['event_revenue:' || :show::text, 'platform_fee'],
    array[40000, 1000]::bigint[], array[:currency::text, :currency::text], '4 tickets', false) \\gset
"""
MESSAGE = """
with written as (
    insert into onceward.messages
        (id, organization_id, key, channel, template, version, category, policy, recipient, address, data)
    values (nextval('onceward.ids'), :organization::uuid, 'checkout:' || :checkout::text || chr(58) || 'confirmation', 'email',
            'order-confirmation', 'bench', 'transactional', 'patient', 'bench@example.org', 'bench@example.org',
            :result::jsonb)
    returning id
)
insert into onceward.work (id, organization_id, kind, task, queue, sort_at, max_attempts)
select id, :organization::uuid, 'message', 'message' || chr(58) || 'email', 'message.email', onceward.now(), 12 from written;
"""
BROADCAST = """
insert into onceward.topic_messages (organization_id, topic, payload)
values (:organization::uuid, 'occupancy/' || :organization::text || '/' || :show::text, :result::jsonb);
"""


def fill(statement: str, *values: str) -> str:
    """Replace the parameters of a statement of the app by variables of the script."""
    return re.sub(r"\$(\d+)", lambda match: values[int(match[1]) - 1], statement.strip()) + ";\n"


async def prepare(db: Database, organization: UUID, checkouts: Sequence[UUID]) -> str:
    """Fill the table and return the script. Each transaction takes the next row."""
    rows = {row["checkout_id"]: row for row in await db.fetch(ITEMS, list(checkouts))}
    checkout_rows = await db.fetch(
        "select id, event_id, total_cents, currency from ticketing.checkouts where id = any($1)", list(checkouts)
    )
    await db.execute(PREPARE)
    async with db.acquire() as conn:
        await conn.copy_records_to_table(
            "todo",
            schema_name="onceward_bench",
            records=[
                _row(n, organization, checkout, rows[checkout["id"]])
                for n, checkout in enumerate(checkout_rows, start=1)
            ],
        )
        await conn.execute("analyze onceward_bench.todo")
        await conn.execute(
            "insert into onceward.templates (organization_id, name, version, content) select organization_id, 'order-confirmation', 'bench', '{}' from onceward.organizations"
        )
    return _script()


def _row(n: int, organization: UUID, checkout: Any, items: Any) -> tuple[Any, ...]:
    number = items["number"]
    result = (
        f'{{"checkout_id": "{checkout["id"]}", "ticket_count": {number}, "message": "Checkout completed successfully"}}'
    )
    return (
        n,
        f"evt_{uuid4().hex}",
        str(checkout["id"]),
        str(organization),
        str(checkout["event_id"]),
        str(checkout["total_cents"]),
        checkout["currency"],
        *(items[name] for name in ("claims", "seats", "versions", "items", "sections", "holds")),
        "{" + ",".join(str(uuid4()) for _ in range(number)) + "}",
        "{" + ",".join(new_ticket_code() for _ in range(number)) + "}",
        result,
    )


def _script() -> str:
    issue = fill(
        sales.ISSUE,
        ":checkout::uuid",
        ":show::uuid",
        "null",
        "'bench@example.org'",
        "''",
        ":event::text",
        ":tickets",
        ":sections",
        ":seats",
        ":items",
        ":codes",
        ":holds",
        "'stripe'",
        "'ch_' || :event::text",
        ":journal_id::bigint",
        ":result::jsonb",
    )
    paid = fill(
        sales.ADD_PAYMENT,
        ":checkout::uuid",
        "'stripe'",
        "'ch_' || :event::text",
        ":event::text",
        ":amount::bigint",
        ":currency::text",
        "'sale'",
        "null",
        ":journal_id::bigint",
    )
    job = "select onceward.enqueue('{task}', jsonb_build_object('id', {id}), '{queue}');\n"
    image = job.format(task="ticketing.generate_qr", id="t", queue="default").replace(
        ");\n", ") from unnest(:tickets::uuid[]) as t;\n"
    )
    count = job.format(task="ticketing.record_purchase", id=":checkout::text", queue="analytics")
    count += job.format(task="ticketing.number_invoices", id=":checkout::text", queue="invoices")
    published = (
        "select id from onceward.publish('checkout.completed', :result::json, 'checkout:' || :checkout::text || chr(58) || 'completed',"
        " null, null);\n"
    )
    return "".join(
        (
            "select nextval('onceward_bench.turn') as n \\gset\n",
            "select * from onceward_bench.todo where n = :n::bigint \\gset\n",
            "begin;\n",
            RECEIVE.lstrip(),
            "set local role onceward_app;\n",
            fill("select ticketing.organization_of('checkout', $1)", ":checkout::uuid"),
            "select set_config('onceward.organization', :organization::text, true);\n",
            AUDIT.replace("{action}", "organization.acted_for").lstrip(),
            fill(sales.LOCK, ":checkout::uuid"),
            fill(sales.PAYMENT, "'stripe'", "'ch_' || :event::text"),
            fill(sales.ITEMS, ":checkout::uuid"),
            "select until, refusals from onceward.capacity_renew(:claims::bigint[], null, null);\n",
            fill(sales.SELL_SEATS, ":seats", ":versions", ":tickets"),
            POST.lstrip(),
            issue,
            paid,
            image,
            count,
            MESSAGE.lstrip(),
            published,
            fill(sales.OCCUPANCY, ":show::uuid"),
            BROADCAST.lstrip(),
            AUDIT.replace("{action}", "checkout_completed").lstrip(),
            "reset role;\n",
            "select onceward.succeed_or_fail(:seq::bigint, 4711, 0, now()::text::timestamptz, :result::jsonb);\n",
            "commit;\n",
        )
    )

"""The sale as a pgbench script: the statements that the sale of a webhook runs, in the same order and the same round
trips.

A table holds the values that the app would generate (ids, codes, texts). pgbench reads a colon before a word as a
variable even inside quotes, so such a colon is written chr(58). Statements that share a round trip are a pipeline here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

import orjson

from onceward.db import Database
from onceward.inbox import inline_statements as inline
from onceward.live import topics
from onceward.messages import message_queue
from onceward.outbox import publishing
from onceward.payments import Books, Share, booking
from onceward.payments import store as payments
from onceward.trust import audit
from onceward.work import enqueuing
from onceward_apps.ticketing.app import CHECKOUT
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.store import sales

BOOKS = Books(kinds={"event_revenue:": "revenue"})
FEE_CENTS = 1000
TODO = (
    *("n", "event", "checkout", "organization", "show", "amount", "currency", "claims", "holds", "items", "sections"),
    *(
        "seats",
        "versions",
        "tickets",
        "codes",
        "result",
        "payload",
        "letter",
        "published",
        "shown",
        "changes",
        "metadata",
        "payment",
        "money",
        "shares",
        "books",
        "journals",
    ),
)
PREPARE = f"""
create schema if not exists onceward_bench;
drop table if exists onceward_bench.todo;
drop sequence if exists onceward_bench.turn;
create sequence onceward_bench.turn;
create table onceward_bench.todo (n bigint primary key, {", ".join(f"{name} text" for name in TODO[1:])});
"""
ITEMS = """
select i.checkout_id, array_agg(h.claim_id order by h.claim_id)::text as claims,
       array_agg(h.id order by i.position)::text as holds,
       array_agg(i.id order by i.position)::text as items,
       array_agg(i.section_id order by i.position)::text as sections,
       array_agg(i.seat_id order by i.position)::text as seats,
       array_agg(s.version order by i.position)::text as versions, count(*) as number
  from ticketing.checkout_items i
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join ticketing.seats s on s.id = i.seat_id
 where i.checkout_id = any($1) group by i.checkout_id
"""
NUMBER = "select nextval('onceward.ids') as seq, onceward.now() as received_at \\gset\n"
NAMES = "array['ch_' || :event::text]"
"""The ids by which the payment service calls the charge."""
TASK = "'payments-stripe/charge.succeeded'"


def fill(statement: str, *values: str) -> str:
    """Replace the parameters of a statement of the app by variables of the script."""
    lines = "\n".join(line for line in statement.strip().splitlines() if not line.startswith("--"))
    return re.sub(r"\$(\d+)", lambda match: values[int(match[1]) - 1], lines) + ";\n"


def pipeline(*statements: str) -> str:
    return "".join(
        ("\\startpipeline\n", *(f"{each.rstrip().rstrip(';')};\n" for each in statements), "\\endpipeline\n")
    )


async def prepare(db: Database, organization: UUID, checkouts: Sequence[UUID]) -> str:
    """Fill the table and return the script. Each transaction takes the next row."""
    rows = {row["checkout_id"]: row for row in await db.fetch(ITEMS, list(checkouts))}
    checkout_rows = await db.fetch(
        "select c.id, c.event_id, c.total_cents, c.currency, p.id as payment_id from ticketing.checkouts c"
        " join onceward.payments p on p.organization_id = $2 and p.subject_type = $3 and p.subject_id = c.id::text"
        " where c.id = any($1)",
        list(checkouts),
        organization,
        CHECKOUT,
    )
    await db.execute(PREPARE)
    async with db.acquire() as conn:
        await conn.copy_records_to_table(
            "todo",
            schema_name="onceward_bench",
            columns=list(TODO),
            records=[
                _row(n, organization, checkout, rows[checkout["id"]])
                for n, checkout in enumerate(checkout_rows, start=1)
            ],
        )
        await conn.execute("analyze onceward_bench.todo")
    return _script()


def _row(n: int, organization: UUID, checkout: Any, items: Any) -> tuple[Any, ...]:
    number = items["number"]
    id, show, event = str(checkout["id"]), str(checkout["event_id"]), f"evt_{uuid4().hex}"
    tickets = [str(uuid4()) for _ in range(number)]
    codes = [new_ticket_code() for _ in range(number)]
    amounts = {"total_cents": checkout["total_cents"], "currency": checkout["currency"], "payment_reference": event}
    result = {"message": "Checkout completed successfully", "checkout_id": id, "ticket_count": number, **amounts}
    metadata = {"checkout_id": id, "organization_id": str(organization), "event_id": show}
    payload = {
        "id": event,
        "object": "event",
        "type": "charge.succeeded",
        "data": {"object": {"id": f"ch_{event}", **amounts, "status": "succeeded", "metadata": metadata}},
    }
    letter = {
        "event": "Bench",
        "organizer": "bench",
        "starts_at": "2026-11-17T20:00:00+00:00",
        "venue": "Hall",
        "tickets": [{"code": code, "place": "Hall R1-1"} for code in codes],
        "order_url": f"http://localhost:8000/orders/{id}?access={uuid4().hex}",
        **amounts,
    }
    shares = [Share(f"event_revenue:{show}", checkout["total_cents"] - FEE_CENTS), Share("platform_fee", FEE_CENTS)]
    paid = {
        "id": checkout["payment_id"],
        "service": "stripe",
        "received": checkout["total_cents"],
        "fee": 0,
        "booked_fee": 0,
        "fee_bookings": 0,
    }
    books, journals = booking.as_json(BOOKS, booking.received(BOOKS, paid, shares))
    money = {
        "charge": f"ch_{event}",
        "amount": checkout["total_cents"],
        "currency": checkout["currency"],
        "fee": 0,
        "page": None,
    }
    listed = [(each.account, each.amount) for each in shares]
    shown = {"event": "seats_sold", "seat_ids": tickets, "occupancy": {"capacity": 1000, "held": 0, "sold": 100}}
    documents = (
        *(result, payload, letter, {**metadata, **amounts, "ticket_ids": tickets}, shown),
        *({"status": {"from": "started", "to": "completed"}, **amounts, "ticket_ids": tickets}, metadata),
    )
    return (
        *(n, event, id, str(organization), show, str(checkout["total_cents"]), checkout["currency"]),
        *(items[name] for name in ("claims", "holds", "items", "sections", "seats", "versions")),
        *("{" + ",".join(each) + "}" for each in (tickets, codes)),
        *(orjson.dumps(each).decode() for each in documents),
        str(checkout["payment_id"]),
        *(orjson.dumps(each).decode() for each in (money, listed, books, journals)),
    )


def _script() -> str:
    receive = fill(
        inline.RECEIVE.format(inline.PARAMETERS),
        *(":seq::bigint", ":received_at::timestamptz", "gen_random_uuid()", "'00000000-0000-0000-0000-000000000001'"),
        *(
            ":event::text",
            "null",
            "'stripe'",
            "'charge.succeeded'",
            ":payload::text",
            "false",
            "null",
            "'{}'",
            "null",
            "null",
        ),
    )
    succeed = f"select onceward.succeed_inline(:seq::bigint, null, {TASK}, 0.001, :result::jsonb)"
    shown = fill(
        topics.INSERT, ":organization::uuid", "'occupancy/' || :organization::text || '/' || :show::text", ":shown"
    )
    audited = fill(
        audit.INSERT,
        *("null", "'checkout_completed'", "'Checkout'", ":checkout::text", "'event'", "null", "null"),
        *(":changes::jsonb", ":metadata::jsonb"),
    )
    return "".join(
        (
            "select nextval('onceward_bench.turn') as n \\gset\n",
            "select * from onceward_bench.todo where n = :n::bigint \\gset\n",
            NUMBER,
            pipeline("begin", inline.WAIT, receive, *inline.SAVEPOINT.split("; "), "set local role onceward_app"),
            fill(payments.FIND, "'payments-stripe'", "null", ":payment::uuid", NAMES, "true"),
            fill(sales.TAKE, ":checkout::uuid"),
            fill(payments.LOCK, ":payment::uuid"),
            fill(payments.RECEIVE, ":payment::uuid", ":money::jsonb", NAMES, "'accepted'"),
            fill(sales.ITEMS, ":checkout::uuid"),
            _sell(),
            _enqueue(),
            _message(),
            fill(
                publishing.PUBLISH,
                *("'checkout.completed'", ":published", "'checkout:' || :checkout::text || chr(58) || 'completed'"),
                *("null", "null", "null"),
            ),
            shown,
            audited,
            fill(
                payments.DECIDE,
                *(":payment::uuid", "'accepted'", "null", ":shares::jsonb", ":books::jsonb", ":journals::jsonb", NAMES),
            ),
            pipeline("reset role", inline.CHECK_NOW, succeed, "commit"),
        )
    )


def _sell() -> str:
    return fill(
        sales.SELL,
        *(
            ":checkout::uuid",
            ":show::uuid",
            ":claims::bigint[]",
            ":holds::uuid[]",
            ":items::uuid[]",
            ":sections::uuid[]",
        ),
        *(
            ":seats::uuid[]",
            ":versions::int[]",
            ":tickets::uuid[]",
            ":codes::text[]",
            "null",
            "'bench@example.org'",
            "''",
        ),
        *("'stripe'", "'ch_' || :event::text", "null", ":event::text", ":currency::text", ":result::jsonb"),
        *("'{}'::text[]", "'{}'::text[]", "'{}'::bigint[]"),
    )


def _enqueue() -> str:
    arguments = (
        "array(select jsonb_build_object('ticket_id', t)::text from unnest(:tickets::uuid[]) as t)"
        " || array_fill(jsonb_build_object('checkout_id', :checkout::text)::text, array[2])"
    )
    return fill(
        enqueuing.ENQUEUE,
        *(arguments, "array[1, 1, 1, 1, 2, 3]", "0", "null"),
        "array['ticketing.generate_qr', 'ticketing.record_purchase', 'ticketing.number_invoices']",
        "array['default', 'analytics', 'invoices']",
        "array_fill(:organization::uuid, array[3])",
        "array_fill(:seq::bigint, array[3])",
        *("array[null, null, null]", "array[0, 0, 0]", "array[0, 0, 0]", "array[null, null, null]", "array[5, 1, 5]"),
        *("array[null, null, null]",) * 7,
    )


def _message() -> str:
    values = {
        "keys": "array['checkout:' || :checkout::text || chr(58) || 'confirmation']",
        "recipients": "array['bench@example.org']",
        "addresses": "array['bench@example.org']",
        "data": "array[:letter::jsonb]",
        **dict.fromkeys(("locales", "timezones", "scheduled_for", "expires_at", "attachments"), "array[null]"),
        "organization": ":organization::uuid",
        "channel": "'email'",
        "template": "'order-confirmation'",
        "version": "'bench'",
        "category": "'transactional'",
        "policy": "'patient'",
        "notification": "null::bigint",
        "caused_by": ":seq::bigint",
        "task": "'message' || chr(58) || 'email'",
        "own": "'{}'::text[]",
        "bulk": "false",
        "max_attempts": "12",
        "context": "null::jsonb",
        "content": "'{}'::jsonb",
    }
    return fill(message_queue.INSERT.text, *message_queue.INSERT.values(**values))

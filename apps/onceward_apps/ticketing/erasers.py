"""Personal data of ticketing: names and addresses on orders and tickets, and who requested or scanned. Amounts stay."""

from __future__ import annotations

from onceward.trust import Eraser

# The expression is that of the index `checkouts_words`.
ORDERS_OF_PERSON = """
to_tsvector('simple', coalesce(coalesce(nullif(c.name, ''), c.email), '') || ' ' || coalesce(c.email, ''))
    @@ to_tsquery('simple', (
        select string_agg(quote_literal(translate(n, '\\', ' ')), ' | ') from unnest($2::text[]) n))
"""

ERASERS: tuple[Eraser, ...] = (
    # Before the orders, which lead to them.
    Eraser(
        name="tickets",
        table="ticketing.tickets",
        columns={"holder_email": "whole", "holder_name": "text", "user_id": "whole", "void_reason": "text"},
        blank={
            "holder_email": "null",
            "holder_name": "''",
            "user_id": "null",
            "void_reason": "case when t.void_reason is not null then 'erased' end",
        },
        together=True,
        names=("holder_email", "user_id"),
        linked=f"t.checkout_id in (select c.id from ticketing.checkouts c where {ORDERS_OF_PERSON})",
    ),
    Eraser(
        name="ticket orders",
        table="ticketing.checkouts",
        columns={"email": "whole", "name": "text", "user_id": "whole", "customer": "whole", "answers": "json"},
        blank={"email": "'erased@invalid'", "name": "''", "user_id": "null", "customer": "null", "answers": "null"},
        together=True,
        # An order that is being paid needs an address for its tickets.
        waits="t.status = 'started'",
        names=("email", "user_id"),
        linked=f"t.id in (select c.id from ticketing.checkouts c where {ORDERS_OF_PERSON})",
    ),
    Eraser(
        name="results of ticket orders",
        table="ticketing.checkouts",
        columns={"result": "json"},
        blank={"result": """'{"erased": true}'"""},
        waits="t.status = 'started'",
    ),
    Eraser(
        name="invoices",
        table="ticketing.invoices",
        columns={"document": "json"},
        kept="Invoices must stay as they were issued for as long as tax law requires.",
    ),
    Eraser(
        name="companies of orders",
        table="ticketing.billing",
        columns={"company": "text", "address": "text", "tax_id": "text"},
        blank={"company": "'erased'", "address": "''", "tax_id": "''"},
        together=True,
    ),
    Eraser(
        name="waitlists",
        table="ticketing.waitlist",
        columns={"email": "whole", "name": "text"},
        # Their own addresses, because an event has each address once. Nobody is left who could take an offer: the next
        # run of `ticketing.offer_waitlist` frees its places.
        blank={
            "email": "t.id || '@erased.invalid'",
            "name": "''",
            "status": "case when t.status = 'waiting' then 'left' else t.status end",
            "ended_at": "case when t.status = 'waiting' then onceward.clock() else t.ended_at end",
            "offer_until": "least(t.offer_until, onceward.clock())",
        },
        together=True,
        names=("email",),
        linked="lower(t.email) = any($2)",
    ),
    Eraser(
        name="bank transfers",
        table="ticketing.transfers",
        columns={"memo": "text"},
        blank={"memo": "''"},
    ),
    Eraser(
        name="scans",
        table="ticketing.scans",
        columns={"scanned_by": "text", "undone_by": "text"},
        blank={"scanned_by": "'erased'", "undone_by": "case when t.undone_by is not null then 'erased' end"},
    ),
    Eraser(
        name="event pages",
        table="ticketing.events",
        columns={
            "name": "text",
            "description": "text",
            "support_contact": "text",
            "cancel_reason": "text",
            "move_reason": "text",
        },
        kept="The organizer publishes these texts: change the event.",
    ),
    Eraser(
        name="venues",
        table="ticketing.venues",
        columns={"name": "text", "address": "text"},
        kept="The organizer publishes these texts: change the venue.",
    ),
)

CODE = "a name given by code or an organizer"

UNSEARCHED: dict[str, str] = {
    "ticketing.signing_keys.*": "keys of the organization",
    "ticketing.venues.timezone": "a time zone",
    "ticketing.events.currency": "a currency",
    "ticketing.events.refund_policy": "a text for every buyer",
    "ticketing.sections.*": CODE,
    "ticketing.ticket_types.*": CODE,
    "ticketing.access_codes.*": CODE,
    "ticketing.questions.*": "what an organizer asks every buyer",
    "ticketing.pools.*": CODE,
    "ticketing.seats.*": "places, not people",
    "ticketing.seat_holds.basket": "random",
    "ticketing.coupons.*": CODE,
    "ticketing.checkouts.basket": "random",
    "ticketing.checkouts.locale": "a language",
    "ticketing.checkouts.currency": "a currency",
    "ticketing.checkouts.fee_paid_by": "a closed set",
    "ticketing.checkouts.coupon_code": CODE,
    "ticketing.checkouts.transfer_reference": "random",
    "ticketing.settlements.*": "sums and the reference of a payout to an organizer",
    "ticketing.events.jurisdiction": "a closed set",
    "ticketing.events.tax_category": "a closed set",
    "ticketing.transfers.line": "the id of a line at the bank",
    "ticketing.transfers.currency": "a currency",
    "ticketing.checkouts.provider": "a closed set",
    "ticketing.checkouts.payment_reference": "the payment service's id",
    "ticketing.checkouts.provider_payment_id": "the payment service's id",
    "ticketing.tickets.ticket_code": "random; needed at the door",
    "ticketing.tickets.qr_code_url": "made of ids",
    "ticketing.tickets.payment_reference": "the payment service's id",
    "ticketing.tickets.scanned_gate": CODE,
    "ticketing.scans.gate": CODE,
    "ticketing.doors.*": CODE,
    "ticketing.waitlist.locale": "a language",
    "ticketing.waitlist.basket": "random",
    "ticketing.shops.*": "what the organization publishes about itself",
    "ticketing.sellers.*": "what the organization publishes about itself",
}

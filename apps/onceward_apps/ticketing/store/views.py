"""SQL that reads what pages show: orders, tickets, seat maps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx

LINK_DAYS = 90
STATUS_FOR_BUYER = """case when exists (select from ticketing.tickets n where n.checkout_id = t.checkout_id
                                 and n.transferred_from = t.id)
            then 'transferred' else t.status end"""
PLACE = "coalesce(s.label, x.name) || coalesce(', ' || y.name, '')"
"""What a ticket or an item is for: the seat `s` or section `x`, and the ticket type `y` that was chosen."""
FOR_EVERYBODY = "x.kind <> 'addon' and not x.is_hidden"
"""Whether the place of a ticket is one that the waitlist offers."""
TICKET = f"""
select t.*, k.key as sealed_key, s.label, x.name as section, {PLACE} as place, e.name as event_name, e.status as
       event_status, e.starts_at, e.ends_at,
       v.name as venue_name, v.address as venue_address, v.timezone, o.name as organizer, o.slug as organizer_slug,
         onceward.clock() as now,
       exists (select from ticketing.tickets n where n.checkout_id = t.checkout_id and n.transferred_from = t.id)
           as was_transferred
  from ticketing.tickets t
  join ticketing.sections x on x.id = t.section_id
  join ticketing.events e on e.id = t.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = t.organization_id
  join ticketing.signing_keys k on k.organization_id = t.organization_id
  join ticketing.checkout_items i on i.id = t.item_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = t.seat_id
 where t.id = $1
"""
SET_QR = """
update ticketing.tickets set qr_code_url = $2, qr_generated_at = onceward.now() where id = $1
"""
ORDER = """
select c.*, e.name as event_name, e.status as event_status, e.starts_at, e.ends_at, e.refund_policy, e.support_contact,
       e.cancel_hours, e.has_waitlist, e.has_resale, e.offer_s, e.moved_at, e.moved_from, e.move_reason, e.refund_until,
              e.date_version, v.name as venue_name,
       v.address as venue_address, v.timezone, o.name as organizer, o.slug as organizer_slug,
       k.key as sealed_key,
       (select max(i.number) from ticketing.invoices i where i.checkout_id = c.id and i.kind = 'invoice') as
              invoice_number,
       onceward.clock() as now
  from ticketing.checkouts c
  join ticketing.events e on e.id = c.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = c.organization_id
  join ticketing.signing_keys k on k.organization_id = c.organization_id
 where c.id = $1
"""
# A ticket that was transferred belongs to its new holder: the order shows where it was, but not its new code.
TICKETS = f"""
select t.id, {STATUS_FOR_BUYER} as status, t.ticket_code, t.qr_code_url, t.purchased_at, t.scanned_at, t.holder_name,
       t.seat_id, t.section_id,
       t.event_id, {PLACE} as place, i.price_cents, i.position, {FOR_EVERYBODY} as is_for_everybody
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.sections x on x.id = t.section_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = t.seat_id
 where t.checkout_id = $1 and t.transferred_from is null
 order by i.position, t.created_at
"""
ITEMS = f"""
select i.*, {PLACE} as place
  from ticketing.checkout_items i
  join ticketing.sections x on x.id = i.section_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = i.seat_id
 where i.checkout_id = $1 order by i.position
"""
MAILS = """
select count(*) as number, count(*) filter (where key <> $2 and created_at > onceward.now() - interval '1 minute')
       as recent
  from onceward.messages
 where coalesce(organization_id, '00000000-0000-0000-0000-000000000000') = $1 and key >= $2 and key < $2 || '~'
"""
CHECKOUTS = """
select c.id, c.status, c.email, c.name, c.total_cents, c.refunded_cents, c.currency, c.provider, c.provider_payment_id,
       c.payment_reference, c.started_at, c.completed_at, c.link_version,
       (select count(*) from ticketing.checkout_items i where i.checkout_id = c.id) as seats
  from ticketing.checkouts c
 where c.event_id = $1 and ($2::text is null or c.status = $2)
   and ($4::uuid is null
        or (c.started_at, c.id) < (select b.started_at, b.id from ticketing.checkouts b where b.id = $4))
 order by c.started_at desc, c.id desc limit $3
"""


def links_work(row: Any) -> bool:
    """Return whether the links of an order or ticket still work: `LINK_DAYS` after the end of its event they expire."""
    return row["now"] < row["ends_at"] + timedelta(days=LINK_DAYS)


async def ticket(tx: Tx, ticket_id: UUID) -> Any:
    """Return a ticket with the encrypted key that signs it."""
    return await tx.fetchrow(TICKET, ticket_id)


async def set_qr(tx: Tx, ticket_id: UUID, url: str) -> None:
    await tx.execute(SET_QR, ticket_id, url)


async def order(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(ORDER, checkout_id)


async def tickets(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the tickets that the buyer got, with void ones; a ticket that went to somebody else is `transferred`."""
    return await tx.fetch(TICKETS, checkout_id)


async def mails_sent(tx: Tx, checkout_id: UUID) -> Any:
    """Count the order's emails: all of them (`number`), and those sent again within the last minute (`recent`)."""
    return await tx.fetchrow(MAILS, tx.organization, f"checkout:{checkout_id}:confirmation")


async def items(tx: Tx, checkout_id: UUID) -> list[Any]:
    return await tx.fetch(ITEMS, checkout_id)


async def checkouts(tx: Tx, event_id: UUID, status: str | None, limit: int, before: UUID | None = None) -> list[Any]:
    """Return the newest orders of an event; `before` is the last one of the previous page."""
    return await tx.fetch(CHECKOUTS, event_id, status, limit, before)

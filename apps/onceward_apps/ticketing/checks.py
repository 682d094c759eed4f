"""Invariants of every sale. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

SEATS = """
select format('seat %s (%s) is sold to ticket %s, which is not a valid ticket for it', s.id, s.label, s.ticket_id)
  from ticketing.seats s left join ticketing.tickets t on t.id = s.ticket_id and t.seat_id = s.id and t.status <> 'void'
 where s.status = 'sold' and t.id is null
union all
select format('ticket %s is valid for seat %s, which is %s', t.id, s.label, s.status)
  from ticketing.tickets t join ticketing.seats s on s.id = t.seat_id
 where t.status <> 'void' and s.ticket_id is distinct from t.id
limit $1
"""
SEAT_MAP = """
select format('row %s of pool %s shows %s, its seats are %s', p.row_name, p.pool_id, p.states, s.states)
  from ticketing.pools p
  left join (select pool_id, string_agg(ticketing.seat_letter(status), '' order by number) as states
               from ticketing.seats group by pool_id) s on s.pool_id = p.pool_id
 where p.states is distinct from s.states
limit $1
"""
BLOCKED = """
select format('event %s counts %s blocked seats, %s are', e.id, e.blocked, coalesce(s.number, 0))
  from ticketing.events e
  left join (select event_id, count(*) as number from ticketing.seats where status = 'blocked' group by event_id) s
    on s.event_id = e.id
 where e.blocked <> coalesce(s.number, 0)
limit $1
"""
CLAIMS = """
select format('ticket %s is valid, its claim %s is %s', t.id, c.id, c.state)
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join onceward.capacity_claims c on c.id = h.claim_id
 where t.status <> 'void' and c.state <> 'sold'
union all
select format('claim %s of pool %s is sold, but no valid ticket has it', c.id, p.key)
  from ticketing.pools p
  join onceward.capacity_claims c on c.pool_id = p.pool_id and c.state = 'sold'
 where c.holder not like 'ticketing:blocked:%'
   and not exists (select from ticketing.seat_holds h join ticketing.checkout_items i on i.seat_hold_id = h.id
                     join ticketing.tickets t on t.item_id = i.id and t.status <> 'void' where h.claim_id = c.id)
limit $1
"""
TICKETS = """
select format('checkout %s is %s, and an item of it has no ticket', c.id, c.status)
  from ticketing.checkouts c join ticketing.checkout_items i on i.checkout_id = c.id
 where c.status in ('completed', 'refunded') and not exists (select from ticketing.tickets t where t.item_id = i.id)
union all
select format('checkout %s is %s, and has tickets', c.id, c.status)
  from ticketing.checkouts c
 where c.status not in ('completed', 'refunded') and exists (select from ticketing.tickets t where t.checkout_id = c.id)
limit $1
"""
TOTALS = """
select format('checkout %s: total is %s, its parts give %s', c.id, c.total_cents, x.parts)
  from ticketing.checkouts c
 cross join lateral (select c.subtotal_cents - c.discount_cents
        + case when c.tax_included then 0 else c.tax_cents end
        + case when c.fee_paid_by = 'buyer' then c.platform_fee_cents else 0 end as parts) x
 where c.total_cents <> x.parts
union all
select format('checkout %s: its items are %s, the order says %s', c.id, i.price, c.subtotal_cents)
  from ticketing.checkouts c
  join (select checkout_id, sum(price_cents) as price, sum(discount_cents) as discount, sum(tax_cents) as tax,
               sum(fee_cents) as fee from ticketing.checkout_items group by checkout_id) i on i.checkout_id = c.id
 where (i.price, i.discount, i.tax, i.fee)
       is distinct from (c.subtotal_cents, c.discount_cents, c.tax_cents, c.platform_fee_cents)
limit $1
"""
# Every payment that was accepted bought one order, and every order that cost something was bought by one.
PAYMENTS = """
select format('payment %s was accepted for %s, which another payment or none has bought', p.id, p.subject_id)
  from onceward.payments p
 where p.subject_type = 'checkout' and p.decision = 'accepted'
   and not exists (select from ticketing.checkouts c where c.id::text = p.subject_id
                      and c.organization_id = p.organization_id
                      and c.payment_id = p.id and c.status in ('completed', 'refunded') and c.total_cents = p.received)
union all
select format('checkout %s is %s and costs %s, no payment bought it', c.id, c.status, c.total_cents)
  from ticketing.checkouts c left join onceward.payments p on p.id = c.payment_id and p.decision = 'accepted'
 where c.status in ('completed', 'refunded') and c.total_cents > 0 and p.id is null
union all
select format('checkout %s says that %s is back, its payment says %s', c.id, c.refunded_cents, p.refunded)
  from ticketing.checkouts c join onceward.payments p on p.id = c.payment_id
 where c.refunded_cents <> least(p.refunded, c.total_cents)
limit $1
"""
FROZEN = """
select format('ticket %s is frozen, and no dispute of its order is open', t.id)
  from ticketing.tickets t join ticketing.checkouts c on c.id = t.checkout_id
 where t.frozen_at is not null and t.status <> 'void'
   and not exists (select from onceward.payment_disputes d where d.payment_id = c.payment_id and d.status = 'open')
union all
select format('event %s is cancelled since %s, and ticket %s is valid', e.id, e.cancelled_at, t.id)
  from ticketing.events e join ticketing.tickets t on t.event_id = e.id and t.status <> 'void'
 where e.cancelled_at < onceward.now() - interval '1 day'
limit $1
"""
PLACES = """
select format('place %s has %s tickets that admit (hold %s, %s)', h.claim_id, count(*), h.id, x.name)
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join ticketing.sections x on x.id = h.section_id
 where t.status <> 'void'
 group by h.id, h.claim_id, x.name having count(*) > 1
union all
select format('section %s (%s) has %s tickets that admit and %s places sold', x.id, x.name, t.number, p.sold)
  from ticketing.sections x
  join (select section_id, count(*) as number from ticketing.tickets where status <> 'void' group by section_id) t
    on t.section_id = x.id
  join (select q.section_id, sum(c.sold) as sold
          from ticketing.pools q join onceward.capacity_pools c on c.id = q.pool_id group by q.section_id) p
    on p.section_id = x.id
 where t.number > p.sold
limit $1
"""
PAYABLE = """
select format('hold %s has %s checkouts that can be paid', i.seat_hold_id, count(*))
  from ticketing.checkout_items i join ticketing.checkouts c on c.id = i.checkout_id
 where c.status in ('started', 'failed')
 group by i.seat_hold_id having count(*) > 1
limit $1
"""
COUPONS = """
select format('coupon %s (%s) was used %s times, %s are allowed', k.id, k.code, count(*), k.most_uses)
  from ticketing.coupons k join ticketing.checkouts c on c.coupon_id = k.id and c.status in ('completed', 'refunded')
 where k.most_uses is not null
 group by k.id, k.code, k.most_uses having count(*) > k.most_uses
limit $1
"""
INVOICES = """
select format('organization %s has %s invoices, the highest number is %s, the counter says %s',
              c.organization_id, i.invoices, i.highest, c.last_number)
  from ticketing.invoice_counters c
 cross join lateral (select count(*) as invoices, coalesce(max(number), 0) as highest
                       from ticketing.invoices i where i.organization_id = c.organization_id) i
 where i.invoices <> i.highest or i.highest <> c.last_number
union all
select format('checkout %s was paid at %s and has no invoice number', c.id, c.completed_at)
  from ticketing.checkouts c
 where c.status in ('completed', 'refunded') and c.completed_at <= onceward.now() - interval '1 day'
   and not exists (select from ticketing.invoices i where i.checkout_id = c.id)
union all
select format('order %s has an invoice of %s, and paid %s', c.id, i.document->>'total_cents', c.total_cents)
  from ticketing.invoices i join ticketing.checkouts c on c.id = i.checkout_id
 where i.kind = 'invoice' and (i.document->>'total_cents')::bigint <> c.total_cents
limit $1
"""

# Tickets that were void or transferred after they were used keep their scans.
DOORS = """
select format('event %s counts %s entered and %s inside, its scans say %s and %s', c.event_id, c.entered, c.inside,
       s.entered, s.inside)
  from ticketing.door_counts c
 cross join lateral (
    select count(*) filter (where outcome = 'admitted') as entered,
           count(*) filter (where outcome in ('admitted', 'readmitted')) - count(*) filter (where outcome = 'left') as
                  inside
      from ticketing.scans s where s.event_id = c.event_id and s.undone_at is null) s
 where (c.entered, c.inside) <> (s.entered, s.inside)
limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("ticketing.sold_seats_and_tickets_agree", SEATS, table="ticketing.tickets"),
    finds_nothing("ticketing.seat_map_shows_the_seats", SEAT_MAP, table="ticketing.tickets"),
    finds_nothing("ticketing.blocked_seats_are_counted", BLOCKED, table="ticketing.tickets"),
    finds_nothing("ticketing.tickets_and_claims_agree", CLAIMS, table="ticketing.tickets"),
    finds_nothing("ticketing.paid_checkouts_have_their_tickets", TICKETS, table="ticketing.tickets"),
    finds_nothing("ticketing.totals_add_up", TOTALS, table="ticketing.tickets"),
    finds_nothing("ticketing.a_payment_bought_one_order", PAYMENTS, table="ticketing.tickets"),
    finds_nothing("ticketing.a_place_has_one_ticket", PLACES, table="ticketing.tickets"),
    finds_nothing("ticketing.a_hold_has_one_payable_checkout", PAYABLE, table="ticketing.tickets"),
    finds_nothing("ticketing.coupons_are_used_as_often_as_allowed", COUPONS, table="ticketing.tickets"),
    finds_nothing("ticketing.tickets_are_frozen_as_long_as_disputes", FROZEN, table="ticketing.tickets"),
    finds_nothing("ticketing.invoice_numbers_have_no_gaps", INVOICES, table="ticketing.tickets"),
    finds_nothing("ticketing.doors_count_their_scans", DOORS, table="ticketing.tickets"),
)

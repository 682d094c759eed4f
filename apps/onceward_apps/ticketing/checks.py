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
CASH = """
with moved as (
    select e.journal_id,
           sum(case when d.code = 'cash' then e.amount else 0 end - case when c.code = 'cash' then e.amount else 0 end) as cash
      from onceward.ledger_entries e
      join onceward.ledger_accounts d on d.id = e.debit_id
      join onceward.ledger_accounts c on c.id = e.credit_id
     where not e.pending
     group by e.journal_id
)
select format('payment %s took %s, the books say %s', p.id, p.amount_cents, coalesce(m.cash, 0))
  from ticketing.payments p left join moved m on m.journal_id = p.journal_id
 where coalesce(m.cash, 0) <> p.amount_cents
union all
select format('refund %s gave %s back, the books say %s', r.id, r.amount_cents, -coalesce(m.cash, 0))
  from ticketing.refunds r left join moved m on m.journal_id = r.journal_id
 where r.status = 'done' and -coalesce(m.cash, 0) <> r.amount_cents
limit $1
"""
REFUNDS = """
select format('payment %s says %s was refunded, its refunds add up to %s', p.id, p.refunded_cents, coalesce(r.done, 0))
  from ticketing.payments p
  left join (select payment_id, sum(amount_cents) filter (where status = 'done') as done
               from ticketing.refunds group by payment_id) r on r.payment_id = p.id
 where p.refunded_cents <> coalesce(r.done, 0)
union all
select format('payment %s bought nothing, and no refund of it is owed or done', p.id)
  from ticketing.payments p
 where p.purpose = 'refused' and not exists (select from ticketing.refunds r where r.payment_id = p.id)
limit $1
"""
REFUNDS_ARRIVE = """
select format('refund %s is booked, but the payment service said only %s', r.id, coalesce(r.provider_status, 'nothing'))
  from ticketing.refunds r
 where r.status = 'done' and r.method = 'service' and coalesce(r.provider_status, '') not in ('succeeded', 'COMPLETED')
union all
select format('refund %s failed at %s (%s): repeat it, or pay it another way', r.id, r.failed_at, r.failure)
  from ticketing.refunds r
 where r.status = 'failed' and r.failed_at <= onceward.now() - interval '1 day'
union all
select format('refund %s has been pending since %s: ask the payment service', r.id, r.attempted_at)
  from ticketing.refunds r
 where r.status = 'pending' and r.attempted_at <= onceward.now() - interval '14 days'
limit $1
"""
DISPUTES = """
select format('dispute %s is %s, and the books do not say so', d.id, d.status)
  from ticketing.disputes d
 where (d.status = 'lost' and (d.journal_id is null or d.closing_journal_id is null))
    or (d.status = 'won' and d.journal_id is not null and d.closing_journal_id is null)
    or (d.status = 'open' and d.closing_journal_id is not null)
union all
select format('ticket %s is frozen, and no dispute of its order is open', t.id)
  from ticketing.tickets t
 where t.frozen_at is not null and t.status <> 'void'
   and not exists (select from ticketing.disputes d where d.checkout_id = t.checkout_id and d.status = 'open')
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
JOURNALS = """
select format('journal %s belongs to %s payments', journal_id, count(*))
  from ticketing.payments where journal_id is not null group by journal_id having count(*) > 1
union all
select format('payment %s has no journal', id) from ticketing.payments where journal_id is null
union all
select format('checkout %s was sold by %s payments', checkout_id, count(*))
  from ticketing.payments where purpose = 'sale' group by checkout_id having count(*) > 1
union all
select format('checkout %s is %s and was paid %s, no payment sold it', c.id, c.status, c.total_cents)
  from ticketing.checkouts c
 where c.status in ('completed', 'refunded') and c.total_cents > 0
   and not exists (select from ticketing.payments p where p.checkout_id = c.id and p.purpose = 'sale')
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
limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("ticketing.sold_seats_and_tickets_agree", SEATS, table="ticketing.tickets"),
    finds_nothing("ticketing.seat_map_shows_the_seats", SEAT_MAP, table="ticketing.tickets"),
    finds_nothing("ticketing.tickets_and_claims_agree", CLAIMS, table="ticketing.tickets"),
    finds_nothing("ticketing.paid_checkouts_have_their_tickets", TICKETS, table="ticketing.tickets"),
    finds_nothing("ticketing.totals_add_up", TOTALS, table="ticketing.tickets"),
    finds_nothing("ticketing.cash_is_what_was_captured_less_refunds", CASH, table="ticketing.tickets"),
    finds_nothing("ticketing.refused_payments_are_refunded", REFUNDS, table="ticketing.tickets"),
    finds_nothing("ticketing.a_place_has_one_ticket", PLACES, table="ticketing.tickets"),
    finds_nothing("ticketing.a_hold_has_one_payable_checkout", PAYABLE, table="ticketing.tickets"),
    finds_nothing("ticketing.coupons_are_used_as_often_as_allowed", COUPONS, table="ticketing.tickets"),
    finds_nothing("ticketing.a_payment_has_one_journal", JOURNALS, table="ticketing.tickets"),
    finds_nothing("ticketing.refunds_arrive", REFUNDS_ARRIVE, table="ticketing.tickets"),
    finds_nothing("ticketing.disputes_are_booked", DISPUTES, table="ticketing.tickets"),
    finds_nothing("ticketing.invoice_numbers_have_no_gaps", INVOICES, table="ticketing.tickets"),
)

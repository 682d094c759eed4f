"""Invariants of the clinic. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

HISTORY = """
-- The last line of the history is the state of the appointment.
select format('appointment %s is %s, but its history ends with %s', a.id, a.status, coalesce(h.to_status, 'nothing'))
  from clinic.appointments a
  left join lateral (select h.to_status from clinic.appointment_history h
                      where h.organization_id = a.organization_id and h.appointment_id = a.id order by h.id desc limit 1) h on true
 where h.to_status is distinct from a.status
limit $1
"""
PAID = """
select format('appointment %s is %s without a payment that says so', a.id, a.payment_status)
  from clinic.appointments a
 where a.payment_status in ('paid', 'refunded', 'partially_refunded')
   and not exists (select from clinic.payments p where p.organization_id = a.organization_id and p.appointment_id = a.id
                      and p.status = 'succeeded')
limit $1
"""
ONE_PAYMENT = """
select format('appointment %s has %s payments without a problem', p.appointment_id, count(*))
  from clinic.payments p where p.status = 'succeeded' and p.problem is null and p.appointment_id is not null
 group by p.organization_id, p.appointment_id having count(*) > 1
limit $1
"""
REFUNDS = """
select format('payment %s of %s was refunded with %s', p.id, p.amount, p.refunded)
  from clinic.payments p where p.status = 'succeeded' and p.refunded > p.amount
limit $1
"""
RETURNED = """
-- Money that the clinic may not keep is refunded or being refunded, unless a refund failed, which is shown to operators.
select format('payment %s has the problem %s and no refund', p.id, p.problem)
  from clinic.payments p
 where p.problem in ('unknown_appointment', 'cancelled', 'duplicate') and p.status = 'succeeded' and p.refunded < p.amount
   and not exists (select from clinic.refunds r where r.payment_id = p.id)
limit $1
"""
REPLIES = """
select format('the reply to %s of organization %s has no message', r.event_id, r.organization_id)
  from clinic.replies r
 where not exists (select from clinic.outgoing o where o.message_id = r.message_id and o.organization_id = r.organization_id)
limit $1
"""
ROOMS = """
select format('appointment %s has the room %s, which belongs to another appointment', a.id, a.room_name)
  from clinic.appointments a join clinic.rooms r on r.organization_id = a.organization_id and r.room_name = a.room_name
 where r.appointment_id is distinct from a.id
limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("clinic.history_leads_to_the_state", HISTORY),
    finds_nothing("clinic.paid_means_a_payment", PAID),
    finds_nothing("clinic.an_appointment_is_paid_once", ONE_PAYMENT),
    finds_nothing("clinic.refunds_do_not_exceed_payments", REFUNDS),
    finds_nothing("clinic.money_that_is_not_ours_goes_back", RETURNED),
    finds_nothing("clinic.replies_have_messages", REPLIES),
    finds_nothing("clinic.rooms_belong_to_one_appointment", ROOMS),
)

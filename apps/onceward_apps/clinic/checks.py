"""Invariants of the clinic. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

HISTORY = """
-- The last line of the history is the state of the appointment.
select format('appointment %s is %s, but its history ends with %s', a.id, a.status, coalesce(h.to_status, 'nothing'))
  from clinic.appointments a
  left join lateral (select h.to_status from clinic.appointment_history h
                      where h.organization_id = a.organization_id and h.appointment_id = a.id order by h.id desc
                      limit 1) h on true
 where h.to_status is distinct from a.status
limit $1
"""
PAID = """
select format('appointment %s is %s without a payment that says so', a.id, a.payment_status)
  from clinic.appointments a
 where a.payment_status in ('paid', 'review', 'partially_refunded', 'disputed', 'charged_back')
   and not exists (select from onceward.payments p where p.organization_id = a.organization_id
                      and p.subject_type = 'appointment'
                      and p.subject_id = a.id::text and p.decision = 'accepted' and p.refunded < p.received)
union all
select format('payment %s was kept, but appointment %s is %s', p.id, a.id, a.payment_status)
  from onceward.payments p
  join clinic.appointments a on a.organization_id = p.organization_id and a.id::text = p.subject_id
 where p.subject_type = 'appointment' and p.decision = 'accepted' and p.refunded < p.received
   and a.payment_status in ('not_required', 'unpaid', 'pending', 'failed')
limit $1
"""
ONE_PAYMENT = """
-- A refund that the bank returned waits for a person, and the appointment may have been paid again meanwhile.
select format('appointment %s has %s payments that the clinic kept', p.subject_id, count(*))
  from onceward.payments p
 where p.subject_type = 'appointment' and p.decision = 'accepted' and p.refunded < p.received
   and not exists (select from onceward.payment_refunds r
                    where r.payment_id = p.id and r.status = 'failed' and r.was_done)
 group by p.organization_id, p.subject_id having count(*) > 1
limit $1
"""
REPLIES = """
select format('the reply to %s of organization %s has no message', r.event_id, r.organization_id)
  from clinic.replies r
 where not exists (select from clinic.outgoing o where o.message_id = r.message_id
                      and o.organization_id = r.organization_id)
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
    finds_nothing("clinic.replies_have_messages", REPLIES),
    finds_nothing("clinic.rooms_belong_to_one_appointment", ROOMS),
)

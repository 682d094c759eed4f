"""Invariants of the learning platform. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

# Every payment that was accepted bought exactly one thing. Those that were returned are checked by the engine.
PAYMENTS = """
select format('payment %s of %s was accepted, but there is no enrolment', p.id, p.subject_id)
  from onceward.payments p
 where p.subject_type = 'enrolment' and p.decision = 'accepted'
   and not exists (select from learning.enrollments e where e.id::text = p.subject_id
                      and e.organization_id = p.organization_id)
union all
select format('enrolment %s: %s was paid, but its payments are %s', e.id, e.amount_paid, coalesce(sum(p.received), 0))
  from learning.enrollments e
  left join onceward.payments p on p.organization_id = e.organization_id and p.subject_type = 'enrolment'
       and p.subject_id = e.id::text and p.decision = 'accepted'
 group by e.id having e.amount_paid <> coalesce(sum(p.received), 0)
union all
select format('payment %s bought an extension, but there is none', p.id)
  from onceward.payments p
 where p.subject_type = 'extension' and p.decision = 'accepted'
   and not exists (select from learning.access_extensions x where x.payment_id = p.id
                      and x.organization_id = p.organization_id)
limit $1
"""
PLACES = """
select format('enrolment %s is %s, its place %s is %s', e.id, e.status, e.claim_id, coalesce(c.state, 'missing'))
  from learning.enrollments e left join onceward.capacity_claims c on c.id = e.claim_id
 where e.status in ('ACTIVE', 'EXPIRED') and c.state is distinct from 'sold'
union all
select format('enrolment %s is %s, but still has the place %s', e.id, e.status, e.claim_id)
  from learning.enrollments e where e.status in ('REFUND_PENDING', 'REFUNDED') and e.claim_id is not null
union all
select format('place %s of %s is sold, but no enrolment has it', c.id, p.key)
  from onceward.capacity_pools p
  join learning.cohorts k on p.key = 'cohort:' || k.id and p.organization_id = k.organization_id
  join onceward.capacity_claims c on c.pool_id = p.id and c.state = 'sold'
 where not exists (select from learning.enrollments e where e.claim_id = c.id)
   and not exists (select from learning.seats s where s.claim_id = c.id and s.enrollment_id is null)
union all
select format('seat %s has the place %s, its enrolment %s has %s', s.id, s.claim_id, e.id, e.claim_id)
  from learning.seats s join learning.enrollments e on e.id = s.enrollment_id
 where e.claim_id is distinct from s.claim_id
limit $1
"""
INVITES = """
select format('invite %s is SENT, but its entry is %s', i.id, w.status)
  from learning.waitlist_invites i join learning.waitlist_entries w on w.id = i.waitlist_entry_id
 where i.status = 'SENT' and w.status <> 'INVITED'
union all
select format('entry %s is INVITED, but has no open invite', w.id)
  from learning.waitlist_entries w
 where w.status = 'INVITED'
   and not exists (select from learning.waitlist_invites i where i.waitlist_entry_id = w.id and i.status = 'SENT')
limit $1
"""
REFUNDED = """
with back as (
    select organization_id, subject_id, subject_type, received, status,
           least(received, refunded + case when status = 'lost' then withheld else 0 end) as back
      from onceward.payments where subject_type in ('enrolment', 'extension') and decision = 'accepted'
)
select format('enrolment %s is REFUNDED, but %s of %s went back', e.id, sum(p.back), sum(p.received))
  from learning.enrollments e
  join back p on p.organization_id = e.organization_id and p.subject_type = 'enrolment' and p.subject_id = e.id::text
 where e.status = 'REFUNDED' group by e.id having sum(p.back) < sum(p.received)
union all
select format('enrolment %s is REFUND_PENDING, but nothing is left to refund', e.id)
  from learning.enrollments e
 where e.status = 'REFUND_PENDING'
   and not exists (select from back p where p.organization_id = e.organization_id and p.subject_id = e.id::text
                      and p.back < p.received)
limit $1
"""
CANCELLED = """
select format('cohort %s is CANCELLED since %s, but enrolment %s is %s', c.id, c.cancelled_at, e.id, e.status)
  from learning.cohorts c join learning.enrollments e on e.cohort_id = c.id
 where c.status = 'CANCELLED' and e.status in ('ACTIVE', 'EXPIRED')
   and c.cancelled_at < onceward.now() - interval '1 day'
union all
select format('cohort %s is CANCELLED, but people wait for it', c.id)
  from learning.cohorts c
 where c.status = 'CANCELLED' and c.cancelled_at < onceward.now() - interval '1 day'
   and exists (select from learning.waitlist_entries w
                                           where w.cohort_id = c.id and w.status in ('ACTIVE', 'INVITED'))
limit $1
"""
HISTORY = """
select format('cohort %s is %s, the last change in its history is to %s', c.id, c.status, h.to_status)
  from learning.cohorts c
  left join lateral (select to_status from learning.cohort_status_history s where s.cohort_id = c.id order by s.id desc
                      limit 1) h
    on true
 where c.status <> coalesce(h.to_status, 'DRAFT')
limit $1
"""
CERTIFICATES = """
select format('certificate %s is valid, but its enrolment %s was refunded', c.credential_id, c.enrollment_id)
  from learning.certificates c join learning.enrollments e on e.id = c.enrollment_id
 where c.revoked_at is null and e.status = 'REFUNDED'
limit $1
"""


CHECKS: tuple[Check, ...] = (
    finds_nothing("learning.a_payment_bought_one_thing", PAYMENTS, table="learning.enrollments"),
    finds_nothing("learning.an_enrolment_has_one_place", PLACES, table="learning.enrollments"),
    finds_nothing("learning.invites_match_their_entries", INVITES, table="learning.enrollments"),
    finds_nothing("learning.refunds_add_up", REFUNDED, table="learning.enrollments"),
    finds_nothing("learning.cancelled_cohorts_are_empty", CANCELLED, table="learning.enrollments"),
    finds_nothing("learning.the_history_of_a_cohort_is_complete", HISTORY, table="learning.enrollments"),
    finds_nothing("learning.refunded_enrolments_have_no_certificate", CERTIFICATES, table="learning.enrollments"),
)

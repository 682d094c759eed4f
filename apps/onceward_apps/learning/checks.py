"""Invariants of the learning platform. `onceward verify` checks them on a live database."""

from __future__ import annotations

from onceward.trust import Check, finds_nothing

# Every paid intent is exactly one of: enrolment, extension, instalment, refund.
PAYMENTS = """
select format('payment %s bought an enrolment, but enrolment %s does not name it', p.payment_intent_id, p.enrollment_id)
  from learning.payments p left join learning.enrollments e on e.id = p.enrollment_id
 where p.purpose = 'enrollment' and e.payment_intent_id is distinct from p.payment_intent_id
union all
select format('enrolment %s was paid by %s, which is not recorded as its payment', e.id, e.payment_intent_id)
  from learning.enrollments e
 where e.payment_intent_id is not null
   and not exists (select from learning.payments p where p.payment_intent_id = e.payment_intent_id
                      and p.organization_id = e.organization_id and p.enrollment_id = e.id and p.purpose = 'enrollment')
union all
select format('payment %s bought an extension, but there is none', p.payment_intent_id)
  from learning.payments p
 where p.purpose = 'extension'
   and not exists (select from learning.access_extensions x where x.payment_intent_id = p.payment_intent_id
                      and x.organization_id = p.organization_id)
union all
select format('payment %s paid an instalment, but there is none', p.payment_intent_id)
  from learning.payments p
 where p.purpose = 'instalment'
   and not exists (select from learning.instalments i where i.payment_intent_id = p.payment_intent_id
                      and i.organization_id = p.organization_id)
union all
select format('payment %s was refused (%s), but nobody refunds it', p.payment_intent_id, p.reason)
  from learning.payments p
 where p.purpose = 'refused' and p.refunded_amount + p.charged_back_amount < p.amount
   and not exists (select from learning.refunds r where r.payment_id = p.id)
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
select format('enrolment %s is REFUNDED, but %s of %s went back', e.id, sum(p.refunded_amount + p.charged_back_amount), sum(p.amount))
  from learning.enrollments e join learning.payments p on p.enrollment_id = e.id and p.purpose in ('enrollment', 'instalment')
 where e.status = 'REFUNDED' group by e.id having sum(p.refunded_amount + p.charged_back_amount) < sum(p.amount)
union all
select format('payment %s: %s was refunded, our confirmed refunds are %s', p.payment_intent_id, p.refunded_amount, sum(r.amount))
  from learning.payments p join learning.refunds r on r.payment_id = p.id and r.status = 'done'
 group by p.id having sum(r.amount) > p.refunded_amount
limit $1
"""
DISPUTES = """
select format('payment %s: %s is charged back, its lost disputes are %s', p.payment_intent_id, p.charged_back_amount,
              coalesce(sum(d.amount) filter (where d.status = 'lost'), 0))
  from learning.payments p left join learning.disputes d on d.payment_id = p.id
 group by p.id
having p.charged_back_amount > coalesce(sum(d.amount) filter (where d.status = 'lost'), 0)
    or (p.charged_back_amount = 0 and p.refunded_amount < p.amount and bool_or(d.status = 'lost'))
union all
select format('payment %s %s an open dispute, but is marked otherwise', p.payment_intent_id, case when d.open then 'has' else 'has not' end)
  from learning.payments p
 cross join lateral (select exists (select from learning.disputes d where d.payment_id = p.id and d.status = 'open') as open) d
 where d.open <> (p.disputed_at is not null)
limit $1
"""
CANCELLED = """
select format('cohort %s is CANCELLED since %s, but enrolment %s is %s', c.id, c.cancelled_at, e.id, e.status)
  from learning.cohorts c join learning.enrollments e on e.cohort_id = c.id
 where c.status = 'CANCELLED' and e.status in ('ACTIVE', 'EXPIRED') and c.cancelled_at < onceward.now() - interval '1 day'
union all
select format('cohort %s is CANCELLED, but people wait for it', c.id)
  from learning.cohorts c
 where c.status = 'CANCELLED' and exists (select from learning.waitlist_entries w
                                           where w.cohort_id = c.id and w.status in ('ACTIVE', 'INVITED'))
limit $1
"""
HISTORY = """
select format('cohort %s is %s, the last change in its history is to %s', c.id, c.status, h.to_status)
  from learning.cohorts c
  left join lateral (select to_status from learning.cohort_status_history s where s.cohort_id = c.id order by s.id desc limit 1) h
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
    finds_nothing("learning.a_payment_bought_one_thing_or_is_refunded", PAYMENTS, table="learning.enrollments"),
    finds_nothing("learning.an_enrolment_has_one_place", PLACES, table="learning.enrollments"),
    finds_nothing("learning.invites_match_their_entries", INVITES, table="learning.enrollments"),
    finds_nothing("learning.refunds_add_up", REFUNDED, table="learning.enrollments"),
    finds_nothing("learning.lost_disputes_are_charged_back", DISPUTES, table="learning.enrollments"),
    finds_nothing("learning.cancelled_cohorts_are_empty", CANCELLED, table="learning.enrollments"),
    finds_nothing("learning.the_history_of_a_cohort_is_complete", HISTORY, table="learning.enrollments"),
    finds_nothing("learning.refunded_enrolments_have_no_certificate", CERTIFICATES, table="learning.enrollments"),
)

"""What people read at the desk instead of states and kinds, and the SQL of columns that are counted."""

from __future__ import annotations

COHORT = {
    "DRAFT": "Draft",
    "OPEN": "Open for enrolment",
    "CONFIRMED": "Confirmed",
    "IN_PROGRESS": "Running",
    "COMPLETED": "Completed",
    "CANCELLED": "Cancelled",
}
ENROLMENT = {
    "ACTIVE": "Active",
    "REFUND_PENDING": "Refund on its way",
    "REFUNDED": "Refunded",
    "EXPIRED": "Access ended",
}
WAITING = {"ACTIVE": "Waiting", "INVITED": "Invited", "ENROLLED": "Enrolled", "REMOVED": "Left"}
REFUND = {
    "requested": "Requested",
    "sent": "Asked the service",
    "pending": "At the bank",
    "done": "Paid back",
    "failed": "Failed",
    "settled": "Settled by hand",
}
DISPUTE = {"inquiry": "Inquiry", "open": "Open: answer at Stripe", "won": "Won", "lost": "Lost"}
SESSION = {"coming": "Coming", "ended": "Ended", "cancelled": "Cancelled"}
SESSION_STATE = """
case when r.cancelled_at is not null then 'cancelled' when r.ends_at <= onceward.now() then 'ended' else 'coming' end
"""
SESSION_AUDIT = {
    "session_added": "Added",
    "session_changed": "Changed",
    "session_cancelled": "Cancelled",
    "session_recording_set": "Recording set",
    "attendance_entered": "Attendance entered",
}
DISCOUNT_USES = """
(select p.sold || coalesce(' of ' || p.capacity, '') from onceward.capacity_pools p
  where p.organization_id = r.organization_id and p.key = 'discount:' || r.id)
"""
SEATS_TAKEN = """
(select count(s.enrollment_id) || ' of ' || count(*) from learning.seats s where s.block_id = r.id)
"""
WORK = {"DRAFT": "Not handed in", "HANDED_IN": "To grade", "PASSED": "Passed", "RETURNED": "Returned"}
WORK_FILES = """
select f.name as title, '/learn/submissions/files/' || f.id as path from learning.submission_files f
 where f.submission_id = $1::text::uuid and f.stored_at is not null and f.discarded_at is null order by f.created_at
"""
KIND = {"lesson": "Lesson", "assignment": "Assignment", "quiz": "Quiz"}
COHORTS_BY_START = "select id::text as value, name as word from learning.cohorts order by starts_at desc"
"""The choices of a filter by cohort."""
COHORTS_TO_SELL = """
select id::text as value, name || ', ' || to_char(starts_at at time zone time_zone, 'FMDD Mon YYYY') as word
  from learning.cohorts where status in ('DRAFT', 'OPEN', 'CONFIRMED') and starts_at > onceward.now()
 order by starts_at, id
"""
OTHER_COHORTS = """
select c.id::text as value,
       c.name || ', ' || to_char(c.starts_at at time zone c.time_zone, 'FMDD Mon YYYY') as word
  from learning.cohorts c where c.status in ('OPEN', 'CONFIRMED') and c.starts_at > onceward.now()
   and c.id <> (select e.cohort_id from learning.enrollments e where e.id = $1::text::uuid)
 order by c.starts_at, c.id
"""
"""Where a student can move to."""
OURS = """p.organization_id = (select e.organization_id from learning.enrollments e where e.id = $1::text::uuid)
   and p.subject_id = $1 and p.subject_type in ('enrolment', 'extension')"""
ENROLMENT_TIMELINE = f"""
select enrolled_at as at, 'Enrolled' as what, '' as who, null as path from learning.enrollments
 where id = $1::text::uuid
union all select p.paid_at, 'Paid: ' || p.title, '', '/dashboard/payments/payments/row/' || p.id
  from onceward.payments p where {OURS} and p.paid_at is not null
union all select p.ended_at, 'Not paid: ' || p.title || coalesce(', ' || p.failure, ''), '',
                 '/dashboard/payments/payments/row/' || p.id
  from onceward.payments p where {OURS} and p.ended_at is not null and p.paid_at is null
union all select f.done_at, case f.status when 'failed' then 'The refund failed' else 'Paid back' end, '',
                 '/dashboard/payments/refunds/row/' || f.id
  from onceward.payment_refunds f join onceward.payments p on p.id = f.payment_id where {OURS} and f.done_at is not null
union all select d.created_at, 'The bank asked for the payment back', '', null
  from onceward.payment_disputes d join onceward.payments p on p.id = d.payment_id where {OURS}
union all select d.decided_at, case d.status when 'won' then 'Dispute won' else 'Dispute lost' end, '', null
  from onceward.payment_disputes d join onceward.payments p on p.id = d.payment_id
 where {OURS} and d.decided_at is not null
union all select x.bought_at, 'More access bought', '', null from learning.access_extensions x
 where x.enrollment_id = $1::text::uuid
union all select b.created_at, 'Session booked' || coalesce(': ' || s.title, ''), '', null
  from learning.bookings b left join learning.sessions s on s.id = b.session_id where b.enrollment_id = $1::text::uuid
union all select b.cancelled_at, 'Booking cancelled' || coalesce(': ' || s.title, ''), '', null
  from learning.bookings b left join learning.sessions s on s.id = b.session_id
 where b.enrollment_id = $1::text::uuid and b.cancelled_at is not null
union all select g.done_at, 'Done: ' || i.title, '', null
  from learning.progress g join learning.content_items i on i.id = g.item_id where g.enrollment_id = $1::text::uuid
union all select w.handed_in_at, 'Handed in: ' || i.title, '', '/dashboard/learning/submissions/row/' || w.id
  from learning.submissions w join learning.content_items i on i.id = w.item_id
 where w.enrollment_id = $1::text::uuid and w.handed_in_at is not null
union all select v.received_at, case v.kind when 'intake' then 'Answered the survey at the beginning'
                when 'exit' then 'Answered the survey at the end' else 'Gave feedback' end, '', null
  from learning.survey_responses v where v.enrollment_id = $1::text::uuid
union all select k.issued_at, 'Certificate issued', '', k.url from learning.certificates k
 where k.enrollment_id = $1::text::uuid
union all select m.created_at, 'Message: ' || replace(m.template, '-', ' '), '', '/dashboard/messages/' || m.id
  from learning.enrollments e
  cross join lateral (select * from onceward.messages m where m.recipient = e.user_id::text
                       order by m.id desc limit 100) m
 where e.id = $1::text::uuid and m.created_at >= e.enrolled_at - interval '1 hour'
"""
STUDENT_TIMELINE = """
select created_at as at, 'First entered the address here' as what, '' as who, null as path from learning.users
 where id = $1::text::uuid
union all select confirmed_at, 'Confirmed the address', '', null from learning.users
 where id = $1::text::uuid and confirmed_at is not null
union all select e.enrolled_at, 'Enrolled: ' || c.name, '', '/dashboard/learning/enrolments/row/' || e.id
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id where e.user_id = $1::text::uuid
union all select e.refunded_at, 'Refunded: ' || c.name, '', '/dashboard/learning/enrolments/row/' || e.id
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id
 where e.user_id = $1::text::uuid and e.refunded_at is not null
union all select w.added_at, 'Joined the waitlist: ' || c.name, '', null
  from learning.waitlist_entries w join learning.cohorts c on c.id = w.cohort_id where w.user_id = $1::text::uuid
union all select w.invited_at, 'Invited to a free place: ' || c.name, '', null
  from learning.waitlist_entries w join learning.cohorts c on c.id = w.cohort_id
 where w.user_id = $1::text::uuid and w.invited_at is not null
union all select k.issued_at, 'Certificate issued: ' || c.name, '', k.url
  from learning.certificates k join learning.cohorts c on c.id = k.cohort_id where k.user_id = $1::text::uuid
union all (select m.created_at, 'Message: ' || replace(m.template, '-', ' '), '', '/dashboard/messages/' || m.id
  from onceward.messages m where m.recipient = $1::text order by m.id desc limit 100)
"""

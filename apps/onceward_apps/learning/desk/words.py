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
# What the app noted about a student: it is about people, so the ids are those of the enrolment.
HAPPENED = """
select happened_at as at, initcap(replace(kind, '_', ' ')) as what, '' as who from learning.activity_log
 where user_id = (select user_id from learning.enrollments where id = $1::text::uuid)
   and enrollment_id = $1::text::uuid
 order by happened_at desc limit 200
"""

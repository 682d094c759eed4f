"""The lists of the desk: cohorts, sessions, content, students, enrolments, the waitlist, refunds and disputes."""

from __future__ import annotations

from onceward.desk import Column, Desk, Detail, Listing, Related, Role
from onceward_apps.learning.app import HERE, app
from onceward_apps.learning.store import overview

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
KIND = {"lesson": "Lesson", "assignment": "Assignment", "quiz": "Quiz"}
# What the app noted about a student: it is about people, so the ids are those of the enrolment.
HAPPENED = """
select happened_at as at, initcap(replace(kind, '_', ' ')) as what, '' as who from learning.activity_log
 where user_id = (select user_id from learning.enrollments where id = $1::text::uuid)
   and enrollment_id = $1::text::uuid
 order by happened_at desc limit 200
"""

desk = Desk(
    "learning",
    "Learning",
    app,
    table="learning.cohorts",
    languages=HERE / "languages",
    order=95,
    key="y",
    roles=(Role("instructor", "Instructor", "Sees cohorts and students"), Role("accountant", "Accountant", "Refunds")),
)

ENROLMENTS = Listing(
    name="enrolments",
    title="Enrolments",
    noun="enrolment",
    rows="learning.enrollments r join learning.users u on u.id = r.user_id join learning.cohorts c on c.id = r.cohort_id",
    order="-enrolled_at",
    roles=("instructor", "accountant"),
    columns=(
        Column("student", "Student", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("email", "Email", sql="u.email", search=True, wide=True),
        Column("cohort", "Cohort", sql="c.name"),
        Column("status", "State", words=ENROLMENT, tones={"ACTIVE": "good", "REFUND_PENDING": "warn"}, filter=True),
        Column("amount_paid", "Paid", kind="money", currency="r.currency"),
        Column("enrolled_at", "Enrolled", kind="time", sort=True, filter=True),
    ),
    empty="Students appear here when they have enrolled in a cohort.",
)
WAITLIST = Listing(
    name="waitlist",
    title="Waitlist",
    noun="entry",
    rows="learning.waitlist_entries r join learning.users u on u.id = r.user_id join learning.cohorts c on c.id = r.cohort_id",
    order="-added_at",
    roles=("instructor",),
    columns=(
        Column("person", "Person", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("cohort", "Cohort", sql="c.name"),
        Column("status", "State", words=WAITING, tones={"INVITED": "busy", "ENROLLED": "good"}, filter=True),
        Column("expired_invites", "Invites that expired", kind="number", wide=True),
        Column("added_at", "Since", kind="time", sort=True),
    ),
    empty="People appear here when a cohort is full and they ask to be invited.",
)
SESSIONS = Listing(
    name="sessions",
    title="Sessions",
    noun="session",
    rows="learning.sessions r join learning.cohorts c on c.id = r.cohort_id",
    order="-starts_at",
    roles=("instructor",),
    columns=(
        Column("title", "Title"),
        Column("cohort", "Cohort", sql="c.name"),
        Column("starts_at", "Starts", kind="time", sort=True, filter=True),
        Column("ends_at", "Ends", kind="time", wide=True),
        Column("state", "State", sql=SESSION_STATE, words=SESSION, tones={"cancelled": "bad", "coming": "good"}),
        Column("recording", "Recording", sql="r.recording_url is not null", kind="yes", wide=True),
    ),
    empty="Add the sessions of a cohort on the page of the cohort.",
)
ITEMS = Listing(
    name="items",
    title="Content",
    noun="item",
    rows="learning.content_items r join learning.cohorts c on c.id = r.cohort_id",
    order="title",
    roles=("instructor",),
    columns=(
        Column("title", "Title", sort=True),
        Column("kind", "Kind", words=KIND, filter=True),
        Column("cohort", "Cohort", sql="c.name"),
        Column("position", "Position", kind="number"),
        Column("required", "Required", kind="yes"),
        Column("is_prep", "Before the start", kind="yes", wide=True),
    ),
    empty="Add lessons, assignments and quizzes on the page of a cohort.",
)
COHORTS = desk.listing(
    Listing(
        name="cohorts",
        title="Cohorts",
        noun="cohort",
        rows="learning.cohorts r",
        order="-starts_at",
        roles=("instructor",),
        columns=(
            Column("name", "Name", search=True),
            Column("status", "State", words=COHORT, filter=True, tones={"OPEN": "good", "IN_PROGRESS": "busy"}),
            Column("starts_at", "Starts", kind="time", sort=True, filter=True),
            Column(
                "taken",
                "Places taken",
                sql="(select count(*) from learning.enrollments e where e.cohort_id = r.id"
                " and e.status = 'ACTIVE') || ' of ' || r.max_capacity",
            ),
            Column("price", "Price", kind="money", currency="r.currency"),
        ),
        empty="Create the first cohort with the button above. It stays a draft until you open it.",
    ),
    detail=Detail(
        title="r.name",
        facts=(
            Column("ends_at", "Ends", kind="time"),
            Column("description", "Description"),
            Column("required_attendance_percentage", "Attendance for a certificate, %", kind="number"),
            Column("time_zone", "Time zone"),
        ),
        related=(
            Related(ENROLMENTS, by="r.cohort_id"),
            Related(SESSIONS, by="r.cohort_id"),
            Related(ITEMS, by="r.cohort_id"),
            Related(WAITLIST, by="r.cohort_id"),
        ),
        also=("Cohort",),
        words={
            "cohort_created": "Created",
            "cohort_changed": "Changed",
            "cohort_resized": "Places changed",
            "cohort_status_changed": "State changed",
        },
    ),
)
STUDENTS = desk.listing(
    Listing(
        name="students",
        title="Students",
        noun="student",
        rows="learning.users r",
        order="-created_at",
        where="r.erased_at is null",
        roles=("instructor",),
        columns=(
            Column("name", "Name", sql="coalesce(nullif(r.name, ''), r.email)", search=True),
            Column("email", "Email", search=True),
            Column("last_login_at", "Last seen", kind="time", wide=True),
            Column("created_at", "Since", kind="time", sort=True, filter=True),
        ),
        empty="Students appear here when they enrol, or ask for a place.",
    ),
    detail=Detail(
        title="coalesce(nullif(r.name, ''), r.email)",
        related=(Related(ENROLMENTS, by="r.user_id"), Related(WAITLIST, by="r.user_id")),
        also=("User",),
    ),
)
desk.listing(
    ENROLMENTS,
    detail=Detail(
        title="coalesce(nullif(u.name, ''), u.email) || ', ' || c.name",
        facts=(
            Column("access_expires_at", "Access until", kind="time"),
            Column("refund_reason", "Reason of the refund"),
        ),
        also=("Enrollment",),
        words={
            "refund_requested": "Refund requested",
            "enrollment_moved": "Moved to another cohort",
            "enrolled_by_hand": "Enrolled by hand",
            "attendance_corrected": "Attendance corrected",
        },
        timeline=HAPPENED,
    ),
)
desk.listing(SESSIONS, detail=Detail(title="r.title || ', ' || c.name", also=("Session",), words=SESSION_AUDIT))
desk.listing(ITEMS, detail=Detail(title="r.title || ', ' || c.name", also=("Item",)))
desk.listing(WAITLIST)
REFUNDS = desk.listing(
    Listing(
        name="refunds",
        title="Refunds",
        noun="refund",
        rows="onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column("status", "State", words=REFUND, tones={"done": "good", "failed": "bad"}, filter=True),
            Column("failure", "Why it failed"),
            Column("created_at", "Requested", kind="time", sort=True, filter=True),
        ),
        empty="Refunds of enrolments and extensions appear here.",
    )
)
desk.listing(
    Listing(
        name="disputes",
        title="Disputes",
        noun="dispute",
        rows="onceward.payment_disputes r join onceward.payments p on p.id = r.payment_id",
        where=overview.OURS,
        order="-created_at",
        roles=("accountant",),
        columns=(
            Column("reason", "Reason"),
            Column("amount", "Amount", kind="money", currency="r.currency"),
            Column(
                "status", "State", words=DISPUTE, tones={"open": "bad", "inquiry": "warn", "won": "good"}, filter=True
            ),
            Column("reference", "At the service"),
            Column("created_at", "Opened", kind="time", sort=True),
        ),
        empty="If the bank of a student asks for a payment back, it appears here.",
    )
)

"""The lists of the desk: cohorts, sessions, content, students, enrolments, the waitlist, refunds and disputes."""

from __future__ import annotations

from onceward.desk import Column, Desk, Detail, Listing, Related, Role
from onceward_apps.learning.app import HERE, app
from onceward_apps.learning.desk.words import (
    COHORT,
    COHORTS_BY_START,
    ENROLMENT,
    ENROLMENT_TIMELINE,
    KIND,
    SEATS_TAKEN,
    SESSION,
    SESSION_AUDIT,
    SESSION_STATE,
    STUDENT_TIMELINE,
    WAITING,
    WORK,
    WORK_FILES,
)

desk = Desk(
    "learning",
    "Learning",
    app,
    table="learning.cohorts",
    languages=HERE / "languages",
    order=95,
    key="y",
    roles=(
        Role("instructor", "Instructor", "Teaches: content, grades, attendance, chat"),
        Role("accountant", "Accountant", "Refunds"),
    ),
)

COHORT_ITSELF = ("cohort",)
ENROLMENTS = Listing(
    name="enrolments",
    title="Enrolments",
    noun="enrolment",
    rows=(
        "learning.enrollments r join learning.users u on u.id = r.user_id join learning.cohorts c on c.id = r.cohort_id"
    ),
    order="-enrolled_at",
    roles=("instructor", "accountant"),
    columns=(
        Column("student", "Student", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("email", "Email", sql="u.email", search=True, wide=True),
        Column("cohort", "Cohort", sql="c.name", filter=True, choices=COHORTS_BY_START, by="r.cohort_id"),
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
    rows=(
        "learning.waitlist_entries r join learning.users u on u.id = r.user_id"
        " join learning.cohorts c on c.id = r.cohort_id"
    ),
    order="-added_at",
    roles=("instructor",),
    columns=(
        Column("person", "Person", sql="coalesce(nullif(u.name, ''), u.email)", search=True),
        Column("cohort", "Cohort", sql="c.name", filter=True, choices=COHORTS_BY_START, by="r.cohort_id"),
        Column("status", "State", words=WAITING, tones={"INVITED": "busy", "ENROLLED": "good"}, filter=True),
        Column("priority", "Priority", kind="number"),
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
        Column("cohort", "Cohort", sql="c.name", filter=True, choices=COHORTS_BY_START, by="r.cohort_id"),
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
        Column("cohort", "Cohort", sql="c.name", filter=True, choices=COHORTS_BY_START, by="r.cohort_id"),
        Column("position", "Position", kind="number"),
        Column("required", "Required", kind="yes"),
        Column("is_prep", "Before the start", kind="yes", wide=True),
    ),
    empty="Add lessons, assignments and quizzes on the page of a cohort.",
)
CHAT = Listing(
    name="chat",
    title="Chat",
    noun="message",
    rows="learning.chat_messages r join learning.cohorts c on c.id = r.cohort_id"
    " left join learning.users u on u.id = r.user_id",
    id_type="bigint",
    where="r.deleted_at is null",
    roles=("instructor",),
    columns=(
        Column("author", "Author", sql="coalesce(nullif(u.name, ''), u.email, r.author)"),
        Column("message", "Message"),
        Column("cohort", "Cohort", sql="c.name", wide=True, filter=True, choices=COHORTS_BY_START, by="r.cohort_id"),
        Column("sent_at", "Written", kind="time"),
    ),
    empty="Messages appear here when students write in the chat of a cohort.",
)
WORKS = Listing(
    name="submissions",
    title="Submissions",
    noun="submission",
    rows="learning.submissions r join learning.enrollments e on e.id = r.enrollment_id"
    " join learning.users u on u.id = e.user_id join learning.content_items i on i.id = r.item_id"
    " join learning.cohorts c on c.id = i.cohort_id",
    where="r.status <> 'DRAFT'",
    order="-created_at",
    presets=(("To grade", "status=HANDED_IN"),),
    roles=("instructor",),
    columns=(
        Column("student", "Student", sql="coalesce(nullif(u.name, ''), u.email)"),
        Column("title", "Assignment", sql="i.title"),
        Column("cohort", "Cohort", sql="c.name", wide=True, filter=True, choices=COHORTS_BY_START, by="i.cohort_id"),
        Column("status", "State", words=WORK, tones={"HANDED_IN": "busy", "PASSED": "good"}, filter=True),
        Column("grade", "Grade", kind="number"),
        Column("handed_in_at", "Handed in", kind="time"),
        Column("created_at", "Begun", kind="time", sort=True, wide=True),
    ),
    empty="Work appears here when students hand in an assignment that is graded.",
)
SEATS = Listing(
    name="seats",
    title="Companies",
    noun="company",
    plural="companies",
    rows="learning.seat_blocks r join learning.cohorts c on c.id = r.cohort_id",
    order="-created_at",
    roles=("accountant",),
    columns=(
        Column("company", "Company"),
        Column("cohort", "Cohort", sql="c.name"),
        Column("taken", "Seats taken", sql=SEATS_TAKEN),
        Column("contact_email", "Contact", wide=True),
        Column("ended", "Ended", sql="r.ended_at is not null", kind="yes", wide=True),
        Column("created_at", "Since", kind="time", sort=True),
    ),
    empty="Give seats to a company on the page of a cohort.",
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
            Related(ENROLMENTS, by="r.cohort_id", without=COHORT_ITSELF),
            Related(SESSIONS, by="r.cohort_id", without=COHORT_ITSELF),
            Related(ITEMS, by="r.cohort_id", without=COHORT_ITSELF),
            Related(WAITLIST, by="r.cohort_id", without=COHORT_ITSELF),
            Related(SEATS, by="r.cohort_id", without=COHORT_ITSELF),
            Related(CHAT, by="r.cohort_id", without=COHORT_ITSELF),
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
        related=(
            Related(ENROLMENTS, by="r.user_id", without=("student", "email")),
            Related(WAITLIST, by="r.user_id", without=("person",)),
        ),
        also=("User",),
        timeline=STUDENT_TIMELINE,
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
            "partial_refund_requested": "Refund of a part requested",
            "enrollment_moved": "Moved to another cohort",
            "enrolled_by_hand": "Enrolled by hand",
            "attendance_corrected": "Attendance corrected",
            "certificate_reissued": "Certificate issued again",
            "certificate_revoked": "Certificate revoked",
        },
        timeline=ENROLMENT_TIMELINE,
    ),
)
desk.listing(
    SEATS,
    detail=Detail(
        title="r.company || ', ' || c.name",
        facts=(Column("email_domain", "Only for addresses at"), Column("reference", "Reference")),
        also=("SeatBlock",),
        words={"seats_reserved": "Reserved", "seats_link_sent": "Link sent again", "seats_ended": "Ended"},
    ),
)
desk.listing(SESSIONS, detail=Detail(title="r.title || ', ' || c.name", also=("Session",), words=SESSION_AUDIT))
desk.listing(
    ITEMS, detail=Detail(title="r.title || ', ' || c.name", related=(Related(WORKS, by="r.item_id"),), also=("Item",))
)
desk.listing(CHAT)
desk.listing(
    WORKS,
    detail=Detail(
        title="i.title || ', ' || coalesce(nullif(u.name, ''), u.email)",
        facts=(
            Column("text", "Text"),
            Column("feedback", "Feedback"),
            Column("revision", "Handed in, times", kind="number"),
        ),
        documents=WORK_FILES,
        also=("Submission",),
        words={"work_graded": "Graded"},
    ),
)
desk.listing(
    WAITLIST,
    detail=Detail(
        title="coalesce(nullif(u.name, ''), u.email) || ', ' || c.name",
        facts=(Column("email", "Email", sql="u.email"), Column("invited_at", "Invited", kind="time")),
        also=("WaitlistEntry",),
        words={"waitlist_priority_set": "Priority changed", "waitlist_left": "Removed"},
    ),
)

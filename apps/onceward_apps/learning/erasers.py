"""Personal data of the learning platform: names, addresses, answers and messages. Amounts, ids and states stay."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from onceward.db import Transaction
from onceward.trust import Eraser
from onceward.trust.erase import Found, Person

OF_STUDENTS = (
    "from learning.users t where t.ctid = any($1::text[]::tid[]) and x.organization_id = t.organization_id"
    " and x.user_id = t.id"
)
OF_ENROLLMENTS = """
  from learning.users t
  join learning.enrollments e on e.organization_id = t.organization_id and e.user_id = t.id
 where t.ctid = any($1::text[]::tid[]) and x.organization_id = e.organization_id and x.enrollment_id = e.id
"""
FORGET = (
    f"update learning.chat_messages x set message = '(erased)' {OF_STUDENTS}",
    f"""update learning.survey_responses x set answers = '{{"erased": true}}' {OF_ENROLLMENTS}""",
    f"""update learning.certificates x set snapshot = '{{"erased": true}}', document = null {OF_STUDENTS}""",
    f"update learning.submissions x set text = '', feedback = null {OF_ENROLLMENTS}",
    """update learning.submission_files x set name = 'erased', discarded_at = onceward.now()
         from learning.users t
         join learning.enrollments e on e.organization_id = t.organization_id and e.user_id = t.id
         join learning.submissions s on s.organization_id = e.organization_id and s.enrollment_id = e.id
        where t.ctid = any($1::text[]::tid[]) and x.organization_id = s.organization_id and x.submission_id = s.id""",
    f"update learning.activity_log x set details = '{{}}' {OF_STUDENTS}",
    f"update learning.enrollments x set student_profile = '{{}}', feedback = null, onboarding_progress = '{{}}' "
    f"{OF_STUDENTS}",
    f"delete from learning.sign_in_links x using {OF_STUDENTS.removeprefix('from ')}",
    f"delete from learning.student_sessions x using {OF_STUDENTS.removeprefix('from ')}",
    "update learning.users t set email = 'erased-' || t.id || '@invalid.example', name = '', avatar = null, erased_at"
    " = onceward.now() where t.ctid = any($1::text[]::tid[])",
)
"""What a student wrote and what was written about them, then the student. Enrolments and money stay, without a name."""


async def forget_students(tx: Transaction, _person: Person, found: Sequence[Found], _organization: UUID | None) -> None:
    for statement in FORGET:
        await tx.execute(statement, [each.row for each in found])


ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="students",
        table="learning.users",
        columns={"email": "whole", "name": "text", "avatar": "text"},
        erase=forget_students,
        together=True,
        names=("email",),
        linked="lower(t.email) = any($2)",
    ),
    Eraser(
        name="survey answers on enrolments",
        table="learning.enrollments",
        columns={"student_profile": "json", "feedback": "json", "onboarding_progress": "json"},
        blank={"student_profile": "'{}'", "feedback": """'{"erased": true}'""", "onboarding_progress": "'{}'"},
    ),
    Eraser(
        name="reasons on enrolments",
        table="learning.enrollments",
        columns={"refund_reason": "text", "partial_refund_reason": "text"},
        blank={
            "refund_reason": "case when t.refund_reason is not null then 'erased' end",
            "partial_refund_reason": "case when t.partial_refund_reason is not null then 'erased' end",
        },
    ),
    Eraser(
        name="survey responses",
        table="learning.survey_responses",
        columns={"answers": "json"},
        blank={"answers": """'{"erased": true}'"""},
    ),
    Eraser(
        name="chat messages",
        table="learning.chat_messages",
        columns={"message": "text", "author": "text"},
        blank={"message": "'(erased)'", "author": "case when t.author is not null then 'erased' end"},
    ),
    Eraser(
        name="bookings",
        table="learning.bookings",
        columns={"cancellation_reason": "text", "url": "text"},
        blank={"cancellation_reason": "null", "url": "null"},
    ),
    Eraser(
        name="attendance",
        table="learning.attendance_observations",
        columns={"observed_by": "text", "reason": "text"},
        blank={"observed_by": "'erased'", "reason": "null"},
    ),
    Eraser(
        name="certificates",
        table="learning.certificates",
        columns={"snapshot": "json", "revoked_reason": "text"},
        blank={
            "snapshot": """'{"erased": true}'""",
            "revoked_reason": "case when t.revoked_reason is not null then 'erased' end",
        },
    ),
    Eraser(
        name="activity",
        table="learning.activity_log",
        columns={"details": "json"},
        blank={"details": "'{}'"},
    ),
    Eraser(
        name="status changes",
        table="learning.cohort_status_history",
        columns={"changed_by": "text", "reason": "text"},
        blank={"changed_by": "'erased'", "reason": "null"},
    ),
    Eraser(
        name="waitlist",
        table="learning.waitlist_entries",
        columns={"ended_reason": "text"},
        blank={"ended_reason": "null"},
    ),
    Eraser(
        name="CRM sync errors",
        table="learning.crm_sync_log",
        columns={"error": "text"},
        blank={"error": "'erased'"},
    ),
    Eraser(
        name="CRM refusals",
        table="learning.crm_refused",
        columns={"reason": "text"},
        blank={"reason": "'erased'"},
    ),
    Eraser(
        name="work of students",
        table="learning.submissions",
        columns={"text": "text", "feedback": "text", "graded_by": "text"},
        blank={"text": "''", "feedback": "null", "graded_by": "case when t.graded_by is not null then 'erased' end"},
    ),
    Eraser(
        name="files of students",
        table="learning.submission_files",
        columns={"name": "text"},
        blank={"name": "'erased'"},
    ),
    Eraser(
        name="contacts of companies",
        table="learning.seat_blocks",
        columns={"contact_email": "whole", "reference": "text"},
        blank={"contact_email": "'erased@invalid.example'", "reference": "null"},
    ),
    Eraser(
        name="cohort pages",
        table="learning.cohorts",
        columns={"name": "text", "description": "text", "cancellation_reason": "text"},
        kept="The organization publishes these texts: change the cohort.",
    ),
    Eraser(
        name="course content",
        table="learning.content_items",
        columns={"title": "text", "body": "text"},
        kept="The organization publishes these texts: change the content.",
    ),
    Eraser(
        name="sessions",
        table="learning.sessions",
        columns={"title": "text", "cancellation_reason": "text"},
        kept="The organization publishes these texts: change the session.",
    ),
)

CODE = "a name given by code or an operator"
SERVICE = "an id of an outside service"
CLOSED = "a closed set"
STUDENT = "an id that names nobody once its student is erased"
TOKEN = "a hash"

UNSEARCHED: dict[str, str] = {
    "learning.signing_keys.*": "keys of the organization",
    "learning.badge_keys.*": "keys of the organization",
    "learning.schools.domain": "a domain",
    "learning.users.locale": "a language",
    "learning.cohorts.currency": "a currency",
    "learning.cohorts.time_zone": "a time zone",
    "learning.cohorts.zoom_link": "a page of the organization",
    "learning.cohorts.slack_channel_url": "a page of the organization",
    "learning.sessions.recording_url": "a page of the organization",
    "learning.cohort_status_history.from_status": CLOSED,
    "learning.cohort_status_history.to_status": CLOSED,
    "learning.enrollments.reminded": CODE,
    "learning.enrollments.currency": "a currency",
    "learning.enrollments.intake_survey_response_id": SERVICE,
    "learning.enrollments.exit_survey_response_id": SERVICE,
    "learning.access_extensions.*": "states, amounts and our own ids",
    "learning.discount_codes.*": "codes, amounts and our own ids",
    "learning.seat_blocks.company": "the name of a company",
    "learning.seat_blocks.email_domain": "a domain",
    "learning.seat_blocks.token_hash": TOKEN,
    "learning.quiz_questions.*": "texts that the organization publishes: change the quiz",
    "learning.quiz_results.*": "numbers, and a random key",
    "learning.submission_files.content_type": "the type of a file",
    "learning.bookings.uid": SERVICE,
    "learning.bookings.earlier_uids": "ids of an outside service",
    "learning.attendance_observations.cause": "the id of an event or request",
    "learning.content_items.url": "a page of the organization",
    "learning.survey_maps.*": CODE,
    "learning.survey_responses.response_id": SERVICE,
    "learning.survey_responses.survey_id": SERVICE,
    "learning.supplemental_resources.*": CODE,
    "learning.certificates.credential_id": "random",
    "learning.certificates.url": "made of ids",
    "learning.chat_messages.client_key": "random",
    "learning.chat_reactions.emoji": "an emoji",
    "learning.activity_log.kind": CODE,
    "learning.page_views.*": "a random id of a browser and a path",
    "learning.daily_metrics.*": "numbers",
    "learning.activity_log.user_id": STUDENT,
    "learning.certificates.user_id": STUDENT,
    "learning.chat_messages.user_id": STUDENT,
    "learning.chat_reactions.user_id": STUDENT,
    "learning.chat_reads.user_id": STUDENT,
    "learning.checkouts.browser": "a random id of a browser, or a hash",
    "learning.checkouts.user_id": STUDENT,
    "learning.enrollments.user_id": STUDENT,
    "learning.waitlist_entries.user_id": STUDENT,
    "learning.waitlist_invites.user_id": STUDENT,
    "learning.sign_in_links.*": "hashes and ids; deleted with the student",
    "learning.student_sessions.*": "hashes and ids; deleted with the student",
    "learning.waitlist_invites.token_hash": TOKEN,
    "learning.certificates.document": "the PDF; removed with the student",
}

"""Personal data of the learning platform: names, addresses, answers and messages. Amounts, ids and states stay."""

from __future__ import annotations

from onceward.trust import Eraser

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="students",
        table="learning.users",
        columns={"email": "whole", "name": "text", "avatar": "text"},
        blank={"email": "'erased-' || t.id || '@invalid.example'", "name": "''", "avatar": "null"},
        together=True,
        names=("email",),
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
        name="payments",
        table="learning.payments",
        columns={"reason": "text", "refund_reason": "text"},
        blank={
            "reason": "case when t.reason is not null then 'erased' end",
            "refund_reason": "case when t.refund_reason is not null then 'erased' end",
        },
    ),
    Eraser(
        name="refunds",
        table="learning.refunds",
        columns={"reason": "text", "failure": "text"},
        blank={"reason": "'erased'", "failure": "case when t.failure is not null then 'erased' end"},
    ),
    Eraser(
        name="refunds before their payment",
        table="learning.refunds_seen",
        columns={"reason": "text"},
        blank={"reason": "null"},
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
        columns={"message": "text"},
        blank={"message": "'(erased)'"},
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
        columns={"title": "text"},
        kept="The organization publishes these texts: change the session.",
    ),
)

CODE = "a name given by code or an operator"
SERVICE = "an id of an outside service"
CLOSED = "a closed set"

UNSEARCHED: dict[str, str] = {
    "learning.signing_keys.*": "keys of the organization",
    "learning.users.locale": "a language",
    "learning.cohorts.currency": "a currency",
    "learning.cohorts.zoom_link": "a page of the organization",
    "learning.cohorts.slack_channel_url": "a page of the organization",
    "learning.sessions.recording_url": "a page of the organization",
    "learning.cohort_status_history.from_status": CLOSED,
    "learning.cohort_status_history.to_status": CLOSED,
    "learning.enrollments.payment_intent_id": SERVICE,
    "learning.enrollments.stripe_session_id": SERVICE,
    "learning.enrollments.currency": "a currency",
    "learning.enrollments.intake_survey_response_id": SERVICE,
    "learning.enrollments.exit_survey_response_id": SERVICE,
    "learning.checkouts.currency": "a currency",
    "learning.checkouts.stripe_session_id": SERVICE,
    "learning.checkouts.payment_url": "the payment service's page",
    "learning.payments.payment_intent_id": SERVICE,
    "learning.payments.stripe_session_id": SERVICE,
    "learning.payments.currency": "a currency",
    "learning.refunds.currency": "a currency",
    "learning.refunds.provider_refund_id": SERVICE,
    "learning.refunds_seen.payment_intent_id": SERVICE,
    "learning.subscriptions.*": "ids and states of the payment service",
    "learning.instalments.*": "ids of the payment service",
    "learning.access_extensions.*": "ids of the payment service",
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
}

"""The rows that pass through the app: a student, and an enrolment with the names of its student and cohort.

They are rows of the database (`row["status"]`), whose columns and types pyright checks.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypedDict
from uuid import UUID

EnrollmentStatus = Literal["ACTIVE", "REFUND_PENDING", "REFUNDED", "EXPIRED"]
CohortStatus = Literal["DRAFT", "OPEN", "CONFIRMED", "IN_PROGRESS", "COMPLETED", "CANCELLED"]


class Student(TypedDict):
    """A row of `learning.users`. Who was erased has a placeholder as address, and no name."""

    id: UUID
    organization_id: UUID
    email: str
    name: str
    avatar: str | None
    locale: str | None
    last_login_at: datetime | None
    confirmed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    erased_at: datetime | None


class Payer(TypedDict):
    """The person who gets a payment back that bought nothing. Every `Student` is one."""

    id: UUID
    email: str
    name: str
    locale: str | None
    erased_at: datetime | None


class BareEnrollment(TypedDict):
    """A row of `learning.enrollments`."""

    id: UUID
    organization_id: UUID
    user_id: UUID
    cohort_id: UUID
    status: EnrollmentStatus
    enrolled_at: datetime
    amount_paid: int
    currency: str
    claim_id: int | None
    access_expires_at: datetime
    access_revoked_at: datetime | None
    access_extension_applied: bool
    refunded_at: datetime | None
    refund_amount: int | None
    refund_reason: str | None
    ended_with_cohort: bool
    partial_refund: int | None
    partial_refund_reason: str | None
    disputed_at: datetime | None
    intake_survey_completed_at: datetime | None
    intake_survey_response_id: str | None
    exit_survey_completed_at: datetime | None
    exit_survey_response_id: str | None
    student_profile: dict[str, Any]
    onboarding_progress: dict[str, Any]
    feedback: dict[str, Any] | None
    nps_score: int | None
    nps_category: str | None
    moved_from: UUID | None
    reminded: str | None
    updated_at: datetime


class Enrollment(BareEnrollment):
    """An enrolment with the names of its student and cohort (`store.enrollments.find`)."""

    email: str
    user_name: str
    locale: str | None
    erased_at: datetime | None
    erased: bool
    """Whether the student's data was erased: nothing is sent or sold to this row any more."""
    cohort_name: str
    starts_at: datetime
    ends_at: datetime
    cohort_status: CohortStatus
    zoom_link: str | None
    slack_channel_url: str | None
    has_live_sessions: bool
    extension_price: int
    extension_days: int
    time_zone: str
    cohort_currency: str
    now: datetime


class OwnEnrollment(BareEnrollment):
    """An enrolment as its student sees it (`store.views.enrollment`)."""

    has_access: bool
    cohort_name: str
    cohort_status: CohortStatus
    starts_at: datetime
    ends_at: datetime
    zoom_link: str | None
    slack_channel_url: str | None
    content_unlocked_at: datetime | None
    has_live_sessions: bool
    user_name: str
    email: str

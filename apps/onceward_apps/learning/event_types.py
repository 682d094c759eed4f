"""The events that the learning platform publishes to outbound webhooks, each with a sample. Amounts are minor units."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel

from onceward_apps.learning.app import app


class EnrollmentCreated(BaseModel):
    """A person was enrolled in a cohort."""

    enrollmentId: UUID
    userId: UUID
    userEmail: str
    userName: str
    cohortId: UUID
    cohortName: str
    cohortStartDate: datetime
    enrolledAt: datetime
    amountPaid: int
    currency: str


class EnrollmentUpdated(BaseModel):
    """An enrolment changed. `change` says what: a partial refund, the end or the extension of access, or a move."""

    enrollmentId: UUID
    userId: UUID
    userEmail: str
    cohortId: UUID
    cohortName: str
    change: Literal["partial_refund", "expired", "access_extended", "reactivated", "moved", "refund_failed"]
    status: str
    accessExpiresAt: datetime
    refundAmount: int | None = None
    refundReason: str | None = None
    updatedAt: datetime


class EnrollmentRefunded(BaseModel):
    """The payment of an enrolment was refunded in full, and the enrolment ended."""

    enrollmentId: UUID
    userId: UUID
    userEmail: str
    cohortId: UUID
    cohortName: str
    refundAmount: int
    currency: str
    refundReason: str
    refundedAt: datetime
    wasFullRefund: bool
    isFullRefund: bool


class Student(BaseModel):
    userId: UUID
    email: str
    name: str


class CohortStarted(BaseModel):
    """A cohort started. `students` has the first 100; `studentsUrl` lists all, page by page."""

    cohortId: UUID
    cohortName: str
    startDate: datetime
    endDate: datetime
    enrollmentCount: int
    students: list[Student]
    studentsUrl: str


class CohortCompleted(BaseModel):
    """A cohort ended."""

    cohortId: UUID
    cohortName: str
    startDate: datetime
    endDate: datetime
    enrollmentCount: int
    completedAt: datetime


class CohortCancelled(BaseModel):
    """A cohort was cancelled. Its payments are being refunded."""

    cohortId: UUID
    cohortName: str
    startDate: datetime
    endDate: datetime
    enrollmentCount: int
    cancellationReason: str
    cancelledAt: datetime


class CertificateIssued(BaseModel):
    """A certificate was issued."""

    certificateId: UUID
    userId: UUID
    userEmail: str
    userName: str
    cohortName: str
    issuedAt: datetime
    certificateUrl: str
    credentialId: str
    completionPercentage: float


class UserRegistered(BaseModel):
    """A person signed up."""

    userId: UUID
    userEmail: str
    userName: str
    registeredAt: datetime


class UserUpdated(BaseModel):
    """A person's profile changed."""

    userId: UUID
    userEmail: str
    userName: str
    updatedAt: datetime
    changedFields: list[str]


class WaitlistPromoted(BaseModel):
    """A person on the waitlist was invited to enrol."""

    waitlistEntryId: UUID
    inviteId: UUID
    userId: UUID
    userEmail: str
    userName: str
    cohortId: UUID
    cohortName: str
    invitedAt: datetime
    expiresAt: datetime


AT = "2026-03-02T09:00:00Z"
END = "2026-05-29T17:00:00Z"
ENROLLMENT = {"enrollmentId": "6f1c6a52-8f0e-4c6e-9d53-0f5d1f6f8a10"}
USER = {"userId": "0b6f7f0e-2f2a-4b52-8f6b-6a0f6c1d2e3f", "userEmail": "ada@example.com"}
NAMED = {**USER, "userName": "Ada Lovelace"}
COHORT = {"cohortId": "b3d9e3c4-5a61-4a7e-8a37-9f7b7a2f1c55", "cohortName": "Data Engineering, Spring"}
DATES = {"startDate": AT, "endDate": END, "enrollmentCount": 1}

SAMPLES: dict[str, tuple[type[BaseModel], dict[str, Any]]] = {
    "enrollment.created": (
        EnrollmentCreated,
        {
            **ENROLLMENT,
            **NAMED,
            **COHORT,
            "cohortStartDate": AT,
            "enrolledAt": AT,
            "amountPaid": 49900,
            "currency": "EUR",
        },
    ),
    "enrollment.updated": (
        EnrollmentUpdated,
        {**ENROLLMENT, **USER, **COHORT, "change": "partial_refund", "status": "ACTIVE", "accessExpiresAt": END}
        | {"refundAmount": 10000, "refundReason": "requested_by_customer", "updatedAt": AT},
    ),
    "enrollment.refunded": (
        EnrollmentRefunded,
        {**ENROLLMENT, **USER, **COHORT, "refundAmount": 49900, "currency": "EUR"}
        | {"refundReason": "requested_by_customer", "refundedAt": AT, "wasFullRefund": True, "isFullRefund": True},
    ),
    "cohort.started": (
        CohortStarted,
        {
            **COHORT,
            **DATES,
            "students": [{"userId": USER["userId"], "email": USER["userEmail"], "name": "Ada Lovelace"}],
            "studentsUrl": f"https://learn.example/api/v1/learning/cohorts/{COHORT['cohortId']}/enrollments",
        },
    ),
    "cohort.completed": (CohortCompleted, {**COHORT, **DATES, "completedAt": END}),
    "cohort.cancelled": (
        CohortCancelled,
        {**COHORT, **DATES, "cancellationReason": "The instructor is ill", "cancelledAt": AT},
    ),
    "certificate.issued": (
        CertificateIssued,
        {
            "certificateId": "1c9d7e54-7c3b-4c55-9a0a-5a7a2d7f9b11",
            **NAMED,
            "cohortName": COHORT["cohortName"],
            "issuedAt": END,
        }
        | {"certificateUrl": "https://learn.example/certificates/OW-7F3K-Q2M9", "credentialId": "OW-7F3K-Q2M9"}
        | {"completionPercentage": 96.0},
    ),
    "user.registered": (UserRegistered, {**NAMED, "registeredAt": AT}),
    "user.updated": (UserUpdated, {**NAMED, "updatedAt": AT, "changedFields": ["userName"]}),
    "waitlist.promoted": (
        WaitlistPromoted,
        {"waitlistEntryId": "c4a1d2b3-0e9f-4a5b-8c7d-6e5f4a3b2c1d", "inviteId": "d5b2e3c4-1f0a-4b6c-9d8e-7f6a5b4c3d2e"}
        | {**NAMED, **COHORT, "invitedAt": AT, "expiresAt": AT},
    ),
}

for name, (model, sample) in SAMPLES.items():
    app.event_type(name, model, sample=sample, description=(model.__doc__ or "").strip())

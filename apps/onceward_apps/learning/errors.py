"""Errors of the learning platform. `routes/` turns `status` into the HTTP status."""

from __future__ import annotations

from onceward import OncewardError


class LearningError(OncewardError):
    """A request that cannot be done. The text is for the person who asked."""

    status = 409
    code = "conflict"


class NotFound(LearningError):
    status = 404
    code = "not_found"


class InvalidRequest(LearningError):
    status = 400
    code = "invalid"


class InvalidTransition(LearningError):
    """A cohort cannot change from its status to the requested one."""

    code = "invalid_transition"


class CohortFull(LearningError):
    """No place is free; the person can join the waitlist."""

    code = "cohort_full"


class NotEnrollable(LearningError):
    """The cohort is not open for enrolment."""

    code = "not_enrollable"


class AlreadyEnrolled(LearningError):
    code = "already_enrolled"


class PaymentPending(LearningError):
    """The person has paid with a method that takes days, and the payment has neither succeeded nor failed."""

    code = "payment_pending"


class DiscountInvalid(LearningError):
    """The code does not exist, does not count for this course, or was used as often as it can be."""

    code = "discount_invalid"


class SeatsTaken(LearningError):
    """All seats of the company are taken, or the person has an address of another company."""

    code = "seats_taken"


class InviteInvalid(LearningError):
    """The invite is unknown, used, revoked or expired."""

    status = 410
    code = "invite_invalid"


class PaymentUnavailable(LearningError):
    """The payment service did not answer, or refused the request."""

    status = 503
    code = "payment_unavailable"

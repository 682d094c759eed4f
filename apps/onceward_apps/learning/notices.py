"""Tell people what happened: mails to students, events to outbound webhooks, messages to open dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.capacity import look
from onceward.payments import Payment
from onceward_apps.learning import link_tokens, links
from onceward_apps.learning.model import Refusal, pool_key
from onceward_apps.learning.store.rows import Enrollment, Payer
from onceward_apps.learning.student_mails import mail
from onceward_apps.learning.surveys import survey_url

TITLES: dict[Refusal, str] = {
    "cohort_full": "A payment came for a cohort that is full",
    "cohort_not_enrollable": "A payment came for a cohort that is not open",
    "already_enrolled": "A person paid twice for a cohort",
    "checkout_replaced": "A payment came for a checkout that the person had replaced by another one",
    "amount_mismatch": "A payment has another amount than the price",
    "enrollment_refunded": "A payment came for an enrolment that was refunded",
    "user_erased": "A payment came from a person whose data was erased",
}
EXPECTED: tuple[Refusal, ...] = ("cohort_full", "cohort_not_enrollable", "already_enrolled")
"""Refusals that happen in a normal sale. The others need a look, so operators are notified."""


async def welcome(tx: Tx, enrollment: Enrollment) -> None:
    """Mail, event, broadcast for a new enrolment. `enrollment` is a row of `store.enrollments.find`."""
    await mail(
        tx,
        "enrollment-welcome",
        enrollment,
        key=f"enrollment:{enrollment['id']}:welcome",
        data={
            "name": enrollment["user_name"],
            "cohortName": enrollment["cohort_name"],
            "startDate": enrollment["starts_at"],
            # Nothing is booked yet: the sessions appear there as soon as they are.
            "calBookingLink": links.sessions(enrollment["id"]) if enrollment["has_live_sessions"] else None,
            "homeUrl": links.home(enrollment["id"]),
            "intakeSurveyUrl": await survey_url(tx, "intake", enrollment["id"]),
        },
    )
    await tx.publish(
        "enrollment.created",
        {
            **_who(enrollment),
            "userName": enrollment["user_name"],
            "cohortStartDate": enrollment["starts_at"],
            "enrolledAt": enrollment["enrolled_at"],
            "amountPaid": enrollment["amount_paid"],
            "currency": enrollment["currency"],
        },
        key=f"enrollment:{enrollment['id']}:created",
    )
    await broadcast(tx, enrollment, "ENROLLMENT_CREATED", enrolledAt=enrollment["enrolled_at"].isoformat())


async def refused(tx: Tx, payment: Payment, user: Payer, cohort: Any, reason: Refusal) -> None:
    """Tell the payer that the money comes back, and operators where a person has to look."""
    paid = {"amount": payment.received, "currency": payment.amount.currency}
    data: dict[str, Any] = {"cohortName": cohort["name"], "name": user["name"]}
    data |= {"refundAmount": paid["amount"], "currency": paid["currency"]}
    if reason == "cohort_full":
        await mail(tx, "cohort-full-waitlist", user, key=f"payment:{payment.id}:waitlisted", data=data)
    else:
        data["reason"] = reason
        await mail(tx, "enrollment-refused-refund", user, key=f"payment:{payment.id}:refused", data=data)
    if reason not in EXPECTED:
        details = {"reason": reason, "payment": str(payment.id), "cohort": str(cohort["id"]), **paid}
        await tx.notify_admins("PAYMENT_REFUSED", "error", TITLES[reason], details, audience="accounting")


async def refunded(tx: Tx, enrollment: Enrollment, *, by_mail: bool, by_bank: bool = False) -> None:
    """Mail (unless the cancellation of the cohort sends its own), event, broadcast for a full refund.

    `by_bank`: a lost dispute took the money back, so the mail does not say that we refunded it.
    """
    reason = enrollment["refund_reason"]
    if by_mail:
        await mail(
            tx,
            "dispute-lost" if by_bank else "refund-confirmation",
            enrollment,
            key=f"enrollment:{enrollment['id']}:refunded",
            data={
                "name": enrollment["user_name"],
                "cohortName": enrollment["cohort_name"],
                "refundAmount": enrollment["refund_amount"],
                "currency": enrollment["currency"],
                "refundReason": reason,
            },
        )
    await tx.publish(
        "enrollment.refunded",
        {
            **_who(enrollment),
            "refundAmount": enrollment["refund_amount"],
            "currency": enrollment["currency"],
            "refundReason": reason,
            "refundedAt": enrollment["refunded_at"],
            "wasFullRefund": True,
            "isFullRefund": True,
        },
        key=f"enrollment:{enrollment['id']}:refunded",
    )
    await broadcast(tx, enrollment, "ENROLLMENT_REFUNDED", isFullRefund=True)


async def partly_refunded(tx: Tx, enrollment: Enrollment, amount: int, *, key: str) -> None:
    """Tell a student that a part of the money comes back. The enrolment stays."""
    data = {"name": enrollment["user_name"], "cohortName": enrollment["cohort_name"], "refundAmount": amount}
    data |= {"currency": enrollment["currency"], "refundReason": enrollment["partial_refund_reason"]}
    await mail(tx, "refund-partial", enrollment, key=key, data=data)


async def charged_back(tx: Tx, enrollment: Enrollment, payment: Payment) -> None:
    """Tell a student that a bank took an instalment back, and the access with it."""
    data = {"name": enrollment["user_name"], "cohortName": enrollment["cohort_name"], "refundAmount": payment.withheld}
    data |= {"currency": payment.amount.currency, "refundReason": "dispute_lost"}
    await mail(tx, "dispute-lost", enrollment, key=f"payment:{payment.id}:lost", data=data)


async def moved(tx: Tx, enrollment: Enrollment, old_cohort_name: str) -> None:
    """Mail a student who was moved, and publish it. `enrollment` is the row after the move."""
    key = f"enrollment:{enrollment['id']}:{enrollment['cohort_id']}:moved:{enrollment['updated_at'].isoformat()}"
    data = {
        "name": enrollment["user_name"],
        "cohortName": enrollment["cohort_name"],
        "oldCohortName": old_cohort_name,
        "startDate": enrollment["starts_at"],
        "homeUrl": links.home(enrollment["id"]),
    }
    await mail(tx, "enrollment-moved", enrollment, key=key, data=data)
    await updated(tx, enrollment, "moved")


async def updated(tx: Tx, enrollment: Enrollment, change: str, *, key: str | None = None, **more: Any) -> None:
    """Publish `enrollment.updated`. `enrollment` is a row of `store.enrollments.find`."""
    data = {
        **_who(enrollment),
        "change": change,
        "status": enrollment["status"],
        "accessExpiresAt": enrollment["access_expires_at"],
        "updatedAt": enrollment["updated_at"],
        **more,
    }
    await tx.publish("enrollment.updated", data, key=key)


async def access_expiring(tx: Tx, enrollment: Enrollment) -> None:
    """Remind once for each date on which the access ends."""
    until = enrollment["access_expires_at"]
    sells = enrollment["extension_price"] > 0
    token = await link_tokens.enrollment_token(tx, "extension", enrollment["id"]) if sells else None
    await mail(
        tx,
        "access-expiring-today",
        enrollment,
        key=f"enrollment:{enrollment['id']}:expiring:{until:%Y-%m-%d}",
        data={
            "cohortName": enrollment["cohort_name"],
            "expiresAt": until,
            "extendAccessUrl": None if token is None else links.extension(token),
        },
        expires_at=until,
    )


async def invited(tx: Tx, entry: Any, cohort: Any, invite: Any, token: str) -> None:
    """Send the invite from the waitlist and publish `waitlist.promoted`."""
    await mail(
        tx,
        "waitlist-spot-available",
        entry,
        key=f"invite:{invite['id']}",
        data={
            "name": entry["user_name"],
            "cohortName": cohort["name"],
            "startDate": cohort["starts_at"],
            "enrollUrl": links.invite(token),
            "expiresAt": invite["expires_at"],
        },
        expires_at=invite["expires_at"],
    )
    await tx.publish(
        "waitlist.promoted",
        {
            "waitlistEntryId": entry["id"],
            "inviteId": invite["id"],
            "userId": entry["user_id"],
            "userEmail": entry["email"],
            "userName": entry["user_name"],
            "cohortId": cohort["id"],
            "cohortName": cohort["name"],
            "invitedAt": invite["sent_at"],
            "expiresAt": invite["expires_at"],
        },
        key=f"invite:{invite['id']}",
    )


async def broadcast(tx: Tx, enrollment: Enrollment, type: str, **more: Any) -> None:
    """Tell open dashboards. No payment fields: the topic is about places, not money."""
    cohort_id: UUID = enrollment["cohort_id"]
    pool = await look(tx, pool_key(cohort_id))
    message: Mapping[str, Any] = {
        "type": type,
        "enrollmentId": str(enrollment["id"]),
        "userId": str(enrollment["user_id"]),
        "cohortId": str(cohort_id),
        "currentCount": pool.sold,
        "spotsRemaining": pool.free,
        **more,
    }
    await tx.broadcast(f"cohort/{cohort_id}/enrollments", message)


def _who(enrollment: Enrollment) -> dict[str, Any]:
    return {
        "enrollmentId": enrollment["id"],
        "userId": enrollment["user_id"],
        "userEmail": enrollment["email"],
        "cohortId": enrollment["cohort_id"],
        "cohortName": enrollment["cohort_name"],
    }

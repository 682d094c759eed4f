"""Read the delivery reports in the webhooks of Twilio and WhatsApp, and apply them to their messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, cast

from onceward.db import Transaction
from onceward.messages.delivery import KEY, Reported, report_deliveries
from onceward.messages.parking import queue_of
from onceward.statements import read_statement
from onceward.work import MessageHook, Snooze

IS_SENDING = read_statement("messages", "is_sending")

NOT_OURS: Final = "not_ours"
"""The result of a report about a message that this installation did not send, or that another organization sent."""
PATIENCE = timedelta(minutes=2)
"""A report may arrive before the worker has stored the service's answer, or found the message by a lookup."""
LOOK_AGAIN_S = 5.0

REPORT_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "twilio": tuple(
        f"message.{status}"
        for status in (
            "accepted",
            "scheduled",
            "queued",
            "sending",
            "sent",
            "delivered",
            "undelivered",
            "failed",
            "read",
            "canceled",
        )
    ),
    "whatsapp": tuple(f"status.{status}" for status in ("sent", "delivered", "read", "played", "failed")),
}
"""The event types of each provider that are delivery reports."""
_CHANNELS = {"twilio": "sms", "whatsapp": "whatsapp"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReport:
    """What a webhook of a service says about one message."""

    channel: str
    status: str
    reference: str | None
    key: str | None = None
    to: str | None = None
    error: str | None = None


def is_report(provider: str, type: str) -> bool:
    """Return whether an event of this type is a delivery report."""
    return type in REPORT_TYPES.get(provider, ())


def read_report(provider: str, type: str, payload: Any) -> ServiceReport | None:
    """Return the report in an event, or None if the event names no message."""
    fields = _object(payload)
    if provider == "twilio":
        code = _text(fields.get("ErrorCode"))
        report = ServiceReport(
            channel=_CHANNELS[provider],
            status=type.partition(".")[2],
            reference=_text(fields.get("MessageSid")) or _text(fields.get("SmsSid")),
            to=_text(fields.get("To")),
            error=f"Twilio error {code}"[:100] if code else None,
        )
    else:
        status = _object(fields.get("status"))
        errors = status.get("errors")
        code = _object(cast("list[Any]", errors)[0]).get("code") if isinstance(errors, list) and errors else None
        report = ServiceReport(
            channel=_CHANNELS[provider],
            status=type.partition(".")[2],
            reference=_text(status.get("id")),
            key=_text(status.get("biz_opaque_callback_data")),
            error=None if code is None else f"WhatsApp error {code}"[:100],
        )
    return report if report.reference or KEY.match(report.key or "") else None


async def apply_reports(
    tx: Transaction, received: Sequence[tuple[ServiceReport | None, datetime]], *, hooks: Sequence[MessageHook]
) -> list[Any]:
    """Apply reports, each with the time of its receipt. Return the results of their events: message and state, or `not_ours`."""
    reported = [
        Reported(
            status=report.status, reference=report.reference, key=report.key, channel=report.channel, error=report.error
        )
        for report, _ in received
        if report is not None
    ]
    applied = iter(await report_deliveries(tx, reported, hooks=hooks) if reported else [])
    results: list[Any] = []
    for report, received_at in received:
        one = None if report is None else next(applied)
        if one is not None:
            results.append({"message": one.message, "state": one.state, "changed": one.changed})
            continue
        if report is not None and await _may_be_stored_soon(tx, report, received_at):
            raise Snooze(LOOK_AGAIN_S, "a message is being sent whose reference is not stored yet")
        results.append(NOT_OURS)
    return results


async def _may_be_stored_soon(tx: Transaction, report: ServiceReport, received_at: datetime) -> bool:
    now: datetime = await tx.fetchval("select onceward.now()")
    if now - received_at > PATIENCE:
        return False
    bound = tx.role == "app" and tx.organization is None
    if bound:
        await tx.become_engine()
    sending: bool = await tx.fetchval(IS_SENDING, queue_of(report.channel), report.to)
    if bound:
        await tx.become_app()
    return sending


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= 512 else None

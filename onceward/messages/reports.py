"""Read the delivery reports in the webhooks of services, and apply them to their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, Literal

from onceward.db import Transaction
from onceward.integration import integrations
from onceward.messages.delivery import KEY, DeliveryReport, Reported, act_for, report_deliveries
from onceward.messages.lines import queues_of
from onceward.messages.preferences import opt_out_at_service
from onceward.messages.suppression import suppress_recipient_of
from onceward.statements import read_statement
from onceward.work import MessageHook, Snooze

IS_SENDING = read_statement("messages", "is_sending")

NOT_OURS: Final = "not_ours"
"""The result of a report about a message that this installation did not send, or that another organization sent."""
PATIENCE = timedelta(minutes=2)
"""A report may arrive before the worker has stored the service's answer, or found the message by a lookup."""
LOOK_AGAIN_S = 5.0

Consequence = Literal["bounce", "complaint", "opt_out"]
"""What a report means for later messages: the address is suppressed, or the person gets no more messages on the
channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReport:
    """What a webhook of a service says about one message."""

    channel: str
    status: str
    reference: str | None
    key: str | None = None
    to: str | None = None
    error: str | None = None
    consequence: Consequence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReports:
    """What an integration declares as its delivery reports: the event types, and how one is read.

    `read` gets the type and the payload. It returns a report with neither a reference nor a key if the event names no
    message.
    """

    types: tuple[str, ...]
    read: Callable[[str, Any], ServiceReport]


@cache
def delivery_reports() -> Mapping[str, DeliveryReports]:
    """Return the delivery reports of the installed integrations, by provider."""
    return {each.name: integrations().load(each.name, "reports") for each in integrations().having("reports")}


def is_report(provider: str, type: str) -> bool:
    """Return whether an event of this type is a delivery report."""
    declared = delivery_reports().get(provider)
    return declared is not None and type in declared.types


def read_report(provider: str, type: str, payload: Any) -> ServiceReport | None:
    """Return the report in an event, or None if the event names no message."""
    report = delivery_reports()[provider].read(type, payload)
    return report if report.reference or KEY.match(report.key or "") else None


def text_of(value: Any) -> str | None:
    """Return a text that can be the reference of a message."""
    return value if isinstance(value, str) and 0 < len(value) <= 512 else None


async def apply_reports(
    tx: Transaction, received: Sequence[tuple[ServiceReport | None, datetime]], *, hooks: Sequence[MessageHook]
) -> list[Any]:
    """Apply reports, each with the time of its receipt.

    Return the results of their events: message and state, or `not_ours`.
    """
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
        if report is not None and one is not None:
            await _follow(tx, report, one)
            results.append({"message": one.message, "state": one.state, "changed": one.changed})
            continue
        if report is not None and await _may_be_stored_soon(tx, report, received_at):
            raise Snooze(LOOK_AGAIN_S, "a message is being sent whose reference is not stored yet")
        results.append(NOT_OURS)
    return results


async def _follow(tx: Transaction, report: ServiceReport, applied: DeliveryReport) -> None:
    """Stop later messages to the recipient, in the organization of the message. A repeated report changes nothing."""
    if report.consequence is None:
        return
    is_platform = tx.role == "app" and tx.organization is None
    if is_platform:
        await tx.become_engine()
        await act_for(tx, applied.organization)
    if report.consequence == "opt_out":
        await opt_out_at_service(tx, applied.recipient, applied.channel, message=applied.message)
    else:
        await suppress_recipient_of(tx, applied.message, reason=report.consequence, source="service")
    if is_platform:
        await act_for(tx, None)
        await tx.become_app()


async def _may_be_stored_soon(tx: Transaction, report: ServiceReport, received_at: datetime) -> bool:
    now: datetime = await tx.fetchval("select onceward.now()")
    if now - received_at > PATIENCE:
        return False
    bound = tx.role == "app" and tx.organization is None
    if bound:
        await tx.become_engine()
    sending: bool = await tx.fetchval(IS_SENDING, queues_of(report.channel), report.to)
    if bound:
        await tx.become_app()
    return sending

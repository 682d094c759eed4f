"""Delivery reports of services: sent, delivered, read, failed. A report also settles a message whose outcome was
unknown.

queued ──▶ sent ──▶ delivered ──▶ read      never back; a report may skip states
   └────────┴──▶ failed                      final
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args
from uuid import UUID

from onceward.db import Transaction
from onceward.errors import OncewardError
from onceward.statements import read_statement
from onceward.work import MessageHook

LOCK = read_statement("messages", "lock_reported")
APPLY = read_statement("messages", "apply_reports")

DeliveryState = Literal["queued", "sent", "delivered", "read", "failed"]
HookState = Literal["sent", "delivered", "read", "failed"]

STATES: dict[str, DeliveryState] = {
    "accepted": "queued",
    "scheduled": "queued",
    "queued": "queued",
    "sending": "queued",
    "sent": "sent",
    "delivered": "delivered",
    "read": "read",
    "opened": "read",
    "played": "read",
    "failed": "failed",
    "undelivered": "failed",
    "bounced": "failed",
    "canceled": "failed",
}
"""Our state for each status that a service reports."""
ORDER: tuple[DeliveryState, ...] = ("queued", "sent", "delivered", "read")
FAILED = "the service reported that it could not be delivered"
KEY = re.compile(r"^message:(\d{1,18}):send$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """A message that has reached a state. `@app.on_message(state)` hooks receive it, once per message and state."""

    message: int
    """The id of the message."""
    key: str
    """The key that the message was sent with."""
    template: str
    channel: str
    recipient: str = field(repr=False)
    organization: UUID | None
    state: DeliveryState
    previous: DeliveryState | None
    """The state before the report; None if the service had not reported anything."""
    reference: str | None
    """The id of the message at the service."""
    error: str | None = None
    """Why it failed, as the service says it."""
    changed: bool = True
    """False for a repeated or late report, which changes nothing and runs no hook."""


def hook_state(state: str) -> HookState:
    """Return the state of a hook. Raise ValueError if there is no such state."""
    for each in get_args(HookState):
        if each == state:
            return each
    raise ValueError(f"on_message({state!r}): the state must be {', '.join(get_args(HookState))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a service says about a message, which its reference at the service or our key names."""

    status: str
    reference: str | None = None
    key: str | None = None
    channel: str | None = None
    error: str | None = None

    @property
    def id(self) -> int | None:
        match = KEY.match(self.key or "")
        return int(match[1]) if match else None

    def check(self) -> None:
        if self.status not in STATES:
            raise ValueError(f"status {self.status!r} is not a delivery status: use one of {', '.join(STATES)}")
        if self.reference is None and self.id is None:
            raise ValueError("the report names no message: give reference, or a key of the form message:ID:send")


class ApplyOneByOne(OncewardError):
    """Several reports cannot share a transaction: one has a hook, which needs the transaction of its own event."""


async def report_delivery(
    tx: Transaction,
    *,
    status: str,
    reference: str | None = None,
    key: str | None = None,
    channel: str | None = None,
    error: str | None = None,
    hooks: Sequence[MessageHook] = (),
) -> DeliveryReport | None:
    """Apply a report to the message with this reference of the service or this key of ours, and run its hooks.

    Return None if the message does not exist or belongs to another organization. A transaction without an organization,
    such as that of an event from a platform-wide source, reaches the messages of all organizations.
    """
    reported = Reported(status=status, reference=reference, key=key, channel=channel, error=error)
    [applied] = await report_deliveries(tx, [reported], hooks=hooks)
    return applied


async def report_deliveries(
    tx: Transaction, reported: Sequence[Reported], *, hooks: Sequence[MessageHook] = ()
) -> list[DeliveryReport | None]:
    """Apply reports in their order, as `report_delivery` does with one.

    Raise `ApplyOneByOne` if one of several has a hook.
    """
    for each in reported:
        each.check()
    is_platform = tx.role == "app" and tx.organization is None
    if is_platform:
        await tx.become_engine()
    rows = await tx.fetch(
        LOCK,
        [each.reference for each in reported],
        [each.id for each in reported],
        [each.channel for each in reported],
    )
    applied = _advance(reported, rows)
    if len(reported) > 1 and any(
        report is not None and report.changed and _due_hooks(report, hooks) for _, report in applied
    ):
        raise ApplyOneByOne
    changed = list({id(each): each for each, report in applied if report is not None and report.changed}.values())
    if changed:
        columns = zip(*sorted(message.columns for message in changed if message is not None), strict=True)
        await tx.execute(APPLY, *(list(column) for column in columns))
    if is_platform:
        await tx.become_app()
    for _, report in applied:
        if report is not None and report.changed:
            await run_message_hooks(tx, report, hooks)
    return [report for _, report in applied]


def _advance(reported: Sequence[Reported], rows: Sequence[Any]) -> list[tuple[_Message | None, DeliveryReport | None]]:
    """Move the messages through the reports, in order, and return what each report did to which message."""
    messages = {row["id"]: _Message(row) for row in rows}
    numbered = {row["number"]: messages[row["id"]] for row in rows}
    named = {message.reference: message for message in messages.values() if message.reference is not None}
    applied: list[tuple[_Message | None, DeliveryReport | None]] = []
    for number, each in enumerate(reported, start=1):
        # An earlier report of this call may have brought the reference.
        message = numbered.get(number) or named.get(each.reference or "")
        if message is None:
            applied.append((None, None))
            continue
        applied.append((message, message.apply(each)))
        if message.reference is not None:
            named[message.reference] = message
    return applied


class _Message:
    """A message while reports are applied to it."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.reference: str | None = row["reference"]
        self.status: str = row["status"]
        self.delivery: DeliveryState | None = row["delivery"]
        self.reason: str | None = row["reason"]
        self.is_settled = False

    @property
    def columns(self) -> tuple[Any, ...]:
        """Return the values for `APPLY`; the id leads."""
        return (self.row["id"], self.delivery, self.reference, self.status, self.reason, self.is_settled)

    def apply(self, reported: Reported) -> DeliveryReport:
        state = STATES[reported.status]
        waits = self.status == "success" and self.delivery in (None, "queued")
        previous: DeliveryState | None = "sent" if waits else self.delivery
        changed = is_advance(previous, state)
        if changed:
            self._move(state, reported)
        row = self.row
        return DeliveryReport(
            message=row["id"],
            key=row["key"],
            template=row["template"],
            channel=row["channel"],
            recipient=row["recipient"],
            organization=row["organization_id"],
            state=state,
            previous=previous,
            reference=self.reference or reported.reference,
            error=reported.error,
            changed=changed,
        )

    def _move(self, state: DeliveryState, reported: Reported) -> None:
        settles = self.status == "unknown" and state != "queued"
        if state == "failed":
            self.reason = reported.error or FAILED
        elif settles:
            self.reason = None
        if settles:
            self.status = "failed" if state == "failed" else "success"
            self.is_settled = state != "failed"
        self.delivery = state
        self.reference = self.reference or reported.reference


def is_advance(previous: str | None, state: DeliveryState) -> bool:
    """Return whether a report moves a message: forward only.

    "read" and "failed" are final; what was delivered cannot fail.
    """
    if previous in ("read", "failed") or (previous == "delivered" and state != "read"):
        return False
    order: tuple[Any, ...] = (*ORDER, "failed")
    return previous not in order or order.index(state) > order.index(previous)


def _due_hooks(report: DeliveryReport, hooks: Sequence[MessageHook]) -> list[tuple[DeliveryState, MessageHook]]:
    """Return the hooks of each state that the message has reached."""
    return [
        (state, hook)
        for state in reached(report.previous, report.state)
        for hook in hooks
        if hook.state == state and hook.template in (None, report.template)
    ]


async def run_message_hooks(tx: Transaction, report: DeliveryReport, hooks: Sequence[MessageHook]) -> None:
    """Run the hooks of each state that the message has reached, in the message's organization."""
    due = _due_hooks(report, hooks)
    if not due:
        return
    elsewhere = tx.organization is None and report.organization is not None
    if elsewhere:
        await act_for(tx, report.organization)
    for state, hook in due:
        await hook.run(tx, replace(report, state=state))
    if elsewhere:
        await act_for(tx, None)


async def act_for(tx: Transaction, organization: UUID | None) -> None:
    """Let the transaction act for an organization from here on."""
    await tx.execute("select set_config('onceward.organization', $1, true)", str(organization or ""))
    tx.organization = organization


def reached(previous: str | None, state: DeliveryState) -> tuple[DeliveryState, ...]:
    """Return the states between two reports: a message that was read was also delivered."""
    if state == "failed":
        return (state,)
    names: tuple[Any, ...] = ORDER
    first = names.index(previous) + 1 if previous in names else 0
    return ORDER[first : ORDER.index(state) + 1]

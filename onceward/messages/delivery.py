"""Delivery reports of services: sent, delivered, read, failed. A report also settles a message whose outcome was unknown.

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
from onceward.statements import read_statement
from onceward.work import MessageHook

REPORT = read_statement("messages", "report_delivery")

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
    if status not in STATES:
        raise ValueError(f"status {status!r} is not a delivery status: use one of {', '.join(STATES)}")
    match = KEY.match(key or "")
    id = int(match[1]) if match else None
    if reference is None and id is None:
        raise ValueError("the report names no message: give reference, or a key of the form message:ID:send")
    bound = tx.role == "app" and tx.organization is None
    if bound:
        await tx.become_engine()
    row = await tx.fetchrow(REPORT, reference, id, STATES[status], channel, error)
    if bound:
        await tx.become_app()
    if row is None:
        return None
    report = DeliveryReport(
        message=row["id"],
        key=row["key"],
        template=row["template"],
        channel=row["channel"],
        recipient=row["recipient"],
        organization=row["organization_id"],
        state=STATES[status],
        previous=row["previous"],
        reference=row["reference"],
        error=error,
        changed=row["changed"],
    )
    if report.changed:
        await run_message_hooks(tx, report, hooks)
    return report


async def run_message_hooks(tx: Transaction, report: DeliveryReport, hooks: Sequence[MessageHook]) -> None:
    """Run the hooks of each state that the message has reached, in the message's organization."""
    due = [
        (state, hook)
        for state in reached(report.previous, report.state)
        for hook in hooks
        if hook.state == state and hook.template in (None, report.template)
    ]
    if not due:
        return
    elsewhere = tx.organization is None and report.organization is not None
    if elsewhere:
        await _act_for(tx, report.organization)
    for state, hook in due:
        await hook.run(tx, replace(report, state=state))
    if elsewhere:
        await _act_for(tx, None)


async def _act_for(tx: Transaction, organization: UUID | None) -> None:
    await tx.execute("select set_config('onceward.organization', $1, true)", str(organization or ""))
    tx.organization = organization


def reached(previous: str | None, state: DeliveryState) -> tuple[DeliveryState, ...]:
    """Return the states between two reports: a message that was read was also delivered."""
    if state == "failed":
        return (state,)
    names: tuple[Any, ...] = ORDER
    first = names.index(previous) + 1 if previous in names else 0
    return ORDER[first : ORDER.index(state) + 1]

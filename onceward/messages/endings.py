"""Tell the hooks of an app how a message ended, in the commit of its outcome."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast
from uuid import UUID

from onceward.db import Transaction
from onceward.messages.delivery import DeliveryReport, DeliveryState
from onceward.statements import read_statement
from onceward.work import EndOutcome, JobEnd, MessageHook

LOAD = read_statement("messages", "load_ended")
ENDED = "ended"
"""The state of a hook that runs at every end."""
AT_THE_END = frozenset({"sent", "failed", ENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageEnd:
    """How the sending of a message ended. What its service reports afterwards is a `DeliveryReport`."""

    id: int
    key: str
    template: str
    channel: str
    recipient: str = field(repr=False)
    organization: UUID | None
    outcome: EndOutcome | Literal["expired"]
    """`expired` (its time had passed), `success` (sent), `dead_letter`, `failed`, `cancelled` (also without an
    address, or opted out), `discarded`, `unknown`."""
    reason: str | None
    error: str | None = field(repr=False)
    attempts: int
    reference: str | None
    """The id of the message at the service."""


def message_end_hook(hooks: Sequence[MessageHook]) -> Callable[[Transaction, JobEnd], Awaitable[None]] | None:
    """Return the function that runs at the end of a message, or None if no hook needs it."""
    if not any(hook.state in AT_THE_END for hook in hooks):
        return None

    async def ended(tx: Transaction, end: JobEnd) -> None:
        row = await tx.fetchrow(LOAD, end.id)
        if row is None:  # the message was deleted while the hook waited
            return
        message = _message(end, row)
        for hook in hooks:
            if hook.state == ENDED and hook.template in (None, message.template):
                await hook.run(tx, message)
        await _run_states(tx, message, end.arguments.get("delivery"), hooks)

    return ended


def _message(end: JobEnd, row: Any) -> MessageEnd:
    result = _object(end.result)
    suppressed: str | None = result.get("suppressed")
    return MessageEnd(
        id=end.id,
        key=end.arguments["key"],
        template=end.arguments["template"],
        channel=end.arguments["channel"],
        recipient=row["recipient"],
        organization=end.organization,
        outcome=end.outcome if suppressed is None else "expired" if suppressed == "expired" else "cancelled",
        reason=end.reason if suppressed is None else suppressed,
        error=end.error,
        attempts=end.attempts,
        reference=result.get("reference") or row["reference"],
    )


async def _run_states(
    tx: Transaction, message: MessageEnd, delivery: DeliveryState | None, hooks: Sequence[MessageHook]
) -> None:
    """Run the hooks of `sent` or `failed`, unless a report of the service came first and has run them."""
    match message.outcome:
        case "success" if delivery in (None, "queued"):
            state: DeliveryState = "sent"
        case "dead_letter" | "failed" if delivery != "failed":
            state = "failed"
        case _:
            return
    report = DeliveryReport(
        message=message.id,
        key=message.key,
        template=message.template,
        channel=message.channel,
        recipient=message.recipient,
        organization=message.organization,
        state=state,
        previous=delivery,
        reference=message.reference,
        error=message.error if state == "failed" else None,
    )
    for hook in hooks:
        if hook.state == state and hook.template in (None, message.template):
            await hook.run(tx, report)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

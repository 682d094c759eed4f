"""At the door: a ticket admits once. A scan that is sent again, because the network failed, gets its first result."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing.codes import read_presented
from onceward_apps.ticketing.store import keys, views

Verdict = Literal["admitted", "already_used", "void", "unknown", "wrong_event", "forged", "frozen"]


@dataclass(frozen=True, slots=True)
class Scan:
    """The result shown to the staff at the door. `used_at` and `used_gate` say when and where the ticket was used before."""

    outcome: Verdict
    code: str | None = None
    place: str | None = None
    holder: str | None = None
    used_at: datetime | None = None
    used_gate: str | None = None


async def scan(tx: Tx, event_id: UUID, presented: str, *, scan_id: UUID, gate: str, by: str) -> Scan:
    """Check a presented ticket and mark a valid one as used. Requests with the same `scan_id` are one scan."""
    before = await views.scan(tx, scan_id)
    if before is not None:
        return await _again(tx, before)
    key = await keys.signing_key(tx)
    read = read_presented(key, event_id, presented)
    if read is None:
        return await _keep(tx, Scan("unknown"), None, event_id, scan_id, gate, by)
    ticket = await views.ticket_to_scan(tx, read.code)
    if ticket is None:
        return await _keep(tx, Scan("unknown", read.code), None, event_id, scan_id, gate, by)
    before = await views.scan(
        tx, scan_id
    )  # checked again under the ticket's lock: the same scan may have been in progress
    if before is not None:
        return await _again(tx, before)
    shown = {"code": read.code, "place": ticket["place"], "holder": ticket["holder_name"]}
    if ticket["event_id"] != event_id:
        return await _keep(tx, Scan("wrong_event", **shown), ticket["id"], event_id, scan_id, gate, by)
    if read.signed and not read.genuine:
        return await _keep(tx, Scan("forged", read.code), ticket["id"], event_id, scan_id, gate, by)
    if ticket["status"] == "void" or ticket["is_cancelled"]:
        return await _keep(tx, Scan("void", **shown), ticket["id"], event_id, scan_id, gate, by)
    if ticket["frozen_at"] is not None:  # the payment is disputed
        return await _keep(tx, Scan("frozen", **shown), ticket["id"], event_id, scan_id, gate, by)
    if ticket["status"] == "scanned":
        used = Scan("already_used", **shown, used_at=ticket["scanned_at"], used_gate=ticket["scanned_gate"])
        return await _keep(tx, used, ticket["id"], event_id, scan_id, gate, by)
    at = await views.admit(tx, ticket["id"], gate)
    await tx.publish(
        "ticket.scanned",
        {
            "ticket_id": ticket["id"],
            "event_id": event_id,
            "organization_id": tx.organization,
            "gate": gate,
            "scanned_at": at,
        },
        key=f"ticket:{ticket['id']}:scanned",
    )
    return await _keep(
        tx, Scan("admitted", **shown, used_at=at, used_gate=gate), ticket["id"], event_id, scan_id, gate, by
    )


async def _keep(
    tx: Tx, result: Scan, ticket_id: UUID | None, event_id: UUID, scan_id: UUID, gate: str, by: str
) -> Scan:
    await views.add_scan(tx, scan_id, ticket_id, event_id, result.outcome, gate, by)
    return result


async def _again(tx: Tx, before: Any) -> Scan:
    ticket = None if before["ticket_id"] is None else await views.ticket(tx, before["ticket_id"])
    if ticket is None or before["outcome"] == "forged":
        return Scan(before["outcome"])
    return Scan(
        before["outcome"],
        ticket["ticket_code"],
        ticket["label"] or ticket["section"],
        ticket["holder_name"],
        ticket["scanned_at"],
        ticket["scanned_gate"],
    )

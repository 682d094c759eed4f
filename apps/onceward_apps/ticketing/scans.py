"""At the door: a ticket admits once. A scan that is sent again, because the network failed, gets its first result.

A device without a network judges tickets itself and sends its scans later (`was_offline`). What it did cannot be undone
then: a guest with a ticket that was used elsewhere is inside. Such scans are recorded and reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing import notices
from onceward_apps.ticketing.codes import read_presented
from onceward_apps.ticketing.errors import Invalid, NotFound, NotUndone
from onceward_apps.ticketing.store import doors, keys, views

Verdict = Literal[
    "admitted",
    "readmitted",
    "left",
    "not_inside",
    "already_used",
    "void",
    "unknown",
    "wrong_event",
    "forged",
    "frozen",
    "too_early",
    "too_late",
    "addon",
]
Direction = Literal["in", "out"]
LETS_IN: tuple[Verdict, ...] = ("admitted", "readmitted")
INSIDE: dict[Verdict, tuple[int, int]] = {"admitted": (1, 1), "readmitted": (0, 1), "left": (0, -1)}
"""What each scan adds to the counters: tickets used, guests inside."""
OLDEST = timedelta(days=7)
"""How long a device may keep a scan before it sends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A scan as a device sends it: what was `presented`, or the ticket that was chosen from the list by name.

    `let_in` says what a device without a network decided (`was_offline`); `taken_at` is its time.
    """

    scan_id: UUID
    presented: str = ""
    ticket_id: UUID | None = None
    gate: str = ""
    direction: Direction = "in"
    was_offline: bool = False
    let_in: bool = False
    taken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """The result shown to the staff at the door. `used_at` and `used_gate` say when and where the ticket was used
    before.

    `was_let_in`: the guest is inside although the ticket does not admit, because the device had no network.
    """

    outcome: Verdict
    code: str | None = None
    place: str | None = None
    holder: str | None = None
    used_at: datetime | None = None
    used_gate: str | None = None
    was_let_in: bool = False
    ticket_id: UUID | None = None


async def scan(tx: Tx, event_id: UUID, request: Request, *, by: str, door_id: UUID | None = None) -> Scan:
    """Check a presented ticket and mark a valid one as used. Requests with the same `scan_id` are one scan."""
    before = await doors.scan(tx, request.scan_id)
    if before is not None:
        return await _again(tx, event_id, before, request)
    now = await tx.fetchval("select onceward.clock()")
    at = now if request.taken_at is None else max(min(request.taken_at, now), now - OLDEST)
    ticket, result = await _found(tx, event_id, request)
    if ticket is not None:
        # Looked up again under the ticket's lock: the same scan may have been in progress.
        before = await doors.scan(tx, request.scan_id)
        if before is not None:
            return await _again(tx, event_id, before, request)
        result = result or await _moved(tx, event_id, ticket, request, at)
    assert result is not None
    was_let_in = request.was_offline and request.let_in and result.outcome not in LETS_IN
    if was_let_in:
        result = Scan(**{**_fields(result), "was_let_in": True})
        await notices.let_in_wrongly(tx, event_id, request.gate, result.outcome)
    await doors.add_scan(
        tx,
        request.scan_id,
        None if ticket is None else ticket["id"],
        event_id,
        result.outcome,
        request.gate,
        by,
        door_id,
        at,
        request.was_offline,
        was_let_in or result.outcome in LETS_IN,
    )
    if result.outcome in INSIDE:
        await doors.count(tx, event_id, *INSIDE[result.outcome])
    return result


async def undo(tx: Tx, event_id: UUID, scan_id: UUID, *, by: str, door_id: UUID | None = None) -> Scan:
    """Take a scan back: a ticket admits again, or its holder is where they were. A repeat changes nothing.

    A door takes back its own scans only. Only the last scan of a ticket can be taken back.
    """
    before = await doors.scan(tx, scan_id)
    if before is None or before["event_id"] != event_id or (door_id is not None and before["door_id"] != door_id):
        raise NotFound(f"there is no scan {scan_id} of this door")
    if before["outcome"] not in INSIDE:
        raise NotUndone(f"the scan changed nothing (it was {before['outcome']}): there is nothing to undo")
    ticket = await doors.ticket_by_id(tx, before["ticket_id"])
    before = await doors.scan(tx, scan_id)  # under the ticket's lock
    if before["undone_at"] is None:
        if await doors.latest_scan(tx, ticket["id"]) != scan_id:
            raise NotUndone("the ticket was scanned again after that: undo the later scan first")
        match before["outcome"]:
            case "admitted" if ticket["status"] == "scanned":
                await doors.take_back(tx, ticket["id"])
            case "readmitted":
                await doors.set_outside(tx, ticket["id"], before["scanned_at"])
            case "left":
                await doors.set_outside(tx, ticket["id"], None)
            case _:
                raise NotUndone("the ticket is no longer valid: its scan stays")
        await doors.undo(tx, scan_id, by)
        entered, inside = INSIDE[before["outcome"]]
        await tx.publish(
            "ticket.scan_undone",
            {
                "ticket_id": ticket["id"],
                "event_id": event_id,
                "organization_id": tx.organization,
                "scan_id": scan_id,
                "outcome": before["outcome"],
            },
            key=f"scan:{scan_id}:undone",
        )
        await tx.audit("scan_undone", entity_type="Ticket", entity_id=ticket["id"], actor=by)
        await doors.count(tx, event_id, -entered, -inside)
    return Scan(
        before["outcome"], ticket["ticket_code"], ticket["place"], ticket["holder_name"], ticket_id=ticket["id"]
    )


async def _found(tx: Tx, event_id: UUID, request: Request) -> tuple[Any, Scan | None]:
    """Return the locked ticket, and a result if what was presented decides it already."""
    if request.ticket_id is not None:
        ticket = await doors.ticket_by_id(tx, request.ticket_id)
        if ticket is None or ticket["event_id"] != event_id:
            raise NotFound(f"there is no ticket {request.ticket_id} of this event")
        return ticket, None
    read = read_presented(await keys.signing_key(tx), event_id, request.presented)
    ticket = None if read is None else await doors.ticket_by_code(tx, read.code)
    if read is None or ticket is None:
        return None, Scan("unknown", None if read is None else read.code)
    if ticket["event_id"] != event_id:
        return ticket, Scan("wrong_event", **_shown(ticket))
    if read.signed and not read.genuine:
        return ticket, Scan("forged", read.code)
    return ticket, None


async def _moved(tx: Tx, event_id: UUID, ticket: Any, request: Request, at: datetime) -> Scan:
    """Judge a ticket of this event, and mark it if its holder goes in or out."""
    outcome = judge(ticket, request.direction, at)
    match outcome:
        case "admitted":
            await doors.admit(tx, ticket["id"], request.gate, at)
            await tx.publish(
                "ticket.scanned",
                {
                    "ticket_id": ticket["id"],
                    "event_id": event_id,
                    "organization_id": tx.organization,
                    "gate": request.gate,
                    "scanned_at": at,
                },
                key=f"scan:{request.scan_id}",
            )
            return Scan("admitted", **_shown(ticket), used_at=at, used_gate=request.gate)
        case "readmitted" | "left":
            await doors.set_outside(tx, ticket["id"], at if outcome == "left" else None)
        case _:
            pass
    return Scan(outcome, **_shown(ticket), used_at=ticket["scanned_at"], used_gate=ticket["scanned_gate"])


def judge(ticket: Any, direction: Direction, at: datetime) -> Verdict:
    """Return what a door does with a ticket of its event. The devices have the same rules (`door_rules.js`)."""
    if ticket["is_addon"]:
        return "addon"
    is_inside = ticket["status"] == "scanned" and ticket["outside_at"] is None
    if direction == "out":
        return "left" if is_inside else "not_inside"
    if ticket["status"] == "void" or ticket["is_cancelled"]:
        return "void"
    if ticket["frozen_at"] is not None:  # the payment is disputed
        return "frozen"
    if is_inside or (ticket["status"] == "scanned" and not ticket["has_reentry"]):
        return "already_used"
    if ticket["doors_open_at"] is not None and at < ticket["doors_open_at"]:
        return "too_early"
    if ticket["doors_close_at"] is not None and at > ticket["doors_close_at"]:
        return "too_late"
    return "readmitted" if ticket["status"] == "scanned" else "admitted"


def _shown(ticket: Any) -> dict[str, Any]:
    return {
        "code": ticket["ticket_code"],
        "place": ticket["place"],
        "holder": ticket["holder_name"],
        "ticket_id": ticket["id"],
    }


def _fields(result: Scan) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Scan.__slots__}


async def _again(tx: Tx, event_id: UUID, before: Any, request: Request) -> Scan:
    """Return the result that a scan had. If that never reached the device, the device has decided itself since then."""
    if before["event_id"] != event_id:
        raise Invalid(f"scan_id {before['id']} is the id of a scan of another event: use a new one")
    if request.was_offline and request.let_in and await doors.let_in(tx, before["id"]):
        before = await doors.scan(tx, before["id"])
        await notices.let_in_wrongly(tx, event_id, request.gate, before["outcome"])
    ticket = None if before["ticket_id"] is None else await views.ticket(tx, before["ticket_id"])
    if ticket is None or before["outcome"] == "forged":
        return Scan(before["outcome"])
    return Scan(
        before["outcome"],
        ticket["ticket_code"],
        ticket["place"],
        ticket["holder_name"],
        ticket["scanned_at"],
        ticket["scanned_gate"],
        was_let_in=before["let_in"] and before["outcome"] not in LETS_IN,
        ticket_id=ticket["id"],
    )

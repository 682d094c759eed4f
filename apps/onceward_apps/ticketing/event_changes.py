"""Change an event that exists: texts and limits, date, prices, places; repeat it on other dates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg

from onceward import Tx
from onceward.capacity import look, resize
from onceward_apps.ticketing import disputes
from onceward_apps.ticketing.errors import Exists, Invalid, NotFound, NotOnSale
from onceward_apps.ticketing.event_setup import (
    NewEvent,
    Section,
    TicketType,
    add_event,
    add_section,
    block_seats,
    check_amount,
    check_offset,
    check_prices,
    check_times,
    check_window,
    platform_fee,
)
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.store import sale_terms, setup
from onceward_apps.ticketing.workflows import tell_moved

MOST_DATES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What an organizer may change of an event at any time. Orders that exist keep their terms."""

    name: str
    description: str
    refund_policy: str
    support_contact: str
    most_per_order: int
    hold_s: int
    checkout_s: int
    alert_percent: int
    doors_open_at: datetime | None
    doors_close_at: datetime | None
    has_reentry: bool
    offer_s: int
    has_resale: bool
    cancel_hours: int | None
    sale_from: datetime | None
    sale_until: datetime | None
    most_per_customer: int | None
    group_from: int | None
    group_bps: int | None


async def details_of(tx: Tx, event_id: UUID) -> Details | None:
    event = await setup.event(tx, event_id)
    return None if event is None else _details(event)


async def edit(tx: Tx, event_id: UUID, *, actor: str, **changed: Any) -> Any:
    """Change some of the details of an event; the others stay."""
    event = await setup.lock_event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    before = _details(event)
    after = replace(before, **changed)
    if not after.name.strip():
        raise Invalid("name is empty: an event needs a name")
    _check_door_times(after)
    check_window("the event", after.sale_from, after.sale_until)
    if (after.group_from is None) != (after.group_bps is None):
        raise Invalid("group_from and group_bps belong together: give both, or neither for no group discount")
    if after != before:
        names = [field.name for field in fields(Details)]
        try:
            await setup.edit_event(tx, event_id, *(getattr(after, name) for name in names))
        except asyncpg.UniqueViolationError:
            raise Exists(f"there is already an event {after.name!r} at this venue and time") from None
        await tx.audit(
            "event_changed",
            entity_type="Event",
            entity_id=event_id,
            changes={
                name: {"from": getattr(before, name), "to": getattr(after, name)}
                for name in names
                if getattr(before, name) != getattr(after, name)
            },
            actor=actor,
        )
    return await setup.event(tx, event_id)


async def edit_series(tx: Tx, event_id: UUID, *, actor: str, **changed: Any) -> list[Any]:
    """Change an event, and the later dates of its series in the same way. What stays as it is here stays there too.

    Times are as long before the start of each date as here. A date that was cancelled does not change.
    """
    event = await setup.event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    changed = {name: value for name, value in changed.items() if value != event[name]}
    edited = [await edit(tx, event_id, actor=actor, **changed)]
    for date in await setup.later_dates(tx, event):
        later = date["starts_at"] - event["starts_at"]
        times = {name: at + later for name, at in changed.items() if name in TIMES and at is not None}
        edited.append(await edit(tx, date["id"], actor=actor, **{**changed, **times}))
    return edited


def _check_door_times(details: Details) -> None:
    for name in ("doors_open_at", "doors_close_at"):
        if (at := getattr(details, name)) is not None:
            check_offset(name, at)
    opens, closes = details.doors_open_at, details.doors_close_at
    if opens is not None and closes is not None and closes <= opens:
        raise Invalid(f"doors_close_at {closes.isoformat()} must be after doors_open_at {opens.isoformat()}")


def _details(event: Any) -> Details:
    return Details(**{field.name: event[field.name] for field in fields(Details)})


async def move(
    tx: Tx,
    event_id: UUID,
    *,
    starts_at: datetime,
    ends_at: datetime,
    reason: str,
    refund_until: datetime | None,
    actor: str,
) -> Any:
    """Move an event to another date. Tickets stay valid, and a workflow mails everybody who has one.

    Until `refund_until`, buyers from before the change may take their money back on the page of their order. A repeat
    changes nothing.
    """
    check_times(starts_at, ends_at)
    event = await setup.lock_event_whole(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if event["status"] == "cancelled":
        raise NotOnSale(f"{event['name']} is cancelled: it cannot be moved")
    if starts_at <= event["now"]:
        raise Invalid(f"starts_at {starts_at.isoformat()} is in the past")
    if refund_until is not None:
        check_offset("refund_until", refund_until)
        if refund_until <= event["now"]:
            raise Invalid(f"refund_until {refund_until.isoformat()} is in the past")
    if (event["starts_at"], event["ends_at"]) == (starts_at, ends_at):
        return await setup.event(tx, event_id)
    try:
        version = await setup.move_event(tx, event_id, starts_at, ends_at, reason, refund_until)
    except asyncpg.UniqueViolationError:
        raise Exists(f"there is already an event {event['name']!r} at this venue that starts at {starts_at}") from None
    if event["status"] != "draft":
        order = tell_moved.unique(f"event:{event_id}:moved:{version}").attributes(event=str(event_id))
        await tx.start_workflow(order, event_id=event_id, version=version)
        await tx.publish(
            "event.moved",
            {
                "event_id": event_id,
                "organization_id": tx.organization,
                "name": event["name"],
                "moved_from": event["starts_at"],
                "starts_at": starts_at,
                "ends_at": ends_at,
                "reason": reason,
            },
            key=f"event:{event_id}:moved:{version}",
        )
    await tx.audit(
        "event_moved",
        entity_type="Event",
        entity_id=event_id,
        changes={"starts_at": {"from": event["starts_at"].isoformat(), "to": starts_at.isoformat()}},
        reason=reason,
        actor=actor,
    )
    return await setup.event(tx, event_id)


async def duplicate(
    tx: Tx, event_id: UUID, starts: Sequence[datetime], *, name: str | None = None, actor: str
) -> list[Any]:
    """Repeat an event on other dates, as drafts: same duration, seats, blocked seats, prices and texts, nothing sold.

    Under the same name, they are a series: `edit_series` changes its later dates together.
    """
    if not 1 <= len(starts) <= MOST_DATES:
        raise Invalid(f"starts_at has {len(starts)} dates: give 1 to {MOST_DATES}")
    event = await setup.event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    types = await sale_terms.types(tx, event_id)
    blocked = await setup.blocked_seats(tx, event_id)
    sections = [await _copied(tx, event_id, row, types) for row in await setup.sections(tx, event_id)]
    for start in starts:
        check_offset("starts_at", start)
    copy = NewEvent(
        venue_id=event["venue_id"],
        starts_at=starts[0],
        ends_at=starts[0],
        currency=event["currency"],
        sections=sections,
        policy=Policy(
            fee_bps=await platform_fee(tx),
            fee_paid_by=event["fee_paid_by"],
            tax_bps=event["tax_bps"],
            tax_included=event["tax_included"],
        ),
        name=name or event["name"],
        description=event["description"],
        hold_s=event["hold_s"],
        checkout_s=event["checkout_s"],
        most_per_order=event["most_per_order"],
        refund_policy=event["refund_policy"],
        support_contact=event["support_contact"],
        jurisdiction=event["jurisdiction"],
        tax_category=event["tax_category"] or "standard",
    )
    lasts = event["ends_at"] - event["starts_at"]
    made: list[Any] = []
    for start in starts:
        later = start - event["starts_at"]
        there = [replace(each, **_moved(each, later)) for each in sections]
        added = await add_event(tx, replace(copy, starts_at=start, ends_at=start + lasts, sections=there), actor=actor)
        for row in await sale_terms.questions(tx, event_id):
            asked = (row["title"], row["about"], row["choices"], row["is_required"])
            await sale_terms.add_question(tx, added["id"], *asked)
        if blocked:
            await block_seats(tx, added["id"], blocked, actor=actor)
        await disputes.set_policy(tx, added["id"], event["dispute_policy"], actor=actor)
        made.append(await edit(tx, added["id"], actor=actor, **_copied_details(event, later)))
    if copy.name == event["name"]:
        await setup.join_series(tx, event["series_id"] or event_id, [event_id, *(each["id"] for each in made)])
    return made


TIMES = ("doors_open_at", "doors_close_at", "sale_from", "sale_until")
"""The details of an event that are as long before the start of its copies."""
COPIED = (
    "alert_percent",
    "has_reentry",
    "has_resale",
    "cancel_hours",
    "offer_s",
    "most_per_customer",
    "group_from",
    "group_bps",
)


def _copied_details(event: Any, later: timedelta) -> dict[str, Any]:
    times = {name: None if event[name] is None else event[name] + later for name in TIMES}
    return {**times, **{name: event[name] for name in COPIED}}


def _moved(section: Section, later: timedelta) -> dict[str, Any]:
    return {
        name: None if (at := getattr(section, name)) is None else at + later for name in ("sale_from", "sale_until")
    }


async def _copied(tx: Tx, event_id: UUID, section: Any, types: Sequence[Any]) -> Section:
    copy = Section(
        name=section["name"],
        price_cents=section["price_cents"],
        places=1,
        is_hidden=section["is_hidden"],
        sale_from=section["sale_from"],
        sale_until=section["sale_until"],
        types=[
            TicketType(name=row["name"], price_cents=row["price_cents"], is_hidden=row["is_hidden"])
            for row in types
            if row["section_id"] == section["id"] and row["ended_at"] is None
        ],
    )
    if section["kind"] != "seated":
        pool = await look(tx, await setup.pool_of(tx, section["id"]))
        return replace(copy, places=pool.capacity, is_addon=section["kind"] == "addon")
    rows = {
        row["row_name"]: row["seats"]
        for row in await setup.seat_rows(tx, event_id)
        if row["section_id"] == section["id"]
    }
    return replace(copy, rows=rows, places=None)


async def add_to(tx: Tx, event_id: UUID, section: Section, *, actor: str) -> None:
    """Add a section to an event, which may be on sale."""
    event = await setup.lock_event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if event["status"] == "cancelled":
        raise NotOnSale(f"{event['name']} is cancelled")
    check_prices(section, event["currency"])
    await add_section(tx, event_id, section)
    await tx.audit(
        "section_added", entity_type="Event", entity_id=event_id, changes={"section": section.name}, actor=actor
    )


async def change_section(
    tx: Tx, section_id: UUID, *, price_cents: int | None = None, places: int | None = None, actor: str
) -> None:
    """Change the price of a section, or the number of places of one without seats.

    Checkouts that were started keep their price. There can never be fewer places than are sold and held.
    """
    section = await setup.lock_section(tx, section_id)
    if section is None:
        raise NotFound(f"there is no section {section_id}")
    changes: dict[str, Any] = {}
    if price_cents is not None and price_cents != section["price_cents"]:
        check_amount(f"section {section['name']!r}: price_cents", price_cents, section["currency"])
        await setup.set_price(tx, section_id, price_cents)
        changes["price_cents"] = {"from": section["price_cents"], "to": price_cents}
    if places is not None:
        changes |= await _set_places(tx, section, places)
    if changes:
        changes["section"] = section["name"]
        await tx.audit(
            "section_changed", entity_type="Event", entity_id=section["event_id"], changes=changes, actor=actor
        )


async def change_sections(
    tx: Tx, section_id: UUID, *, price_cents: int | None = None, places: int | None = None, actor: str
) -> int:
    """Change a section, and those of the same name of the later dates of the series. Return how many."""
    section = await setup.lock_section(tx, section_id)
    if section is None:
        raise NotFound(f"there is no section {section_id}")
    ids = [section_id, *await setup.later_sections(tx, section)]
    for id in ids:
        await change_section(tx, id, price_cents=price_cents, places=places, actor=actor)
    return len(ids)


async def _set_places(tx: Tx, section: Any, places: int) -> dict[str, Any]:
    if section["kind"] == "seated":
        raise Invalid(f"section {section['name']!r} has numbered seats: block seats, or add a section")
    key = await setup.pool_of(tx, section["id"])
    before = (await look(tx, key)).capacity or 0
    if places == before:
        return {}
    # Resized before the count: no buyer takes a place in between.
    pool = await resize(tx, key, capacity=places)
    if places < pool.held + pool.sold:
        raise Invalid(
            f"places is {places}: {pool.sold} places of {section['name']!r} are sold and {pool.held} held at the moment"
        )
    if section["kind"] != "addon":
        await setup.grow(tx, section["event_id"], places - before)
    return {"places": {"from": before, "to": places}}

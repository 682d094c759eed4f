"""Actions of an organizer: add an event with seat map and ledger accounts, put it on sale, block seats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import asyncpg

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, held_by, open_pool, release
from onceward.ledger import open_account
from onceward_apps.ticketing.app import TicketingSettings, app
from onceward_apps.ticketing.currencies import SERVICES, is_taken_by, step
from onceward_apps.ticketing.errors import Exists, Invalid, NotFound, NotOnSale, SeatTaken
from onceward_apps.ticketing.jurisdictions import rule_of
from onceward_apps.ticketing.model import ACCOUNTS, Policy, addon_group, pool_group, revenue_account, seat_label
from onceward_apps.ticketing.store import keys, sale_terms, setup

MOST_ROWS = 2000
MOST_SEATS_IN_ROW = 500
TRANSITIONS = {
    "draft": {"on_sale"},
    "on_sale": {"closed"},
    "closed": {"on_sale"},
    "cancelled": set[str](),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketType:
    """Another price of a section: "Student". A hidden one is for buyers with a presale code."""

    name: str
    price_cents: int
    is_hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A price category: `rows` (row name: number of seats) or `places` without seats.

    An add-on (`is_addon`) is sold together with tickets and admits nobody: a parking space, a drink. A hidden
    section is
    for buyers with a presale code.
    """

    name: str
    price_cents: int
    rows: dict[str, int] | None = None
    places: int | None = None
    is_addon: bool = False
    is_hidden: bool = False
    sale_from: datetime | None = None
    sale_until: datetime | None = None
    types: Sequence[TicketType] = ()

    def __post_init__(self) -> None:
        if (self.rows is None) == (self.places is None):
            raise Invalid(f"section {self.name!r}: give either rows (name: seats) or places")
        if self.rows is not None and not 1 <= len(self.rows) <= MOST_ROWS:
            raise Invalid(f"section {self.name!r} has {len(self.rows)} rows: give 1 to {MOST_ROWS}")
        for row, seats in (self.rows or {}).items():
            if not 1 <= seats <= MOST_SEATS_IN_ROW or not row:
                raise Invalid(f"row {row!r} of {self.name!r} has {seats} seats: give 1 to {MOST_SEATS_IN_ROW}")
        if self.places is not None and self.places < 1:
            raise Invalid(f"section {self.name!r} has {self.places} places: give 1 or more")
        if self.is_addon and self.rows is not None:
            raise Invalid(f"add-on {self.name!r} has rows: give places, an add-on has no seats")
        check_window(f"section {self.name!r}", self.sale_from, self.sale_until)

    @property
    def kind(self) -> Literal["seated", "general", "addon"]:
        if self.is_addon:
            return "addon"
        return "general" if self.rows is None else "seated"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewEvent:
    """An event with everything that must be decided before sales start."""

    venue_id: UUID
    name: str
    starts_at: datetime
    ends_at: datetime
    currency: str
    sections: Sequence[Section]
    policy: Policy = field(default_factory=Policy)
    jurisdiction: str | None = None
    """Whose rule sets the tax, such as ZA: then it replaces the tax of the policy."""
    tax_category: str = "standard"
    description: str = ""
    hold_s: int = 300
    checkout_s: int = 900
    most_per_order: int = 10
    refund_policy: str = ""
    support_contact: str = ""


def _check_zone(timezone: str) -> None:
    try:
        ZoneInfo(timezone)
    except (ZoneInfoNotFoundError, ValueError):
        raise Invalid(f"timezone {timezone!r} is unknown: use a name such as Africa/Johannesburg") from None


async def change_venue(tx: Tx, venue_id: UUID, *, name: str, address: str, timezone: str, actor: str) -> Any:
    """Change a venue: pages, mails and papers of its events say so from now on."""
    _check_zone(timezone)
    before = await setup.lock_venue(tx, venue_id)
    if before is None:
        raise NotFound(f"there is no venue {venue_id}")
    given = {"name": name.strip(), "address": address, "timezone": timezone}
    if not given["name"]:
        raise Invalid("name is empty: a venue needs a name")
    changes = {key: {"from": before[key], "to": value} for key, value in given.items() if before[key] != value}
    if not changes:
        return before
    try:
        venue = await setup.change_venue(tx, venue_id, **given)
    except asyncpg.UniqueViolationError:
        raise Exists(f"the organization already has a venue {name!r}: choose another name") from None
    await tx.audit("venue_changed", entity_type="Venue", entity_id=venue_id, changes=changes, actor=actor)
    return venue


async def add_venue(
    tx: Tx, name: str, *, address: str = "", timezone: str = "UTC", must_be_new: bool = False, actor: str
) -> Any:
    """Add a venue. A repeated request returns the one that there is, unless it `must_be_new`."""
    _check_zone(timezone)
    venue = await setup.add_venue(tx, name, address, timezone)
    if venue is None and must_be_new:
        raise Exists(f"there is a venue {name!r} already")
    if venue is None:
        venue = await setup.venue_by_name(tx, name)
        if (venue["address"], venue["timezone"]) != (address, timezone):
            raise Invalid(
                f"the organization already has a venue {name!r}, with another address or timezone: choose another name"
            )
        return venue  # a repeated request
    await tx.audit("venue_added", entity_type="Venue", entity_id=venue["id"], changes={"name": name}, actor=actor)
    return venue


async def add_event(tx: Tx, new: NewEvent, *, actor: str) -> Any:
    """Add the event, its seats and pools, and every ledger account that a sale may need."""
    check_times(new.starts_at, new.ends_at)
    _check_prices(new)
    if new.jurisdiction is not None:
        rule = rule_of(new.jurisdiction, new.tax_category, new.starts_at.date())
        new = replace(new, policy=replace(new.policy, tax_bps=rule.bps, tax_included=rule.is_included))
    await keys.signing_key(tx)
    policy = new.policy
    try:
        event = await setup.add_event(
            tx,
            new.venue_id,
            new.name,
            new.description,
            new.starts_at,
            new.ends_at,
            new.currency,
            policy.fee_bps,
            policy.fee_paid_by,
            policy.tax_bps,
            policy.tax_included,
            new.hold_s,
            new.checkout_s,
            new.most_per_order,
            new.refund_policy,
            new.support_contact,
            new.jurisdiction,
            None if new.jurisdiction is None else new.tax_category,
        )
    except asyncpg.ForeignKeyViolationError:
        raise NotFound(f"there is no venue {new.venue_id}") from None
    except asyncpg.UniqueViolationError:
        raise Exists(f"there is already an event {new.name!r} at this venue that starts at {new.starts_at}") from None
    for section in new.sections:
        await add_section(tx, event["id"], section)
    await open_books(tx, event["id"], new.currency)
    await tx.audit(
        "event_added",
        entity_type="Event",
        entity_id=event["id"],
        changes={"name": new.name, "starts_at": new.starts_at.isoformat(), "sections": len(new.sections)},
        actor=actor,
    )
    return await setup.event(tx, event["id"])


async def platform_fee(tx: Tx) -> int:
    """Return the platform's fee for new events of the organization in basis points. The organizer cannot choose it."""
    agreed = await setup.fee_bps(tx)
    return app.settings(TicketingSettings).fee_bps if agreed is None else agreed


def check_times(starts_at: datetime, ends_at: datetime) -> None:
    """Refuse an end before the start, and times without an offset: the server's zone is not the organizer's."""
    check_offset("starts_at", starts_at)
    check_offset("ends_at", ends_at)
    if ends_at <= starts_at:
        raise Invalid(f"ends_at {ends_at} must be after starts_at {starts_at}")


def check_offset(name: str, at: datetime) -> None:
    if at.utcoffset() is None:
        raise Invalid(f"{name} {at.isoformat()} has no offset from UTC: write {at.isoformat()}+02:00, or Z for UTC")


def check_window(what: str, sale_from: datetime | None, sale_until: datetime | None) -> None:
    """Refuse a sale that would end before it begins, and times without an offset."""
    for name, at in (("sale_from", sale_from), ("sale_until", sale_until)):
        if at is not None:
            check_offset(f"{what}: {name}", at)
    if sale_from is not None and sale_until is not None and sale_until <= sale_from:
        raise Invalid(f"{what}: sale_until {sale_until.isoformat()} must be after sale_from {sale_from.isoformat()}")


def _check_prices(new: NewEvent) -> None:
    """Refuse a currency that no payment service accepts, and prices that none accepts in that currency."""
    if not any(is_taken_by(service, new.currency) for service in SERVICES):
        raise Invalid(f"currency {new.currency!r}: neither Stripe nor PayPal accepts it; choose another currency")
    for section in new.sections:
        check_prices(section, new.currency)


def check_prices(section: Section, currency: str) -> None:
    check_amount(f"section {section.name!r}: price_cents", section.price_cents, currency)
    for each in section.types:
        check_amount(f"ticket type {each.name!r}: price_cents", each.price_cents, currency)


def check_amount(what: str, cents: int, currency: str) -> None:
    if cents % step(currency):
        raise Invalid(
            f"{what} is {cents}; in {currency} it must be a multiple of {step(currency)}, because payment services"
            " accept no smaller unit"
        )


async def open_books(tx: Tx, event_id: UUID, currency: str) -> None:
    for code, kind in ACCOUNTS.items():
        await open_account(tx, code, currency=currency, kind=kind)
    await open_account(tx, revenue_account(event_id), currency=currency, kind="revenue")


async def add_section(tx: Tx, event_id: UUID, section: Section) -> None:
    """Add a section. Each row of seats is its own pool, so that buyers in different rows do not wait for each other."""
    try:
        row = await setup.add_section(tx, event_id, section.name, section.kind, section.price_cents)
    except asyncpg.UniqueViolationError:
        raise Invalid(f"the event has two sections called {section.name!r}") from None
    if section.is_hidden or section.sale_from or section.sale_until:
        await sale_terms.set_window(tx, row["id"], section.is_hidden, section.sale_from, section.sale_until)
    for each in section.types:
        await sale_terms.add_type(tx, event_id, row["id"], each.name, each.price_cents, each.is_hidden)
    if section.places is not None:
        key = f"ticketing:{event_id}:{row['id']}"
        group = addon_group(event_id) if section.is_addon else pool_group(event_id)
        pool = await open_pool(tx, key, capacity=section.places, group=group)
        await setup.add_pool(tx, pool.id, event_id, row["id"], key, None, None)
        if not section.is_addon:
            await setup.grow(tx, event_id, section.places)
        return
    before = 0
    for name, seats in (section.rows or {}).items():
        key = f"ticketing:{event_id}:{row['id']}:{name}"
        labels = [seat_label(section.name, name, number) for number in range(1, seats + 1)]
        pool = await open_pool(tx, key, units=labels, group=pool_group(event_id))
        await setup.add_pool(tx, pool.id, event_id, row["id"], key, name, seats)
        await setup.add_seats(tx, event_id, row["id"], name, labels, key, before, pool.id)
        before += seats
        await setup.grow(tx, event_id, seats)


async def set_status(tx: Tx, event_id: UUID, status: str, *, actor: str) -> Any:
    event = await setup.lock_event(tx, event_id)
    if event is None:
        raise NotFound(f"there is no event {event_id}")
    if status == event["status"]:
        return await setup.event(tx, event_id)
    if status not in TRANSITIONS[event["status"]]:
        raise NotOnSale(f"an event that is {event['status']} cannot become {status}")
    await setup.set_status(tx, event_id, status)
    await tx.audit(
        "event_status",
        entity_type="Event",
        entity_id=event_id,
        changes={"status": {"from": event["status"], "to": status}},
        actor=actor,
    )
    return await setup.event(tx, event_id)


async def block_seats(tx: Tx, event_id: UUID, labels: Sequence[str], *, actor: str) -> bool:
    """Take seats off sale; False if they were. Seats that a buyer holds or has bought are refused."""
    # Before the seats are read: of two equal requests at the same time, one blocks the seats.
    await setup.lock_event(tx, event_id)
    seats = await _seats(tx, event_id, labels)
    wants = [Want(seat["pool_key"], unit=seat["label"]) for seat in seats if seat["status"] != "blocked"]
    if not wants:
        return False
    try:
        await claim(tx, wants, holder=_blocker(event_id), until=None)
    except CapacityRefused as refused:
        taken = tuple(refusal.unit or refusal.pool for refusal in refused.refusals)
        raise SeatTaken(str(refused), taken) from None
    await setup.block(tx, event_id, [seat["id"] for seat in seats])
    await tx.audit(
        "seats_blocked", entity_type="Event", entity_id=event_id, changes={"seats": list(labels)}, actor=actor
    )
    return True


async def unblock_seats(tx: Tx, event_id: UUID, labels: Sequence[str], *, actor: str) -> bool:
    """Put blocked seats back on sale; False if none of them was blocked."""
    await setup.lock_event(tx, event_id)
    seats = await _seats(tx, event_id, labels)
    blocked = {seat["label"] for seat in seats if seat["status"] == "blocked"}
    claims = [
        each.id for each in await held_by(tx, _blocker(event_id)) if each.state == "sold" and each.unit in blocked
    ]
    if not claims:
        return False
    await release(tx, claims)
    await setup.unblock(tx, event_id, [seat["id"] for seat in seats if seat["label"] in blocked])
    await tx.audit(
        "seats_unblocked", entity_type="Event", entity_id=event_id, changes={"seats": sorted(blocked)}, actor=actor
    )
    return True


def _blocker(event_id: UUID) -> str:
    return f"ticketing:blocked:{event_id}"


async def _seats(tx: Tx, event_id: UUID, labels: Sequence[str]) -> list[Any]:
    seats = await setup.seats_by_label(tx, event_id, labels)
    missing = set(labels) - {seat["label"] for seat in seats}
    if missing:
        raise NotFound(f"the event has no seats {', '.join(sorted(missing))}")
    return seats

"""What organizers make: venues, events with their seats and places, and seats that are off sale."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText, Options
from onceward.money import Money
from onceward.web.dashboard import ActionRefused, many
from onceward_apps.ticketing import event_changes, event_setup
from onceward_apps.ticketing.desk.lists import EVENTS, desk
from onceward_apps.ticketing.desk.sale_lists import VENUES
from onceward_apps.ticketing.errors import Invalid
from onceward_apps.ticketing.event_setup import NewEvent, Section
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.store import setup

ROWS = re.compile(r"(?P<first>[^:]{1,20}?)(?:-(?P<last>[^:-]{1,20}))?\s*:\s*(?P<seats>\d{1,4})")


class VenueForm(BaseModel):
    """Where events take place."""

    name: str = Field(title="Name", min_length=1, max_length=200)
    address: Annotated[str, LongText()] = Field("", title="Address", max_length=500)
    timezone: str = Field("UTC", title="Time zone", description="For example: Africa/Johannesburg", max_length=60)


class NewEventForm(BaseModel):
    """What an event needs. Its first section has numbered seats in rows, or places without seats, at one price."""

    name: str = Field(title="Name", min_length=1, max_length=200)
    venue: str = Field(title="Venue", max_length=200, description="Its name, as in the list of venues.")
    starts_at: datetime = Field(title="Start")
    ends_at: datetime = Field(title="End")
    section: str = Field(title="Name of the section", min_length=1, max_length=60, description="For example: Stalls")
    price: Money = Field(title="Price")
    rows: list[str] = Field(
        default_factory=list[str],
        title="Rows of seats",
        description="One row with its seats: A: 14. Or several: A-F: 14",
    )
    places: int | None = Field(None, title="Or places without seats", ge=1, le=1_000_000)
    description: Annotated[str, LongText()] = Field("", title="Description", max_length=5000)
    tax_percent: Decimal = Field(Decimal(0), title="Tax in percent", ge=0, le=100)
    tax_included: bool = Field(False, title="Prices include the tax")
    jurisdiction: str = Field(
        "", title="Whose rule sets the tax", max_length=2, description="For example ZA; empty: the percent above."
    )
    fee_paid_by: Annotated[
        Literal["buyer", "organizer"], Options({"buyer": "The buyer, on top", "organizer": "We, out of the price"})
    ] = Field("buyer", title="Who pays the fee of the platform")


class SectionForm(BaseModel):
    """More seats or places of an event, or an add-on."""

    section: str = Field(title="Name of the section", min_length=1, max_length=60, description="For example: Stalls")
    price: Money = Field(title="Price")
    rows: list[str] = Field(
        default_factory=list[str],
        title="Rows of seats",
        description="One row with its seats: A: 14. Or several: A-F: 14",
    )
    places: int | None = Field(None, title="Or places without seats", ge=1, le=1_000_000)
    is_addon: bool = Field(
        False, title="An add-on", description="Sold together with tickets, such as a parking space. It admits nobody."
    )
    is_hidden: bool = Field(False, title="Only with a presale code")


class SeatsForm(BaseModel):
    """Which seats."""

    seats: list[str] = Field(title="Seats", description="Their labels: Stalls A7", min_length=1, max_length=1000)


def read_rows(lines: Sequence[str]) -> dict[str, int]:
    """Read rows of seats: `A: 14` is one row, `A-F: 14` and `1-20: 30` are several."""
    rows: dict[str, int] = {}
    for line in lines:
        read = ROWS.fullmatch(line.strip())
        if read is None:
            raise Invalid(f"row {line[:40]!r} cannot be read: write A: 14 for row A with 14 seats, or A-F: 14")
        for name in _names(read["first"].strip(), (read["last"] or "").strip(), line):
            if name in rows:
                raise Invalid(f"row {name!r} is given twice")
            rows[name] = int(read["seats"])
    return rows


def _names(first: str, last: str, line: str) -> list[str]:
    if not last:
        return [first]
    if first.isdecimal() and last.isdecimal() and int(first) <= int(last) < int(first) + event_setup.MOST_ROWS:
        return [str(number) for number in range(int(first), int(last) + 1)]
    if (
        len(first) == len(last) == 1
        and "A" <= first.upper() <= last.upper() <= "Z"
        and first.isupper() == last.isupper()
    ):
        return [chr(letter) for letter in range(ord(first), ord(last) + 1)]
    raise Invalid(f"row {line[:40]!r}: rows go from a letter to a later one, or from a number to a higher one")


def section_of(form: NewEventForm | SectionForm, *, is_addon: bool = False, is_hidden: bool = False) -> Section:
    if bool(form.rows) == (form.places is not None):
        raise Invalid(f"section {form.section!r}: give rows of seats, or a number of places without seats")
    return Section(
        name=form.section,
        price_cents=form.price.amount,
        rows=read_rows(form.rows) if form.rows else None,
        places=form.places,
        is_addon=is_addon,
        is_hidden=is_hidden,
    )


@desk.action(VENUES, "New venue", on="list", model=VenueForm, roles=("manager",))
async def add_venue(tx: Tx, act: Act[VenueForm]) -> str:
    given = act.given
    venue = await event_setup.add_venue(
        tx,
        given.name.strip(),
        address=given.address,
        timezone=given.timezone.strip(),
        must_be_new=True,
        actor=act.by.actor,
    )
    act.id = str(venue["id"])
    return f"Events can take place at {venue['name']}."


async def venue_form(tx: Tx, id: str) -> VenueForm | None:
    venue = await setup.lock_venue(tx, UUID(id))
    return None if venue is None else VenueForm(**{name: venue[name] for name in VenueForm.model_fields})


@desk.action(VENUES, "Change", model=VenueForm, load=venue_form, in_list=True, roles=("manager",))
async def change_venue(tx: Tx, act: Act[VenueForm]) -> str:
    await event_setup.change_venue(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    return "The venue is changed, on all pages and on tickets that are printed from now on."


@desk.action(EVENTS, "New event", on="list", model=NewEventForm, roles=("manager",))
async def add_event(tx: Tx, act: Act[NewEventForm]) -> str:
    given = act.given
    venue = await setup.venue_by_name(tx, given.venue.strip())
    if venue is None:
        known = ", ".join(row["name"] for row in await setup.venues(tx))
        raise Invalid(f"there is no venue {given.venue!r}: use one of {known or 'none yet'}, or add it to the venues")
    policy = Policy(
        fee_bps=await event_setup.platform_fee(tx),
        fee_paid_by=given.fee_paid_by,
        tax_bps=int(given.tax_percent * 100),
        tax_included=given.tax_included,
    )
    new = NewEvent(
        venue_id=venue["id"],
        name=given.name.strip(),
        starts_at=given.starts_at,
        ends_at=given.ends_at,
        currency=given.price.currency,
        sections=[section_of(given)],
        policy=policy,
        description=given.description,
        jurisdiction=given.jurisdiction.strip().upper() or None,
    )
    event = await event_setup.add_event(tx, new, actor=act.by.actor)
    act.id = str(event["id"])
    act.says("It is a draft: put it on sale when its prices and places are complete.")
    return f"{event['name']} has {many(event['capacity'], 'place')}."


@desk.action(EVENTS, "Add seats or places", model=SectionForm, when="r.status <> 'cancelled'", roles=("manager",))
async def add_section(tx: Tx, act: Act[SectionForm]) -> str:
    given, event = act.given, await setup.event(tx, UUID(act.id))
    if given.price.currency != event["currency"]:
        raise Invalid(f"the price is in {given.price.currency}, and the event is sold in {event['currency']}")
    section = section_of(given, is_addon=given.is_addon, is_hidden=given.is_hidden)
    await event_changes.add_to(tx, UUID(act.id), section, actor=act.by.actor)
    return f"{section.name} is added."


@desk.action(EVENTS, "Take seats off sale", model=SeatsForm, when="r.status <> 'cancelled'", roles=("manager",))
async def block(tx: Tx, act: Act[SeatsForm]) -> str:
    if not await event_setup.block_seats(tx, UUID(act.id), act.given.seats, actor=act.by.actor):
        raise ActionRefused("these seats are off sale already")
    return "Nobody can choose these seats. They do not count as sold."


@desk.action(EVENTS, "Put seats back on sale", model=SeatsForm, when="r.blocked > 0", roles=("manager",))
async def unblock(tx: Tx, act: Act[SeatsForm]) -> str:
    if not await event_setup.unblock_seats(tx, UUID(act.id), act.given.seats, actor=act.by.actor):
        raise ActionRefused("none of these seats was off sale")
    return "These seats are on sale again."

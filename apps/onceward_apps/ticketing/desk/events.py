"""What organizers do with events: change them, move them, repeat them, sell and cancel."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText
from onceward.money import Money
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing import cancellations, event_changes, event_setup
from onceward_apps.ticketing.desk.lists import EVENTS, SECTIONS, desk
from onceward_apps.ticketing.errors import Invalid
from onceward_apps.ticketing.store import setup


class EventForm(BaseModel):
    """What can be changed of an event at any time."""

    name: str = Field(title="Name", min_length=1, max_length=200)
    description: Annotated[str, LongText()] = Field("", title="Description", max_length=5000)
    refund_policy: Annotated[str, LongText()] = Field("", title="Refunds", max_length=2000)
    support_contact: str = Field("", title="Contact for questions", max_length=200)
    most_per_order: int = Field(title="Tickets per order at most", ge=1, le=100)
    most_per_customer: int | None = Field(
        None, title="Tickets per customer at most", ge=1, le=1000, description="In all orders of one address together."
    )
    cancel_hours: int | None = Field(
        None,
        title="Hours before the start until which buyers may cancel",
        description="Empty: only you can refund.",
        ge=0,
        le=8760,
    )
    sale_from: datetime | None = Field(None, title="On sale from", description="Before it only with a presale code.")
    sale_until: datetime | None = Field(None, title="On sale until")
    group_from: int | None = Field(None, title="Tickets of a group that gets a discount", ge=2, le=1000)
    group_percent: int | None = Field(None, title="Percent off for groups", ge=1, le=100)
    doors_open_at: datetime | None = Field(None, title="Doors open", description="Nobody is admitted before.")
    doors_close_at: datetime | None = Field(None, title="Doors close", description="Nobody is admitted after it.")
    has_reentry: bool = Field(False, title="Guests who were scanned on their way out may come back")
    has_resale: bool = Field(False, title="Buyers may give tickets back while somebody waits for places")
    later_dates_too: bool = Field(
        False, title="Change the later dates of the series too", description="What you change here, and nothing else."
    )


class MoveForm(BaseModel):
    """The new date of an event."""

    starts_at: datetime = Field(title="New start")
    ends_at: datetime = Field(title="New end")
    refund_until: datetime | None = Field(
        None,
        title="Buyers may take their money back until",
        description="On the page of their order. Without it, nobody can do so there.",
    )


class CopyForm(BaseModel):
    """When the copies start."""

    starts_at: datetime = Field(title="Start of the first copy")
    name: str | None = Field(None, title="Another name", max_length=200)
    times: int = Field(1, title="How many", ge=1, le=event_changes.MOST_DATES)
    every_days: int = Field(7, title="Days between them", ge=1, le=365)


class SectionForm(BaseModel):
    """Price and number of places of a section."""

    price: Money = Field(title="Price", description="For orders that are started from now on.")
    places: int | None = Field(None, title="Places", ge=1, le=1_000_000, description="Only for sections without seats.")
    later_dates_too: bool = Field(
        False, title="Change the later dates of the series too", description="Their sections of the same name."
    )


async def event_form(tx: Tx, id: str) -> EventForm | None:
    details = await event_changes.details_of(tx, UUID(id))
    if details is None:
        return None
    names = set(EventForm.model_fields) - {"group_percent", "later_dates_too"}
    percent = None if details.group_bps is None else details.group_bps // 100
    return EventForm(**{name: getattr(details, name) for name in names}, group_percent=percent)


@desk.action(EVENTS, "Edit", model=EventForm, load=event_form, when="r.status <> 'cancelled'", roles=("manager",))
async def edit(tx: Tx, act: Act[EventForm]) -> str:
    given = act.given.model_dump()
    percent, is_series = given.pop("group_percent"), given.pop("later_dates_too")
    before = await event_changes.details_of(tx, UUID(act.id))
    group_bps = None if percent is None else percent * 100
    if before is not None and before.group_bps is not None and before.group_bps // 100 == percent:
        group_bps = before.group_bps  # the API takes fractions of a percent, the form does not
    changed = {**given, "group_bps": group_bps}
    if is_series:
        edited = await event_changes.edit_series(tx, UUID(act.id), actor=act.by.actor, **changed)
        return f"{len(edited)} dates are changed. Orders that exist keep their terms."
    await event_changes.edit(tx, UUID(act.id), actor=act.by.actor, **changed)
    return "The event is changed. Orders that exist keep their terms."


@desk.action(EVENTS, "Put on sale", on="rows", when="r.status in ('draft', 'closed')", undo="close", roles=("manager",))
async def open_sale(tx: Tx, act: Act[BaseModel]) -> str:
    await event_setup.set_status(tx, UUID(act.id), "on_sale", actor=act.by.actor)
    return "The event is on sale: everybody can buy tickets."


@desk.action(EVENTS, "Close the sale", on="rows", when="r.status = 'on_sale'", undo="open_sale", roles=("manager",))
async def close(tx: Tx, act: Act[BaseModel]) -> str:
    await event_setup.set_status(tx, UUID(act.id), "closed", actor=act.by.actor)
    return "Nobody can buy tickets any more. Tickets that were sold stay valid."


@desk.action(
    EVENTS,
    "Move to another date",
    model=MoveForm,
    when="r.status <> 'cancelled'",
    reason=True,
    roles=("manager",),
    causes=("mail", "call"),
)
async def move(tx: Tx, act: Act[MoveForm]) -> str:
    before = await setup.lock_event_whole(tx, UUID(act.id))
    if (before["starts_at"], before["ends_at"]) == (act.given.starts_at, act.given.ends_at):
        raise ActionRefused("the event has this date already")
    moved = await event_changes.move(tx, UUID(act.id), **act.given.model_dump(), reason=act.reason, actor=act.by.actor)
    start = moved["starts_at"].astimezone(ZoneInfo(moved["timezone"]))
    act.says("Everybody who has a ticket gets a mail with the new date and your reason. All tickets stay valid.")
    return f"The event starts on {start:%Y-%m-%d at %H:%M} ({moved['timezone']})."


@desk.action(EVENTS, "Duplicate", model=CopyForm, roles=("manager",))
async def duplicate(tx: Tx, act: Act[CopyForm]) -> str:
    given = act.given
    # Added in the time zone of the form: a weekly show starts at the same hour when the clocks change.
    starts = [given.starts_at + timedelta(days=given.every_days * n) for n in range(given.times)]
    made = await event_changes.duplicate(tx, UUID(act.id), starts, name=given.name, actor=act.by.actor)
    return (
        f"{len(made)} drafts are made, with the seats, prices and texts of this event."
        if len(made) > 1
        else ("A draft is made, with the seats, prices and texts of this event.")
    )


@desk.action(
    EVENTS,
    "Cancel the event",
    when="r.status <> 'cancelled'",
    reason=True,
    danger=True,
    roles=("manager",),
    causes=("mail", "money", "call"),
)
async def cancel(tx: Tx, act: Act[BaseModel]) -> str:
    progress = await cancellations.cancel(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    act.says("Every buyer gets a mail with your reason. This cannot be undone.")
    return f"The event is cancelled: {progress['orders_left']} orders are refunded and their tickets become invalid."


async def section_form(tx: Tx, id: str) -> SectionForm | None:
    section = await setup.lock_section(tx, UUID(id))
    return (
        None
        if section is None
        else SectionForm(price=Money(section["price_cents"], section["currency"]), places=None, later_dates_too=False)
    )


@desk.action(SECTIONS, "Change", model=SectionForm, load=section_form, in_list=True, roles=("manager",))
async def change_section(tx: Tx, act: Act[SectionForm]) -> str:
    section = await setup.lock_section(tx, UUID(act.id))
    if act.given.price.currency != section["currency"]:
        raise Invalid(f"the price is in {act.given.price.currency}, and the event is sold in {section['currency']}")
    change = event_changes.change_sections if act.given.later_dates_too else event_changes.change_section
    await change(tx, UUID(act.id), price_cents=act.given.price.amount, places=act.given.places, actor=act.by.actor)
    return "The section is changed. Orders that were started keep their price."

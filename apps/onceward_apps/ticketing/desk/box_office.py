"""What the staff does at the box office: sell, take money, match bank transfers; and how the shop sells."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, LongText, Options, Upload
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing import box_office, shop_setup
from onceward_apps.ticketing.bank_statement import read_lines
from onceward_apps.ticketing.desk.lists import EVENTS, ORDERS, TRANSFERS, desk
from onceward_apps.ticketing.documents import money
from onceward_apps.ticketing.store import sale_terms, setup, shops

HOW = {"cash": "Cash", "transfer": "Bank transfer", "complimentary": "Free of charge"}


class SaleForm(BaseModel):
    """What is sold at the box office."""

    how: Annotated[Literal["cash", "transfer", "complimentary"], Options(HOW)] = Field("cash", title="Paid by")
    seats: list[str] = Field(default_factory=list[str], title="Seats", description="Their labels: Stalls A7")
    section: str = Field("", title="Section without seats", max_length=60, description="Its name, for places.")
    places: int | None = Field(None, title="Places in it", ge=1, le=500)
    type: str = Field("", title="Ticket type", max_length=60, description="Its name; empty: the price of the section.")
    name: str = Field("", title="Name of the buyer", max_length=200)
    email: str = Field("", title="Email of the buyer", max_length=320, description="Empty: nothing is mailed.")
    reason: str = Field("", title="Why it is free", max_length=500)


class ShopForm(BaseModel):
    """How the organization sells."""

    about: Annotated[str, LongText()] = Field("", title="About us", description="On the page of all your events.")
    bank_account: Annotated[str, LongText()] = Field(
        "", title="Bank account", description="Buyers can transfer money to it; empty: no bank transfers."
    )
    transfer_days: int = Field(7, title="Days that places wait for a transfer", ge=1, le=30)
    sites: list[str] = Field(
        default_factory=list[str], title="Sites that may show the shop", description="https://example.org"
    )


class StatementForm(BaseModel):
    """Lines of a bank statement."""

    file: Upload | None = Field(None, title="CSV file", description="Columns: id, amount, currency, text.")
    lines: Annotated[str, LongText()] = Field(
        "", title="Or lines", description="One for each transfer: id; amount; currency; text"
    )


class OrderForm(BaseModel):
    """The order that a transfer pays."""

    order: str = Field(title="Id of the order", max_length=36, pattern=r"^[0-9a-fA-F-]{36}$")


@desk.action(
    EVENTS,
    "Sell at the box office",
    model=SaleForm,
    when="r.status in ('on_sale', 'closed')",
    roles=("manager", "office"),
    causes=("mail", "call", "money"),
)
async def sell(tx: Tx, act: Act[SaleForm]) -> str:
    given, event_id = act.given, UUID(act.id)
    sections = {row["name"]: row["id"] for row in await setup.sections(tx, event_id)}
    if given.section and given.section not in sections:
        raise ActionRefused(f"the event has no section {given.section!r}: it has {', '.join(sections)}")
    if bool(given.section) != (given.places is not None):
        raise ActionRefused("a section without seats and the number of places belong together")
    places = {sections[given.section]: given.places} if given.section and given.places else {}
    types: dict[UUID, str] = {}
    if given.type:
        named = [row for row in await sale_terms.types(tx, event_id) if row["name"] == given.type]
        types = {row["section_id"]: given.type for row in named}
        if not types:
            raise ActionRefused(f"the event has no ticket type {given.type!r}")
    sale = box_office.Sale(
        how=given.how, seats=given.seats, places=places, types=types, name=given.name, email=given.email.strip()
    )
    order = await box_office.sell(tx, event_id, sale, reason=given.reason, actor=act.by.actor)
    total = money(order["total_cents"], order["currency"])
    if given.how == "transfer" and order["total_cents"]:
        until = f"{order['expires_at']:%Y-%m-%d}"
        return f"The places wait until {until}. The transfer of {total} must name {order['transfer_reference']}."
    act.says("The tickets are on the page of the order, to print or to mail.")
    return f"{total} to take." if order["total_cents"] else "The tickets are issued, free of charge."


@desk.action(
    ORDERS,
    "Take cash",
    when="r.status in ('started', 'failed') and r.total_cents > 0",
    roles=("manager", "office"),
    causes=("mail", "call", "money"),
)
async def take_cash(tx: Tx, act: Act[BaseModel]) -> str:
    await box_office.take_cash(tx, UUID(act.id), actor=act.by.actor)
    return "The order is paid, and its tickets are issued."


@desk.action(
    TRANSFERS,
    "Record a bank statement",
    on="list",
    model=StatementForm,
    roles=("manager", "office"),
    causes=("mail", "call", "money"),
)
async def record(tx: Tx, act: Act[StatementForm]) -> str:
    text = act.given.lines
    if act.given.file is not None:
        text += "\n" + act.given.file.content.decode("utf-8-sig", errors="replace")
    lines = read_lines(text)
    if not lines:
        raise ActionRefused("give a file or lines: id; amount; currency; text")
    matched = await box_office.match(tx, lines, actor=act.by.actor)
    outcomes = [row["outcome"] for row in matched.rows]
    if not matched.fresh:
        raise ActionRefused("all of these lines are recorded already")
    act.says(f"{outcomes.count('unmatched')} name no order: assign them by hand.")
    return f"{len(matched.rows)} lines: {outcomes.count('sold')} pay their order, {outcomes.count('returned')} go back."


@desk.action(
    TRANSFERS,
    "Assign to an order",
    model=OrderForm,
    when="r.outcome = 'unmatched'",
    in_list=True,
    roles=("manager", "office"),
    causes=("mail", "call", "money"),
)
async def assign(tx: Tx, act: Act[OrderForm]) -> str:
    paid = await box_office.assign(tx, UUID(act.id), UUID(act.given.order), actor=act.by.actor)
    if paid["outcome"] == "sold":
        return "The order is paid, and its tickets are issued."
    return "The transfer does not buy this order: it goes back. See Refunds."


@desk.action(
    TRANSFERS,
    "Pays no order",
    when="r.outcome = 'unmatched'",
    reason=True,
    in_list=True,
    roles=("manager", "office"),
)
async def dismiss(tx: Tx, act: Act[BaseModel]) -> str:
    await box_office.dismiss(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    return "The transfer is put aside."


@desk.action(EVENTS, "Set up the shop", on="list", model=ShopForm, roles=("manager",))
async def set_shop(tx: Tx, act: Act[ShopForm]) -> str:
    if await shops.of(tx) is None:
        raise ActionRefused("choose an organization first")
    if not await shop_setup.set_shop(tx, **act.given.model_dump(), actor=act.by.actor):
        raise ActionRefused("the shop is set up like this already")
    return "The shop is changed."

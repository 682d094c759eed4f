"""What organizers do with orders and tickets: send the mail again, correct an address, refund, void."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from pydantic import BaseModel, Field, StringConstraints

from onceward import Tx
from onceward.desk import Act
from onceward.money import Money
from onceward_apps.ticketing import after_sale, back_office
from onceward_apps.ticketing.desk.lists import ORDERS, TICKETS, desk
from onceward_apps.ticketing.store import views

Email = Annotated[str, StringConstraints(strip_whitespace=True, pattern=r"^[^@\s]+@[^@\s]+\.[^@\s]+$", max_length=320)]
PAID = "r.status = 'completed'"


class AddressForm(BaseModel):
    """The right address of a buyer."""

    email: Email = Field(title="Email of the buyer")
    name: str = Field("", title="Name of the buyer", max_length=200)


class RefundForm(BaseModel):
    """Which tickets of an order are refunded."""

    codes: list[str] = Field(
        default_factory=list[str], title="Only these tickets", description="Codes; none: all of them."
    )
    used_too: bool = Field(False, title="Also tickets that were used to enter")


@desk.action(ORDERS, "Send the mail again", when=PAID, roles=("manager",), causes=("mail",))
async def resend(tx: Tx, act: Act[BaseModel]) -> str:
    email = await back_office.send_again(tx, UUID(act.id), actor=act.by.actor)
    return f"The tickets are on their way to {email}."


async def address_of(tx: Tx, id: str) -> AddressForm | None:
    order = await views.order(tx, UUID(id))
    return None if order is None else AddressForm(email=order["email"], name=order["name"])


@desk.action(
    ORDERS,
    "Correct the address",
    model=AddressForm,
    load=address_of,
    when="r.status in ('started', 'failed', 'completed')",
    roles=("manager",),
    causes=("mail",),
)
async def correct(tx: Tx, act: Act[AddressForm]) -> str:
    sent = await back_office.correct_buyer(
        tx, UUID(act.id), email=act.given.email, name=act.given.name, actor=act.by.actor
    )
    if not sent:
        return "The order is changed."
    act.says("Links in earlier mails no longer work.")
    return f"The order is changed, and the tickets are on their way to {act.given.email}."


@desk.action(
    ORDERS,
    "Refund",
    model=RefundForm,
    when=PAID,
    reason=True,
    danger=True,
    roles=("manager",),
    causes=("mail", "money", "call"),
)
async def refund(tx: Tx, act: Act[RefundForm]) -> str:
    made = await after_sale.refund(
        tx,
        UUID(act.id),
        tickets=await back_office.tickets_by_code(tx, UUID(act.id), act.given.codes) if act.given.codes else None,
        reason=act.reason,
        actor=act.by.actor,
        used_too=act.given.used_too,
    )
    if made is None:
        return "The tickets are invalid and their seats on sale again. Nothing was paid, so nothing is refunded."
    amount = Money(made.amount.amount, made.amount.currency)
    return f"{amount} goes back to the buyer. The tickets are invalid and their seats on sale again."


@desk.action(TICKETS, "Make invalid", when="r.status <> 'void'", reason=True, danger=True, roles=("manager",))
async def void(tx: Tx, act: Act[BaseModel]) -> str:
    await after_sale.void(tx, UUID(act.id), reason=act.reason, actor=act.by.actor)
    return "The ticket is invalid and its seat is on sale again. No money is paid back."


class HolderForm(BaseModel):
    """Who gets the ticket."""

    email: Email = Field(title="Email of the new holder")
    name: str = Field("", title="Name of the new holder", max_length=200)


@desk.action(
    TICKETS,
    "Give to somebody else",
    model=HolderForm,
    when="r.status = 'active'",
    roles=("manager", "office"),
    causes=("mail", "call"),
)
async def transfer(tx: Tx, act: Act[HolderForm]) -> str:
    given = act.given
    await after_sale.transfer(tx, UUID(act.id), email=given.email, name=given.name, actor=act.by.actor)
    act.says("The code that the buyer has stops working.")
    return f"The ticket has a new code, which is on its way to {given.email}."

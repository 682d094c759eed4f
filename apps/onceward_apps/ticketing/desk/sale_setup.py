"""What organizers do about a sale: ticket types, presale codes, questions, and when a section is on sale."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act, Options
from onceward.money import Money
from onceward.web.dashboard import ActionRefused
from onceward_apps.ticketing import sale_setup
from onceward_apps.ticketing.desk.lists import EVENTS, SECTIONS, desk
from onceward_apps.ticketing.desk.sale_lists import CODES, QUESTIONS, TYPES
from onceward_apps.ticketing.errors import Invalid
from onceward_apps.ticketing.store import sale_terms, setup


class TypeForm(BaseModel):
    """Another price of a section."""

    name: str = Field(title="Name", min_length=1, max_length=60, description="For example: Student")
    price: Money = Field(title="Price")
    is_hidden: bool = Field(False, title="Only with a presale code")


class TypeChange(BaseModel):
    """What can be changed of a ticket type."""

    price: Money = Field(title="Price", description="For orders that are started from now on.")
    is_hidden: bool = Field(False, title="Only with a presale code")
    is_ended: bool = Field(False, title="Nobody can choose it any more")


class CodeForm(BaseModel):
    """A code that opens the sale early, and shows what is hidden."""

    code: str = Field(title="Code", min_length=6, max_length=40)
    section: str = Field("", title="Only this section", max_length=60, description="Its name; empty: all of them.")
    most_tickets: int | None = Field(None, title="Tickets at most", ge=1, le=1_000_000)
    valid_until: datetime | None = Field(None, title="Valid until")


class CodeLimits(BaseModel):
    """What can be changed of a code."""

    most_tickets: int | None = Field(None, title="Tickets at most", ge=1, le=1_000_000)
    valid_until: datetime | None = Field(None, title="Valid until")


class QuestionForm(BaseModel):
    """What buyers are asked at the checkout."""

    title: str = Field(title="Question", min_length=1, max_length=200)
    about: Annotated[
        Literal["order", "ticket"], Options({"order": "Once per order", "ticket": "About each ticket"})
    ] = Field("order", title="Asked")
    choices: list[str] = Field(default_factory=list[str], title="Choices", description="None: any text.")
    is_required: bool = Field(False, title="Needs an answer")


class WindowForm(BaseModel):
    """When a section is on sale."""

    sale_from: datetime | None = Field(None, title="On sale from", description="Empty: as soon as the event is.")
    sale_until: datetime | None = Field(None, title="On sale until")
    is_hidden: bool = Field(False, title="Only with a presale code")


@desk.action(SECTIONS, "New ticket type", model=TypeForm, roles=("manager",))
async def add_type(tx: Tx, act: Act[TypeForm]) -> str:
    section = await setup.lock_section(tx, UUID(act.id))
    price = _in_currency(act.given.price, section["currency"])
    await sale_setup.add_type(
        tx, UUID(act.id), act.given.name, price_cents=price, is_hidden=act.given.is_hidden, actor=act.by.actor
    )
    return f"Buyers of {section['name']} can choose {act.given.name} for {act.given.price}."


async def type_form(tx: Tx, id: str) -> TypeChange | None:
    row = await sale_terms.lock_type(tx, UUID(id))
    if row is None:
        return None
    price = Money(row["price_cents"], row["currency"])
    return TypeChange(price=price, is_hidden=row["is_hidden"], is_ended=row["ended_at"] is not None)


@desk.action(TYPES, "Change", model=TypeChange, load=type_form, in_list=True, roles=("manager",))
async def change_type(tx: Tx, act: Act[TypeChange]) -> str:
    row = await sale_terms.lock_type(tx, UUID(act.id))
    price = _in_currency(act.given.price, row["currency"])
    given = act.given
    await sale_setup.change_type(
        tx, UUID(act.id), price_cents=price, is_hidden=given.is_hidden, is_ended=given.is_ended, actor=act.by.actor
    )
    return "The ticket type is changed. Orders that were started keep their price."


@desk.action(EVENTS, "New presale code", model=CodeForm, when="r.status <> 'cancelled'", roles=("manager",))
async def add_code(tx: Tx, act: Act[CodeForm]) -> str:
    given, section_id = act.given, None
    if given.section:
        found = {row["name"]: row["id"] for row in await setup.sections(tx, UUID(act.id))}
        if given.section not in found:
            raise Invalid(f"the event has no section {given.section!r}: it has {', '.join(found)}")
        section_id = found[given.section]
    row = await sale_setup.add_code(
        tx,
        UUID(act.id),
        given.code,
        section_id=section_id,
        most_tickets=given.most_tickets,
        valid_until=given.valid_until,
        actor=act.by.actor,
    )
    return f"Buyers with {row['code']} can choose places before the sale begins: /events/{act.id}?code={row['code']}"


async def code_limits(tx: Tx, id: str) -> CodeLimits | None:
    row = await sale_terms.lock_code(tx, UUID(id))
    return None if row is None else CodeLimits(most_tickets=row["most_tickets"], valid_until=row["valid_until"])


@desk.action(CODES, "Change limits", model=CodeLimits, load=code_limits, in_list=True, roles=("manager",))
async def change_code(tx: Tx, act: Act[CodeLimits]) -> str:
    await sale_setup.change_code(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    return "The code is changed. Places that were taken with it stay."


@desk.action(EVENTS, "Ask a question", model=QuestionForm, when="r.status <> 'cancelled'", roles=("manager",))
async def add_question(tx: Tx, act: Act[QuestionForm]) -> str:
    await sale_setup.add_question(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor)
    return "Buyers are asked from now on. The answers are on the page of their order and in the list of tickets."


@desk.action(QUESTIONS, "Ask no longer", when="r.ended_at is null", in_list=True, roles=("manager",))
async def end_question(tx: Tx, act: Act[BaseModel]) -> str:
    await sale_setup.end_question(tx, UUID(act.id), actor=act.by.actor)
    return "Nobody is asked any more. The answers stay."


async def window_form(tx: Tx, id: str) -> WindowForm | None:
    row = await setup.lock_section(tx, UUID(id))
    return None if row is None else WindowForm(**{name: row[name] for name in WindowForm.model_fields})


@desk.action(SECTIONS, "Set when it is on sale", model=WindowForm, load=window_form, in_list=True, roles=("manager",))
async def set_window(tx: Tx, act: Act[WindowForm]) -> str:
    if not await sale_setup.set_window(tx, UUID(act.id), **act.given.model_dump(), actor=act.by.actor):
        raise ActionRefused("the section is on sale like this already")
    return "The section is changed. What buyers hold stays held."


def _in_currency(price: Money, currency: str) -> int:
    if price.currency != currency:
        raise Invalid(f"the price is in {price.currency}, and the event is sold in {currency}")
    return price.amount

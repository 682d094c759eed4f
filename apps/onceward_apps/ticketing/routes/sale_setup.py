"""Routes for organizers about a sale: ticket types, presale codes, questions, and when a section is on sale."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from onceward.web import AtMost, exposed
from onceward_apps.ticketing import sale_setup
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, Viewer, acting
from onceward_apps.ticketing.store import sale_terms

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing"])


class TypeIn(BaseModel):
    """Another price of a section. A hidden type is for buyers with a presale code."""

    name: str = Field(min_length=1, max_length=60, pattern=r"\S")
    price_cents: int = Field(ge=0, le=100_000_000)
    is_hidden: bool = False


class TypeChangeIn(BaseModel):
    """`is_ended`: nobody can choose it any more."""

    price_cents: int = Field(ge=0, le=100_000_000)
    is_hidden: bool = False
    is_ended: bool = False


class CodeIn(BaseModel):
    """Without `section_id` the code opens every section. `most_tickets` is the number for all its users together."""

    code: str = Field(min_length=6, max_length=40)
    section_id: UUID | None = None
    most_tickets: int | None = Field(None, ge=1, le=1_000_000)
    valid_until: datetime | None = None


class CodeChangeIn(BaseModel):
    """Null means without a limit."""

    most_tickets: int | None = Field(ge=1, le=1_000_000)
    valid_until: datetime | None


class QuestionIn(BaseModel):
    """`about`: once per order, or about each ticket. Without `choices` the answer is any text."""

    title: str = Field(min_length=1, max_length=200, pattern=r"\S")
    about: Literal["order", "ticket"] = "order"
    choices: Annotated[list[Annotated[str, Field(max_length=200)]], AtMost(50)] = Field(default_factory=list[str])
    is_required: bool = False


class WindowIn(BaseModel):
    """When a section is on sale; null means as long as its event. A hidden section needs a presale code."""

    is_hidden: bool = False
    sale_from: datetime | None = None
    sale_until: datetime | None = None


@router.post("/sections/{section_id}/types", status_code=201)
@exposed("nothing")
async def add_type(engine: EngineHere, who: Operator, section_id: UUID, new: TypeIn) -> dict[str, Any]:
    """Add another price to a section, for example for students."""
    async with acting(engine, who.organization) as tx:
        return dict(await sale_setup.add_type(tx, section_id, **new.model_dump(), actor=who.actor))


@router.put("/ticket-types/{type_id}", status_code=204)
@exposed("nothing")
async def change_type(engine: EngineHere, who: Operator, type_id: UUID, changes: TypeChangeIn) -> None:
    """Change a ticket type. Orders that were started keep their price."""
    async with acting(engine, who.organization) as tx:
        await sale_setup.change_type(tx, type_id, **changes.model_dump(), actor=who.actor)


@router.get("/events/{event_id}/ticket-types")
async def list_types(engine: EngineHere, who: Viewer, event_id: UUID) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await sale_terms.types(tx, event_id)]


@router.post("/events/{event_id}/presale-codes", status_code=201)
@exposed("nothing")
async def add_code(engine: EngineHere, who: Operator, event_id: UUID, new: CodeIn) -> dict[str, Any]:
    """Add a code with which buyers choose places before the sale begins, and see what is hidden."""
    async with acting(engine, who.organization) as tx:
        return dict(await sale_setup.add_code(tx, event_id, **new.model_dump(), actor=who.actor))


@router.get("/events/{event_id}/presale-codes")
async def list_codes(engine: EngineHere, who: Viewer, event_id: UUID) -> list[dict[str, Any]]:
    """List the codes of an event, each with how many places were sold with it."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await sale_terms.codes(tx, event_id)]


@router.put("/presale-codes/{code_id}", status_code=204)
@exposed("nothing")
async def change_code(engine: EngineHere, who: Operator, code_id: UUID, changes: CodeChangeIn) -> None:
    async with acting(engine, who.organization) as tx:
        await sale_setup.change_code(tx, code_id, **changes.model_dump(), actor=who.actor)


@router.post("/events/{event_id}/questions", status_code=201)
@exposed("nothing")
async def add_question(engine: EngineHere, who: Operator, event_id: UUID, new: QuestionIn) -> dict[str, Any]:
    """Ask buyers something at the checkout."""
    async with acting(engine, who.organization) as tx:
        return dict(await sale_setup.add_question(tx, event_id, **new.model_dump(), actor=who.actor))


@router.get("/events/{event_id}/questions")
async def list_questions(engine: EngineHere, who: Viewer, event_id: UUID) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await sale_terms.questions(tx, event_id)]


@router.post("/questions/{question_id}/end", status_code=204)
@exposed("nothing")
async def end_question(engine: EngineHere, who: Operator, question_id: UUID) -> None:
    """Ask no longer. Answers that were given stay. A repeat changes nothing."""
    async with acting(engine, who.organization) as tx:
        await sale_setup.end_question(tx, question_id, actor=who.actor)


@router.put("/sections/{section_id}/window", status_code=204)
@exposed("nothing")
async def set_window(engine: EngineHere, who: Operator, section_id: UUID, window: WindowIn) -> None:
    """Set when a section is on sale, and whether only buyers with a code see it."""
    async with acting(engine, who.organization) as tx:
        await sale_setup.set_window(tx, section_id, **window.model_dump(), actor=who.actor)

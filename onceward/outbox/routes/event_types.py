"""HTTP routes of the catalogue of event types, and publishing without an app."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Response
from pydantic import AfterValidator, BaseModel, Field, JsonValue

from onceward.outbox import EventType, Invalid, KeyReused
from onceward.outbox.catalogue import check_name, known, save
from onceward.outbox.routes.callers import (
    Admin,
    Channels,
    Db,
    Eng,
    MadeEvent,
    Publisher,
    Viewer,
)
from onceward.trust import audit
from onceward.web.exposure import exposed
from onceward.web.fields import example

router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])


def _given(sample: JsonValue) -> JsonValue:
    if sample is None:
        raise ValueError("must be example data, not null: customers develop against it")
    return sample


class NewType(BaseModel):
    model_config = example(description="An order was paid.", sample={"order_id": "o-1", "amount_cents": 4200})

    description: str = Field("", max_length=1000)
    schema_: dict[str, JsonValue] = Field(default_factory=dict, alias="schema")
    sample: Annotated[JsonValue, AfterValidator(_given)] = Field(
        description="Example data, not null. Test events and the documentation for customers show it."
    )


class TypeOfEvent(BaseModel):
    name: str
    description: str
    schema_: Any = Field(alias="schema")
    sample: Any
    declared_by: str


class NewEvent(BaseModel):
    model_config = example(type="order.paid", data={"order_id": "o-1", "amount_cents": 4200})

    type: str
    data: JsonValue
    channels: Channels = Field(default_factory=list[str])


@router.get("/event-types")
async def types(db: Db, _identity: Viewer) -> list[TypeOfEvent]:
    async with db.acquire() as conn:
        return [
            TypeOfEvent(
                name=each.name,
                description=each.description,
                schema=each.schema,
                sample=each.sample,
                declared_by=each.declared_by,
            )
            for each in await known(conn)
        ]


@router.put("/event-types/{name}", status_code=204)
@exposed("nothing")
async def declare(db: Db, identity: Admin, name: str, new: NewType) -> None:
    check_name(name)
    async with db.transaction(role="engine") as tx:
        requested = EventType(name, description=new.description, schema=new.schema_, sample=new.sample)
        await save(tx, [requested])
        await audit.record(tx, "event_type.declared", entity_type="event_type", entity_id=name, actor=identity)


@router.post(
    "/publish",
    status_code=201,
    responses={200: {"model": MadeEvent, "description": "The key was used before: that event."}},
)
@exposed("call")
async def publish(
    engine: Eng,
    identity: Publisher,
    new: NewEvent,
    response: Response,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> MadeEvent:
    """Publish an event.

    A repeated call with the same Idempotency-Key publishes nothing and returns the event with status 200.
    """
    async with engine.transaction(organization=identity.organization) as tx:
        if not await tx.fetchval("select 1 from onceward.event_types where name = $1", new.type):
            raise Invalid(
                "type", f"{new.type[:128]!r} is not in the catalogue; add it with PUT /api/v1/event-types/NAME"
            )
        sent = await tx.publish(new.type, new.data, key=idempotency_key, channels=new.channels)
    if not sent.same:
        raise KeyReused("this Idempotency-Key was already used with different content; use a new key")
    if sent.duplicate:
        response.status_code = 200
    return MadeEvent(id=sent.id, message_id=sent.message_id, deliveries=sent.deliveries, duplicate=sent.duplicate)

"""HTTP routes of the phone numbers that an organization has proven."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from onceward.context import Context
from onceward.db import Database
from onceward.messages import senders
from onceward.messages.senders import NumberSender, SenderKind
from onceward.trust import Identity
from onceward.trust.routes.access import organization_of
from onceward.web.api import context_of, database_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import example
from onceward.web.problems import Problem

TheContext = Annotated[Context, Depends(context_of)]
Db = Annotated[Database, Depends(database_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Owner = Annotated[Identity, Depends(require("owner"))]
Identifier = Annotated[str, Field(pattern=r"^\+?[0-9]{3,30}$")]


class NewSender(BaseModel):
    """A number that people write to: the phone number id of WhatsApp, or the number at Twilio with + and country
    code."""

    model_config = example(kind="twilio", identifier="+6580000000")

    kind: SenderKind
    identifier: Identifier


router = APIRouter(prefix="/api/v1/senders", tags=["phone numbers"])


@router.get("")
async def list_numbers(db: Db, identity: Viewer) -> list[NumberSender]:
    """List the numbers that belong to the organization."""
    async with db.transaction(role="engine") as tx:
        return await senders.list_senders(tx, organization_of(identity))


@router.put("", status_code=204)
@exposed("call")
async def save_number(context: TheContext, db: Db, identity: Owner, new: NewSender) -> None:
    """Prove a number by the organization's own account. An administrator of the instance assigns it without a proof."""
    organization = organization_of(identity)
    if identity.may("admin"):
        async with db.transaction(role="engine") as tx:
            await senders.assign(tx, organization, new.kind, new.identifier, actor=identity)
        return
    try:
        await senders.prove(context.app.services, organization, new.kind, new.identifier)
        async with db.transaction(role="engine") as tx:
            await senders.add(tx, organization, new.kind, new.identifier, actor=identity)
    except senders.SenderNotProven as error:
        raise Problem(403, str(error), kind="sender-not-proven") from error
    except senders.SenderTaken as error:
        raise Problem(409, str(error), kind="sender-taken") from error


@router.delete("/{kind}/{identifier}", status_code=204)
@exposed("nothing")
async def delete_number(db: Db, identity: Owner, kind: SenderKind, identifier: str) -> None:
    """Release a number of the organization."""
    async with db.transaction(role="engine") as tx:
        if not await senders.remove(tx, organization_of(identity), kind, identifier[:60], actor=identity):
            raise Problem(404, f"the organization has no {kind} number {identifier[:60]!r}")

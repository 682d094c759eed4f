"""Routes for the secrets of an organization. Values can be set, not read."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field, SecretStr

from onceward.context import Context
from onceward.db import Database
from onceward.trust.identity import Identity
from onceward.trust.organization_secrets import (
    MAX_VALUE_CHARACTERS,
    StoredSecret,
    list_secrets,
    remove_secret,
    set_secret,
)
from onceward.trust.routes.access import organization_of
from onceward.web.api import context_of, database_of
from onceward.web.auth import require
from onceward.web.exposure import exposed
from onceward.web.fields import example

TheContext = Annotated[Context, Depends(context_of)]
Db = Annotated[Database, Depends(database_of)]
Owner = Annotated[Identity, Depends(require("owner"))]
RecentOwner = Annotated[Identity, Depends(require("owner", recent=True))]


class NewSecret(BaseModel):
    """`custom` allows a name that is not a field of a known service, for an app's own secret."""

    model_config = example(value="re_8f1c0c4e5a43", custom=False)

    value: SecretStr = Field(max_length=MAX_VALUE_CHARACTERS)
    custom: bool = False


router = APIRouter(prefix="/api/v1/secrets", tags=["access"])


@router.get("")
async def listed(db: Db, identity: Owner) -> list[StoredSecret]:
    return await list_secrets(db, organization_of(identity))


@router.put("/{name}", status_code=204)
@exposed("nothing")
async def put(context: TheContext, db: Db, identity: RecentOwner, name: str, new: NewSecret) -> None:
    organization = organization_of(identity)
    async with db.transaction(organization=organization) as tx:
        value = new.value.get_secret_value()
        await set_secret(tx, context.box, name, value, actor=identity, custom=new.custom)
    context.app.services.forget_secrets(organization)


@router.delete("/{name}", status_code=204)
@exposed("nothing")
async def remove(context: TheContext, db: Db, identity: Owner, name: str) -> None:
    organization = organization_of(identity)
    async with db.transaction(organization=organization) as tx:
        await remove_secret(tx, name, actor=identity)
    context.app.services.forget_secrets(organization)

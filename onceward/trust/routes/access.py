"""Routes for access: organizations, members and API keys."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from onceward.db import Database
from onceward.trust.errors import NotAllowed
from onceward.trust.identity import Identity, transaction_for
from onceward.trust.key_restrictions import KeyRestrictions
from onceward.trust.keys import DEFAULT_LIFETIME, Key, create_key, list_keys, revoke_key
from onceward.trust.organizations import (
    Member,
    Organization,
    create_organization,
    list_members,
    list_organizations,
    remove_member,
    set_member,
    set_second_factor_required,
)
from onceward.web.api import database_of
from onceward.web.auth import authenticated, require
from onceward.web.exposure import exposed
from onceward.web.fields import example
from onceward.web.idempotency import withholds

Db = Annotated[Database, Depends(database_of)]
Anybody = Annotated[Identity, Depends(authenticated)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Owner = Annotated[Identity, Depends(require("owner"))]
RecentOwner = Annotated[Identity, Depends(require("owner", recent=True))]
Admin = Annotated[Identity, Depends(require("admin"))]
RoleName = Literal["owner", "operator", "viewer"]


class Me(BaseModel):
    """The identity of the request's credential."""

    kind: str
    organization: UUID | None
    scopes: list[str]
    user_id: str | None
    label: str
    csrf_token: str | None


class NewOrganization(BaseModel):
    model_config = example(slug="riverside", name="Riverside Theatre")

    slug: str = Field(max_length=63)
    name: str = Field("", max_length=200)


class SecondFactorRequirement(BaseModel):
    model_config = example(required=True)

    required: bool


class NewMember(BaseModel):
    model_config = example(email="ada@example.com", role="operator")

    email: str = Field(max_length=320)
    role: RoleName


class NewApiKey(BaseModel):
    """`scopes` of a key of an organization are viewer, operator and owner, or single permissions: publish, message,
    enqueue, replay, refund, scan. A key of the instance has admin. `apps` and `sources` limit the key to these,
    `addresses` to the callers of these networks.
    """

    model_config = example(name="door", scopes=["scan"], apps=["ticketing"], addresses=["203.0.113.0/24"])

    name: str = Field(min_length=1, max_length=200)
    scopes: list[str] = Field(min_length=1, max_length=9)
    expires_at: datetime | None = Field(
        default=None, description="If absent, the key expires after 365 days; null means never."
    )
    apps: list[str] = Field([], max_length=50)
    sources: list[str] = Field([], max_length=50)
    addresses: list[str] = Field([], max_length=50)


class MadeKey(BaseModel):
    """A created key. `secret` is the key itself, which is returned only once: a repeated request gets null."""

    secret: str | None
    key: Key


router = APIRouter(prefix="/api/v1", tags=["access"])
"""`/api/v1/me`, `/organizations`, `/members`, `/keys`."""


@router.get("/me")
async def me(identity: Anybody) -> Me:
    return Me(
        kind=identity.kind,
        organization=identity.organization,
        scopes=sorted({*identity.scopes, *identity.permissions}),
        user_id=identity.person,
        label=identity.label,
        csrf_token=identity.csrf,
    )


@router.get("/organizations")
async def organizations(db: Db, identity: Viewer) -> list[Organization]:
    async with transaction_for(db, identity) as tx:
        return await list_organizations(tx.conn, organization=identity.organization)


@router.post("/organizations", status_code=201)
@exposed("nothing")
async def create(db: Db, identity: Admin, new: NewOrganization) -> Organization:
    async with db.transaction(role="engine") as tx:
        return await create_organization(tx, new.slug, name=new.name, actor=identity.actor)


@router.put("/organizations/second-factor", status_code=204)
@exposed("nothing")
async def second_factor(db: Db, identity: RecentOwner, requirement: SecondFactorRequirement) -> None:
    """Require a second factor of everybody who acts for the organization in a dashboard session, or no longer."""
    async with db.transaction(role="engine") as tx:
        await set_second_factor_required(tx, organization_of(identity), required=requirement.required, actor=identity)


@router.get("/members")
async def members(db: Db, identity: Owner) -> list[Member]:
    async with db.acquire() as conn:
        return await list_members(conn, organization_of(identity))


@router.put("/members")
@exposed("nothing")
async def put(db: Db, identity: RecentOwner, new: NewMember) -> dict[str, Any]:
    async with db.transaction(role="engine") as tx:
        user_id = await set_member(tx, organization_of(identity), new.email, new.role, actor=identity.actor)
    return {"user_id": user_id, "role": new.role}


@router.delete("/members/{user_id}", status_code=204)
@exposed("nothing")
async def remove(db: Db, identity: Owner, user_id: UUID) -> None:
    async with db.transaction(role="engine") as tx:
        await remove_member(tx, organization_of(identity), user_id, actor=identity.actor)


@router.get("/keys")
async def keys(db: Db, identity: Owner) -> list[Key]:
    async with transaction_for(db, identity) as tx:
        return await list_keys(tx, organization=identity.organization)


@router.post("/keys", status_code=201, dependencies=[withholds("secret")])
@exposed("nothing")
async def make(db: Db, identity: RecentOwner, new: NewApiKey) -> MadeKey:
    async with db.transaction(role="engine") as tx:
        created = await create_key(
            tx,
            name=new.name,
            organization=identity.organization,
            scopes=new.scopes,
            restrictions=KeyRestrictions.checked(new.apps, new.sources, new.addresses),
            expires_at=new.expires_at if "expires_at" in new.model_fields_set else datetime.now(UTC) + DEFAULT_LIFETIME,
            actor=identity,
        )
    return MadeKey(secret=created.text, key=created.key)


@router.delete("/keys/{key}", status_code=200)
@exposed("nothing")
async def revoke(db: Db, identity: Owner, key: str, reason: str | None = None) -> Key:
    async with db.transaction(role="engine") as tx:
        return await revoke_key(tx, key, organization=identity.organization, actor=identity, reason=reason)


def organization_of(identity: Identity) -> UUID:
    """Return the organization of the request. An admin of the instance must choose one in a header."""
    if identity.organization is None:
        raise NotAllowed("choose the organization with the header X-Organization")
    return identity.organization

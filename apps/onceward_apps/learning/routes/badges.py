"""Public routes of Open Badges: the signed credential of a certificate, and the key that verifies it."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from onceward.web import ANYBODY, exposed
from onceward_apps.learning import links, open_badges
from onceward_apps.learning.certificates import is_erased
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.routes.requests import EngineHere, acting, limit, owner_of, problem
from onceward_apps.learning.store import certificates, keys

router = APIRouter(prefix="/learn", tags=["learning: visitors"])


class NoLongerValid(LearningError):
    status = 410
    code = "no_longer_valid"


@router.get("/certificates/{credential_id}/badge.jwt", response_class=Response)
@exposed(credential=ANYBODY, limit="60 a minute per address")
async def badge(engine: EngineHere, request: Request, credential_id: str) -> Response:
    """Return the certificate as an Open Badges 3.0 credential, a signed JWT. Anyone who has the id may ask."""
    await limit(engine, request, "badge", per_minute=60)
    organization = await owner_of(engine, "credential", credential_id[:60].replace("\x00", ""))
    async with acting(engine, organization) as tx:
        row = await certificates.with_email(tx, credential_id)
        if row["revoked_at"] is not None or is_erased(row):
            raise NoLongerValid("this certificate was revoked, or its details were removed")
    listed = links.status_list(organization, open_badges.list_number(row))
    issuer = links.issuer(organization)
    claims = open_badges.credential(row, email=row["email"], issuer=issuer, status_list=listed)
    key = await open_badges.key_of(engine, organization)
    key_url = links.badge_key(organization, open_badges.key_id(key))
    token = await asyncio.to_thread(open_badges.sign, claims, key, key_url=key_url)
    headers = {"Content-Disposition": f'attachment; filename="{credential_id}.jwt"', "Cache-Control": "no-store"}
    return Response(token, media_type="application/jwt", headers=headers)


@router.get("/issuers/{organization_id}/status/{number}", response_class=Response)
@exposed(credential=ANYBODY, limit="60 a minute per address")
async def status_list(
    engine: EngineHere, request: Request, organization_id: UUID, number: Annotated[int, Path(ge=0, lt=2**40)]
) -> Response:
    """Return which badges of an organization are not valid any more: a signed Bitstring Status List (W3C)."""
    await limit(engine, request, "badge", per_minute=60)
    first = number * open_badges.LIST_SIZE
    async with acting(engine, organization_id) as tx:
        if not await keys.badge_keys(tx):
            raise NotFound("this organization has issued no badge")
        not_valid = await certificates.not_valid(tx, first, first + open_badges.LIST_SIZE - 1)
        now = await tx.fetchval("select onceward.now()")
    url = links.status_list(organization_id, number)
    claims = open_badges.status_list(url, links.issuer(organization_id), not_valid, now)
    key = await open_badges.key_of(engine, organization_id)
    key_url = links.badge_key(organization_id, open_badges.key_id(key))
    token = await asyncio.to_thread(open_badges.sign, claims, key, key_url=key_url)
    return Response(token, media_type="application/jwt", headers={"Cache-Control": "public, max-age=300"})


@router.get("/issuers/{organization_id}/keys")
@exposed(credential=ANYBODY, limit="60 a minute per address")
async def public_keys(engine: EngineHere, request: Request, organization_id: UUID) -> dict[str, Any]:
    """Return the public keys (a JSON Web Key Set) of an organization that has issued badges, newest first."""
    published = await _published(engine, request, organization_id)
    if not published:
        raise problem(NotFound("this organization has issued no badge"))
    return {"keys": list(published.values())}


@router.get("/issuers/{organization_id}/keys/{key_id}")
@exposed(credential=ANYBODY, limit="60 a minute per address")
async def public_key(engine: EngineHere, request: Request, organization_id: UUID, key_id: str) -> dict[str, Any]:
    """Return one public key (a JSON Web Key), also one that no longer signs. Badges name this address as `kid`."""
    published = await _published(engine, request, organization_id)
    if key_id not in published:
        raise problem(NotFound("this organization has no such key"))
    return published[key_id]


async def _published(engine: EngineHere, request: Request, organization: UUID) -> dict[str, dict[str, Any]]:
    """Return the public keys of an organization by their names, newest first."""
    await limit(engine, request, "badge", per_minute=60)
    async with acting(engine, organization) as tx:
        private = await keys.badge_keys(tx)
    named = {open_badges.key_id(key): key for key in private}
    return {
        name: open_badges.public_jwk(key, key_url=links.badge_key(organization, name)) for name, key in named.items()
    }

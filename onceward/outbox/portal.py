"""Access tokens for the customer portal. A token expires and may be limited to some endpoints."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from onceward.db import Database
from onceward.outbox.errors import Invalid
from onceward.statements import read_statement
from onceward.trust import Identity, NotAuthenticated, NotFound, audit

PREFIX = "owp_"
ORIGIN = re.compile(r"(?P<scheme>https?)://(?P<host>[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?)(?::[0-9]{1,5})?")
FOREIGN = read_statement("outbox", "find_foreign_endpoint")
LIST = """
select id, endpoint_ids, may_act, embed_at, created_by, created_at, expires_at from onceward.portal_tokens
 where organization_id is not distinct from $1 and expires_at > onceward.now() order by created_at desc, id limit 1000
"""
REVOKE = "delete from onceward.portal_tokens where organization_id is not distinct from $1 and id = $2 returning true"
Actor = str | Identity


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token. The database stores only its hash, so it cannot be shown again."""

    id: UUID
    token: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class PortalToken:
    """A token without its secret. `endpoint_ids` is null if it shows every endpoint."""

    id: UUID
    endpoint_ids: list[UUID] | None
    may_act: bool
    embed_at: list[str] | None
    """The origins of the pages that may show the portal in a frame."""
    created_by: str
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Visitor:
    """A customer with a valid token: which endpoints they see, and whether they may resend and test."""

    organization_id: UUID | None
    endpoint_ids: list[UUID] | None
    may_act: bool
    embed_at: list[str] | None
    csrf: str

    @property
    def actor(self) -> str:
        return "portal:customer"

    def sees(self, endpoint_id: UUID) -> bool:
        return self.endpoint_ids is None or endpoint_id in self.endpoint_ids


async def create(
    db: Database,
    organization: UUID | None,
    *,
    hours: float,
    actor: Actor,
    endpoint_ids: Sequence[UUID] | None = None,
    may_act: bool = True,
    embed_at: Sequence[str] | None = None,
) -> MadeToken:
    """Create a token. Raises `Invalid` for an endpoint that does not belong to the organization, or for an origin."""
    origins = None if not embed_at else sorted({_origin(each) for each in embed_at})
    token = PREFIX + secrets.token_urlsafe(32)
    async with db.transaction(role="engine", organization=organization) as tx:
        for foreign in await tx.fetch(FOREIGN, organization, list(endpoint_ids or ())):
            raise Invalid("endpoint_ids", f"there is no endpoint {foreign['endpoint_id']} in this organization")
        row = await tx.fetchrow(
            "insert into onceward.portal_tokens (hash, organization_id, endpoint_ids, may_act, embed_at, created_by,"
            " expires_at) values ($1, $2, $3, $4, $5, $6, onceward.now() + $7::interval) returning id, expires_at",
            _hash(token),
            organization,
            None if endpoint_ids is None else list(endpoint_ids),
            may_act,
            origins,
            actor.actor if isinstance(actor, Identity) else actor,
            timedelta(hours=hours),
        )
        assert row is not None
        await audit.record(
            tx,
            "portal.opened",
            entity_type="portal",
            entity_id=row["id"],
            actor=actor,
            metadata={"hours": hours, "may_act": may_act, "embed_at": origins},
        )
    return MadeToken(row["id"], token, row["expires_at"])


async def visitor(db: Database, token: str) -> Visitor:
    """Return the visitor that the token belongs to. Raises `NotAuthenticated` if it is unknown or has expired."""
    if not token.startswith(PREFIX) or len(token) > 200:
        raise NotAuthenticated("this is not a portal token")
    row = await db.fetchrow(
        "select organization_id, endpoint_ids, may_act, embed_at from onceward.portal_tokens"
        " where hash = $1 and expires_at > onceward.now()",
        _hash(token),
    )
    if row is None:
        raise NotAuthenticated("this portal token is unknown or has expired")
    return Visitor(**dict(row), csrf=hmac.digest(token.encode(), b"csrf", "sha256").hex())


async def list_tokens(db: Database, organization: UUID | None) -> list[PortalToken]:
    """Return the tokens that are valid now, newest first, without the tokens themselves."""
    return [PortalToken(**dict(row)) for row in await db.fetch(LIST, organization)]


async def revoke(db: Database, organization: UUID | None, id: UUID, *, actor: Actor) -> None:
    """Revoke a token. Every node refuses it from its next request on. Raises `NotFound`."""
    async with db.transaction(role="engine", organization=organization) as tx:
        if not await tx.fetchval(REVOKE, organization, id):
            raise NotFound(f"there is no portal token {id}")
        await audit.record(tx, "portal.revoked", entity_type="portal", entity_id=id, actor=actor)


def _origin(text: str) -> str:
    """Return the origin as a browser writes it. Plain http is for loopback only."""
    found = ORIGIN.fullmatch(text.strip().lower().rstrip("/"))
    if found is None or (found["scheme"] == "http" and found["host"] not in ("localhost", "127.0.0.1")):
        raise Invalid("embed_at", f"{text[:100]!r} is not an origin: write https://app.example, without a path")
    return found[0]


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

"""Who connects: a session's cookie, an API key, an end user's token, or nobody."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from uuid import UUID

from onceward.db import Database
from onceward.trust import Identity, NotAllowed, NotAuthenticated
from onceward.trust.jwt import TokenVerifier
from onceward.trust.keys import authenticate_key, looks_like_key
from onceward.trust.sessions import authenticate_session

SESSION_COOKIE = "onceward_session"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client showed; never logged."""

    token: str | None = None
    session: str | None = None
    organization: UUID | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"


Authenticate = Callable[[Credentials], Awaitable[Identity | None]]
"""The identity behind credentials, None for nobody; `NotAuthenticated` or `NotAllowed` when they are wrong."""


def acting(identity: Identity, organization: UUID | None) -> Identity:
    """The identity, in the organization it asks to act for: its own, or any for an administrator of the instance."""
    if organization is None or identity.organization == organization:
        return identity
    if identity.organization is None and identity.may("admin"):
        return replace(identity, organization=organization)
    raise NotAllowed(f"these credentials are not for organization {organization}")


def authenticator(db: Database, verifier: TokenVerifier | None = None) -> Authenticate:
    """By API key, end user's token (with a verifier) or session, in this order."""

    async def authenticate(shown: Credentials) -> Identity | None:
        if shown.token:
            if looks_like_key(shown.token):
                async with db.acquire() as conn:
                    return acting(await authenticate_key(conn, shown.token), shown.organization)
            if verifier is None:
                raise NotAuthenticated("tokens of end users are not set up: ONCEWARD_JWT_SECRET or a key set is needed")
            return acting(await verifier.authenticate(shown.token), shown.organization)
        if shown.session:
            async with db.acquire() as conn:
                return await authenticate_session(conn, shown.session, organization=shown.organization)
        return None

    return authenticate

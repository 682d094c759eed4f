"""Authenticate clients by session cookie, API key or end user token. Anonymous clients are possible."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from uuid import UUID

from onceward.db import Database
from onceward.trust import Identity, NotAllowed, NotAuthenticated
from onceward.trust.failures import FailureLimit
from onceward.trust.jwt import TokenVerifier
from onceward.trust.keys import authenticate_key, looks_like_key
from onceward.trust.sessions import authenticate_session


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a client. They must not be logged."""

    token: str | None = None
    session: str | None = None
    organization: UUID | None = None
    address: str = "unknown"
    """The address of the client, for keys that may be used from some addresses only."""

    def __repr__(self) -> str:
        return "Credentials(...)"


Authenticate = Callable[[Credentials], Awaitable[Identity | None]]
"""Returns the identity, or None without credentials. Raises `NotAuthenticated` or `NotAllowed` if they are wrong."""


def acting(identity: Identity, organization: UUID | None) -> Identity:
    """Return the identity in the requested organization: its own, or any organization for an instance administrator."""
    if organization is None or identity.organization == organization:
        return identity
    if identity.organization is None and identity.may("admin"):
        return replace(identity, organization=organization)
    raise NotAllowed(f"these credentials give no access to organization {organization}")


def authenticator(db: Database, verifier: TokenVerifier | None = None) -> Authenticate:
    """Return a function that authenticates by API key, end user token (if there is a verifier) or session, in this
    order.

    Wrong credentials are counted per client, together with those of the API: too many raise `TooManyFailures`.
    """

    limit = FailureLimit()

    async def authenticate(credentials: Credentials) -> Identity | None:
        try:
            return await recognise(credentials)
        except NotAuthenticated:
            async with db.acquire() as conn:
                await limit.count(conn, credentials.address)
            raise

    async def recognise(credentials: Credentials) -> Identity | None:
        if credentials.token:
            if looks_like_key(credentials.token):
                async with db.acquire() as conn:
                    identity = await authenticate_key(conn, credentials.token, client=credentials.address)
                if identity.limits is not None or not identity.scopes:
                    raise NotAllowed(f"key {identity.label!r} is limited to some routes and cannot use live queries")
                return acting(identity, credentials.organization)
            if verifier is None:
                raise NotAuthenticated("end user tokens are not configured; set ONCEWARD_JWT_SECRET or a key set")
            return acting(await verifier.authenticate(credentials.token), credentials.organization)
        if credentials.session:
            async with db.acquire() as conn:
                return await authenticate_session(
                    conn, credentials.session, organization=credentials.organization, is_activity=False
                )
        return None

    return authenticate

"""Who is asking over HTTP: an API key, a dashboard session or an end user's token, all through one door.

    @router.get("/things")
    async def things(identity: Annotated[Identity, Depends(require("viewer"))]) -> ...

A key or token comes as `Authorization: Bearer ...`, a session as a cookie. `X-Organization` (id or slug) chooses among
the organizations one may act for. What a session changes needs its CSRF token (`X-CSRF-Token`, or the form field
`csrf_token`) and must come from our own pages. Wrong credentials are counted per client, on all nodes together.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import cast
from urllib.parse import unquote, urlsplit
from uuid import UUID

from fastapi import FastAPI, Request
from starlette.requests import HTTPConnection
from starlette.responses import Response

from onceward.db import Connection, Database
from onceward.settings import Settings
from onceward.telemetry import bind, get_logger
from onceward.trust.errors import (
    NotAllowed,
    NotAuthenticated,
    NotFound,
    TooManyFailures,
    TrustError,
    UnknownOrganization,
    UserDisabled,
)
from onceward.trust.failures import FailureLimit
from onceward.trust.identity import Identity, Scope
from onceward.trust.jwt import BadVerifier, FetchKeys, Rules, TokenVerifier, jwks_from_file, jwks_from_url
from onceward.trust.keys import authenticate_key, looks_like_key
from onceward.trust.organizations import find_organization
from onceward.trust.sessions import authenticate_session, csrf_matches
from onceward.web.problems import Problem, request_id_of, respond

SESSION_COOKIE = "onceward_session"
ORGANIZATION_COOKIE = "onceward_organization"
"""What somebody has chosen in the dashboard; a session acts for it where a request names no other."""
NO_ORGANIZATION = UUID(int=0)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

log = get_logger("onceward.auth")


class Authenticator:
    """Turns a request, or the opening of a WebSocket, into an `Identity`."""

    def __init__(
        self,
        database: Database,
        *,
        tokens: TokenVerifier | None = None,
        limit: FailureLimit | None = None,
        public_url: str | None = None,
    ) -> None:
        self.database = database
        self.tokens = tokens
        self.limit = limit or FailureLimit()
        self._public_host = urlsplit(public_url).netloc if public_url else None

    async def identify(self, connection: HTTPConnection) -> Identity:
        """Who it is; raises `NotAuthenticated`, `NotAllowed` or `TooManyFailures`."""
        bearer, session = _credentials(connection)
        if bearer is None and session is None:
            raise NotAuthenticated("no credential was sent")
        try:
            # Before a connection is borrowed: checking a token may have to fetch keys from another server.
            holder = None if bearer is None or looks_like_key(bearer) else await self._from_token(bearer)
            async with self.database.acquire() as conn:
                identity = await self._recognise(conn, connection, bearer, session, holder)
        except NotAuthenticated as error:
            await self.count_failure(connection, str(error))
            raise
        if identity.kind == "session":
            await self._refuse_forgery(connection, identity)
        return identity

    async def count_failure(self, connection: HTTPConnection, reason: str) -> None:
        """Log and count a wrong credential; raises `TooManyFailures` when the client has used up its tries."""
        client = client_of(connection)
        log.warning("auth.failed", ip=client, reason=reason)
        async with self.database.acquire() as conn:
            await self.limit.count(conn, client)

    async def _from_token(self, token: str) -> Identity:
        if self.tokens is None:
            raise NotAuthenticated("tokens are not accepted here: ONCEWARD_JWT_* is not set")
        return await self.tokens.authenticate(token)

    async def _recognise(
        self,
        conn: Connection,
        connection: HTTPConnection,
        bearer: str | None,
        session: str | None,
        holder: Identity | None,
    ) -> Identity:
        wanted = connection.headers.get("x-organization") or connection.query_params.get("organization")
        if bearer is None:
            wanted = wanted or unquote(connection.cookies.get(ORGANIZATION_COOKIE, "")) or None
            return await _in_session(conn, session or "", wanted)
        return await _acting(conn, holder or await authenticate_key(conn, bearer), wanted)

    def refuse_other_sites(self, connection: HTTPConnection) -> None:
        """Browsers say which site a change comes from; other clients need not."""
        origin = connection.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc not in {connection.headers.get("host"), self._public_host}:
            raise NotAllowed("the request comes from another site")

    async def _refuse_forgery(self, connection: HTTPConnection, identity: Identity) -> None:
        """Cookies are sent along by browsers wherever a request comes from, so a change must prove that it is ours."""
        websocket = connection.scope["type"] == "websocket"
        if not websocket and connection.scope["method"] in SAFE_METHODS:
            return
        self.refuse_other_sites(connection)
        if websocket:
            if "origin" not in connection.headers:
                raise NotAllowed("a browser's WebSocket must say where it comes from")
            return
        if not csrf_matches(identity, [connection.headers.get("x-csrf-token"), await _form_token(connection)]):
            raise NotAllowed("the CSRF token is missing or wrong: send it as X-CSRF-Token or csrf_token")


def require(scope: Scope) -> Callable[[Request], AsyncGenerator[Identity]]:
    """For `Depends`: the identity, which has at least this scope. Log lines of the request name it."""

    async def identified(request: Request) -> AsyncGenerator[Identity]:
        identity = await authenticator_of(request).identify(request)
        identity.require(scope)
        if scope != "admin" and scope != "user" and identity.organization is None and not identity.may("admin"):
            raise NotAllowed("choose the organization to act for with the header X-Organization")
        with bind(organization=identity.organization, user=identity.user_id):
            yield identity

    return identified


def authenticator_of(connection: HTTPConnection) -> Authenticator:
    """The process's own; made from its settings when the first request needs it."""
    state = connection.app.state
    found = cast("Authenticator | None", getattr(state, "authenticator", None))
    if found is None:
        settings = cast(Settings, state.settings)
        found = Authenticator(state.database, tokens=verifier_from(settings), public_url=settings.public_url)
        state.authenticator = found
    return found


def verifier_from(settings: Settings) -> TokenVerifier | None:
    """How end users' tokens are checked here; None when nothing says how."""
    rules = Rules(algorithms=(settings.jwt_algorithm,), audience=settings.jwt_audience, issuer=settings.jwt_issuer)
    jwks: FetchKeys | None = None
    if settings.jwt_jwks_url is not None:
        jwks = jwks_from_url(settings.jwt_jwks_url)
    elif settings.jwt_jwks_file is not None:
        jwks = jwks_from_file(settings.jwt_jwks_file)
    secret = None if settings.jwt_secret is None else settings.jwt_secret.get_secret_value()
    if secret is None and jwks is None:
        return None
    if secret is not None and jwks is not None:
        raise BadVerifier("ONCEWARD_JWT_SECRET and ONCEWARD_JWT_JWKS_* are both set: keep the one you use")
    return TokenVerifier(rules, secret=secret, jwks=jwks)


def install(api: FastAPI) -> None:
    """Answer what trust refuses with the status it deserves."""

    async def on_refusal(request: Request, error: Exception) -> Response:
        return respond(_problem(cast(TrustError, error)), request_id_of(request))

    api.add_exception_handler(TrustError, on_refusal)


def _problem(error: TrustError) -> Problem:
    match error:
        case NotAuthenticated():
            return Problem(401, "a valid credential is needed", headers={"WWW-Authenticate": "Bearer"})
        case TooManyFailures():
            return Problem(429, str(error), headers={"Retry-After": str(error.retry_after_s)})
        case NotAllowed():
            return Problem(403, str(error))
        case NotFound() | UnknownOrganization():
            return Problem(404, str(error))
        case UserDisabled():
            return Problem(409, str(error))
        case _:
            return Problem(400, str(error))


async def _acting(conn: Connection, identity: Identity, wanted: str | None) -> Identity:
    """A key of the instance may act for any organization; one of an organization for that one only."""
    if wanted is None:
        return identity
    found = await _organization(conn, wanted)
    if identity.may("admin") and found is not None:
        return Identity(identity.kind, found, identity.scopes, identity.user_id, identity.label)
    if found is None or found != identity.organization:
        raise _not_theirs(wanted)
    return identity


async def _in_session(conn: Connection, session: str, wanted: str | None) -> Identity:
    """The session is looked at before the name is judged: who has none is told nothing about organizations."""
    if wanted is None:
        return await authenticate_session(conn, session)
    found = await _organization(conn, wanted)
    try:
        identity = await authenticate_session(conn, session, organization=found or NO_ORGANIZATION)
    except NotAllowed:
        raise _not_theirs(wanted) from None
    if found is None:
        raise _not_theirs(wanted)
    return identity


async def _organization(conn: Connection, wanted: str) -> UUID | None:
    try:
        return (await find_organization(conn, wanted[:100])).organization_id
    except UnknownOrganization:
        return None


def _not_theirs(wanted: str) -> NotAllowed:
    """In the same words whether it exists or not, and as it was asked for: names are not to be tried out."""
    return NotAllowed(f"you may not act for organization {wanted[:100]!r}")


def _credentials(connection: HTTPConnection) -> tuple[str | None, str | None]:
    """What was sent: a bearer, or else the session cookie."""
    header = connection.headers.get("authorization", "")
    kind, _, value = header.partition(" ")
    if header:
        return (value.strip() if kind.lower() == "bearer" else ""), None
    return None, connection.cookies.get(SESSION_COOKIE)


async def _form_token(connection: HTTPConnection) -> str | None:
    if not isinstance(connection, Request):
        return None
    if not connection.headers.get("content-type", "").startswith(FORMS):
        return None
    value = (await connection.form()).get("csrf_token")
    return value if isinstance(value, str) else None


def client_of(connection: HTTPConnection) -> str:
    """The address that counts for limits; uvicorn has already looked behind the proxies we trust."""
    return connection.client.host if connection.client else "unknown"

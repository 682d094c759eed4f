"""Authentication over HTTP: by an API key, a dashboard session or an end user's token.

    @router.get("/things")
    async def things(identity: Annotated[Identity, Depends(require("viewer"))]) -> ...

A key or token comes as `Authorization: Bearer ...`, a session as a cookie. `X-Organization` (id or slug) chooses among
the organizations that the caller may act for. A change by a session needs the CSRF token (`X-CSRF-Token`, or the form
field `csrf_token`) and must come from our own pages. Wrong credentials are counted per client, across all nodes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import cast
from urllib.parse import unquote, urlsplit
from uuid import UUID

from fastapi import FastAPI, Request
from starlette.requests import HTTPConnection
from starlette.responses import Response

from onceward.db import Connection, Database
from onceward.db.callers import CALLER
from onceward.settings import Settings
from onceward.telemetry import bind, get_logger
from onceward.telemetry.caller import calling
from onceward.trust.errors import (
    BadSecret,
    ConfirmationRequired,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    SecondFactorRequired,
    SecretError,
    TooManyFailures,
    TrustError,
    UnknownOrganization,
    UserDisabled,
)
from onceward.trust.failures import FailureLimit
from onceward.trust.identity import Identity, Permission, Scope
from onceward.trust.jwt import BadVerifier, FetchKeys, Rules, TokenVerifier, jwks_from_file, jwks_from_url
from onceward.trust.keys import authenticate_key, looks_like_key
from onceward.trust.organizations import find_organization
from onceward.trust.secrets import secret_box
from onceward.trust.security_events import SecurityLog
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import authenticate_session, csrf_matches
from onceward.trust.settings import TrustSettings
from onceward.web.cookies import secret_cookie
from onceward.web.exposure import grants
from onceward.web.idempotency import KeyStore
from onceward.web.problems import Problem, request_id_of, respond
from onceward.web.requests import IDENTITY
from onceward.web.settings import WebSettings

ORGANIZATION_COOKIE = "onceward_organization"
"""The organization that the user has chosen in the dashboard. A session acts for it unless a request names another."""
NO_ORGANIZATION = UUID(int=0)
WRONG_CREDENTIALS = f"{FailureLimit().failures} wrong ones in {FailureLimit().window_s} s per address"
"""The limit of every route that `Authenticator` guards, as the table of routes shows it."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")

log = get_logger("onceward.auth")


class Authenticator:
    """Returns the `Identity` of a request or of a WebSocket handshake."""

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
        self.security = SecurityLog(database)
        self._public_host = urlsplit(public_url).netloc if public_url else None

    async def identify(self, connection: HTTPConnection, *, allow_pending: bool = False) -> Identity:
        """Return the identity of the caller. Raises `NotAuthenticated`, `NotAllowed` or `TooManyFailures`.

        With `allow_pending`, a session that lacks its second factor has an identity too, with the scope `user` only.
        """
        bearer, session = _credentials(connection)
        if bearer is None and session is None:
            raise NotAuthenticated("no credential was sent")
        try:
            # Before a database connection is acquired: verifying a token may fetch keys from another server.
            holder = None if bearer is None or looks_like_key(bearer) else await self._from_token(bearer)
            async with self.database.acquire() as conn:
                identity = await self._recognise(conn, connection, bearer, session, holder, allow_pending)
        except SecondFactorRequired:  # not a wrong credential
            raise
        except NotAuthenticated as error:
            await self.count_failure(connection, str(error))
            raise
        connection.scope[IDENTITY] = identity  # for the access log, and for the record of a refusal
        if (caller := CALLER.get()) is not None:
            caller.customer, caller.principal = identity.organization, identity.principal
        if identity.kind == "session":
            await self._refuse_forgery(connection, identity)
        if identity.limits is not None and not identity.limits.allow(connection.url.path):
            allowed = ", ".join(sorted(identity.limits.apps | identity.limits.sources))
            raise NotAllowed(f"key {identity.label!r} is limited to {allowed} and may not use {route_of(connection)}")
        return identity

    async def count_failure(self, connection: HTTPConnection, reason: str) -> None:
        """Log and count a wrong credential. Raises `TooManyFailures` if the client is over the limit."""
        client = client_of(connection)
        log.warning("auth.failed", ip=client, reason=reason)
        about = {"address": client, "reason": reason, "route": route_of(connection)}
        try:
            async with self.database.acquire() as conn:
                await self.limit.count(conn, client)
        except TooManyFailures:
            await self.security.record("login.blocked", subject=client, actor="stranger", metadata=about)
            raise
        await self.security.record("login.failed", subject=client, actor="stranger", metadata=about)

    async def record_refusal(self, connection: HTTPConnection, error: NotAllowed) -> None:
        """Record that a known caller was refused. An expired proof of identity is not a refusal."""
        identity = cast("Identity | None", connection.scope.get(IDENTITY))
        if identity is None or isinstance(error, ConfirmationRequired):
            return
        await self.security.record(
            "access.refused",
            subject=identity.actor,
            actor=identity,
            organization=identity.organization,
            metadata={"address": client_of(connection), "reason": str(error)[:300], "route": route_of(connection)},
        )

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
        allow_pending: bool,
    ) -> Identity:
        requested = connection.headers.get("x-organization") or connection.query_params.get("organization")
        if bearer is None:
            requested = requested or unquote(connection.cookies.get(ORGANIZATION_COOKIE, "")) or None
            return await _in_session(conn, session or "", requested, allow_pending)
        return await _acting(
            conn, holder or await authenticate_key(conn, bearer, client=client_of(connection)), requested
        )

    def refuse_other_sites(self, connection: HTTPConnection) -> None:
        """Raise `NotAllowed` if a browser sends the request from another site. Other clients send no `Origin`."""
        origin = connection.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc not in {connection.headers.get("host"), self._public_host}:
            raise NotAllowed("the request comes from another site")

    async def _refuse_forgery(self, connection: HTTPConnection, identity: Identity) -> None:
        """Check `Origin` and the CSRF token of a change, because browsers also send cookies with other sites'
        requests."""
        websocket = connection.scope["type"] == "websocket"
        if not websocket and connection.scope["method"] in SAFE_METHODS:
            return
        self.refuse_other_sites(connection)
        if websocket:
            if "origin" not in connection.headers:
                raise NotAllowed("a WebSocket with a session cookie must send the header Origin")
            return
        if not csrf_matches(identity, [connection.headers.get("x-csrf-token"), await _form_token(connection)]):
            raise NotAllowed("the CSRF token is missing or wrong: send it as X-CSRF-Token or csrf_token")


def require(
    scope: Scope,
    *,
    permission: Permission | None = None,
    roles: tuple[str, ...] = (),
    own_key: bool = False,
    recent: bool = False,
) -> Callable[[Request], AsyncGenerator[Identity]]:
    """Return a dependency for `Depends` that yields the identity and requires at least this scope.

    A key that has only the `permission` may use the route too, and so may a person with one of these `roles` of a desk.
    It also handles the header `Idempotency-Key` of a POST, unless the route does so itself (`own_key`). With `recent`,
    the person behind a session must have proven who they are a short time ago: for keys, secrets and exports.
    """

    async def identified(request: Request) -> AsyncGenerator[Identity]:
        identity = await authenticator_of(request).identify(request)
        identity.require(scope, permission, roles=roles)
        if recent:
            identity.require_recent(
                cast(Settings, request.app.state.settings).of(TrustSettings).reauthentication_minutes
            )
        if scope != "admin" and scope != "user" and identity.organization is None and not identity.may("admin"):
            raise NotAllowed("choose the organization to act for with the header X-Organization")
        with bind(organization=identity.organization), calling(user=identity.label or None, tier=identity.tier):
            if not own_key:
                await key_store_of(request).take(request, identity)
            yield identity

    return grants(_credential_text(scope, permission, roles=roles, recent=recent))(identified)


def _credential_text(scope: Scope, permission: Permission | None, *, roles: tuple[str, ...] = (), recent: bool) -> str:
    """Return what `require` asks for, as the table of routes in docs/security.md shows it."""
    text = "any credential of a user" if scope == "user" else f"session or key: {scope}"
    text += f", or permission {permission}" if permission is not None else ""
    text += "".join(f", or {role.replace('.', ' ')}" for role in roles)
    return f"{text}; proven again recently" if recent else text


@grants("any credential")
async def authenticated(request: Request) -> Identity:
    """Return the identity of any valid credential, for `Depends`. Also of a key that has single permissions only."""
    return await authenticator_of(request).identify(request)


def key_store_of(request: Request) -> KeyStore:
    """Return the store of idempotency keys of this process. The first call creates it from the settings."""
    state = request.app.state
    store = cast("KeyStore | None", getattr(state, "key_store", None))
    if store is None:
        store = KeyStore(state.database, lambda: secret_box(cast(Settings, state.settings)))
        state.key_store = store
    return store


def authenticator_of(connection: HTTPConnection) -> Authenticator:
    """Return the authenticator of this process. The first call creates it from the settings."""
    state = connection.app.state
    authenticator = cast("Authenticator | None", getattr(state, "authenticator", None))
    if authenticator is None:
        settings = cast(Settings, state.settings)
        authenticator = Authenticator(
            state.database, tokens=verifier_from(settings.of(WebSettings)), public_url=settings.public_url
        )
        state.authenticator = authenticator
    return authenticator


def verifier_from(settings: WebSettings) -> TokenVerifier | None:
    """Return the verifier of end users' tokens, or None if no `ONCEWARD_JWT_*` key is set."""
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
        raise BadVerifier("ONCEWARD_JWT_SECRET and ONCEWARD_JWT_JWKS_* are both set: remove one of them")
    return TokenVerifier(rules, secret=secret, jwks=jwks)


def install(api: FastAPI) -> None:
    """Add the handler that turns each `TrustError` into a response."""

    async def on_refusal(request: Request, error: Exception) -> Response:
        if isinstance(error, NotAllowed):
            await authenticator_of(request).record_refusal(request, error)
        problem = _problem(cast(TrustError, error))
        if problem.status_code >= 500:
            log.error("secret.unreadable", error=type(error).__name__, reason=str(error))
        return respond(problem, request_id_of(request))

    api.add_exception_handler(TrustError, on_refusal)


def _problem(error: TrustError) -> Problem:
    match error:
        case SecondFactorRequired():
            return Problem(401, str(error))
        case NotAuthenticated():
            return Problem(401, "a valid credential is required", headers={"WWW-Authenticate": "Bearer"})
        case TooManyFailures():
            return Problem(429, str(error), headers={"Retry-After": str(error.retry_after_s)})
        case NotAllowed():
            return Problem(403, str(error))
        case NotFound() | UnknownOrganization():
            return Problem(404, str(error))
        case UserDisabled():
            return Problem(409, str(error))
        case SecretError() if not isinstance(error, BadSecret):
            # The operator's mistake, not the caller's: the keys of this process do not fit a stored value.
            return Problem(500, "the server cannot decrypt a stored value; its log says why")
        case _:
            return Problem(400, str(error))


async def _acting(conn: Connection, identity: Identity, requested: str | None) -> Identity:
    """A key of the instance may act for any organization; a key of an organization only for that one."""
    if requested is None:
        return identity
    organization = await _organization(conn, requested)
    if identity.may("admin") and organization is not None:
        return replace(identity, organization=organization)
    if organization is None or organization != identity.organization:
        raise _not_theirs(requested)
    return identity


async def _in_session(conn: Connection, session: str, requested: str | None, allow_pending: bool) -> Identity:
    """Check the session before the organization: a caller without a session must not learn which ones exist."""
    if requested is None:
        return await authenticate_session(conn, session, allow_pending=allow_pending)
    organization = await _organization(conn, requested)
    try:
        identity = await authenticate_session(
            conn, session, organization=organization or NO_ORGANIZATION, allow_pending=allow_pending
        )
    except NotAllowed:
        raise _not_theirs(requested) from None
    if organization is None:
        raise _not_theirs(requested)
    return identity


async def _organization(conn: Connection, requested: str) -> UUID | None:
    try:
        return (await find_organization(conn, requested[:100])).organization_id
    except UnknownOrganization:
        return None


def _not_theirs(requested: str) -> NotAllowed:
    """The message is the same whether the organization exists or not, so that callers cannot probe for names."""
    return NotAllowed(f"you may not act for organization {requested[:100]!r}")


def _credentials(connection: HTTPConnection) -> tuple[str | None, str | None]:
    """Return the bearer credential, or else the session cookie."""
    header = connection.headers.get("authorization", "")
    kind, _, value = header.partition(" ")
    if header:
        return (value.strip() if kind.lower() == "bearer" else ""), None
    return None, secret_cookie(connection, SESSION)


async def _form_token(connection: HTTPConnection) -> str | None:
    if not isinstance(connection, Request):
        return None
    if not connection.headers.get("content-type", "").startswith(FORMS):
        return None
    value = (await connection.form()).get("csrf_token")
    return value if isinstance(value, str) else None


def route_of(connection: HTTPConnection) -> str:
    """Return the method and the template of the route, which contains no values of the request."""
    template = cast(str, getattr(connection.scope.get("route"), "path", "unknown"))
    return f"{connection.scope.get('method', connection.scope['type'])} {template}"


def client_of(connection: HTTPConnection) -> str:
    """Return the client address for limits. uvicorn has already replaced the address of a trusted proxy."""
    return connection.client.host if connection.client else "unknown"

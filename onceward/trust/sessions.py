"""Dashboard sessions. A one-time login link opens a session; there are no passwords.

The database stores only hashes of tokens. The CSRF token is derived from the session token, so it is not stored and ends
with the session.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.errors import NotAllowed, NotAuthenticated, NotFound
from onceward.trust.identity import Identity, Scope

FIRST_ADMIN = "admin@localhost"
FIRST_ADMIN_LOCK = 0x61646D696E  # "admin"
TOKEN_LENGTH = 43

ADMIN_USE = read_statement("trust", "find_admin_use")
FIND = read_statement("trust", "find_session")
USE_LINK = read_statement("trust", "use_login_link")


@dataclass(frozen=True, slots=True)
class Session:
    """An open session. `token` is the value of the cookie; the database stores only its hash."""

    token: str
    user_id: UUID
    expires_at: datetime


async def create_link(tx: Transaction, user_id: UUID, *, hours: float = 24, actor: str) -> str:
    """Return a token that logs this person in once, through `/login?token=<token>`. Runs as the engine."""
    token = secrets.token_urlsafe(32)
    await tx.execute(
        "insert into onceward.login_links (hash, user_id, expires_at)"
        " values ($1, $2, onceward.now() + make_interval(secs => $3))",
        _hash(token),
        user_id,
        hours * 3600,
    )
    await audit.record(tx, "login_link.created", entity_type="user", entity_id=user_id, actor=actor)
    return token


@dataclass(frozen=True, slots=True)
class AdminLink:
    """A login link for an administrator: the token, and the address of the account that it opens."""

    token: str
    email: str


async def admin_link(db: Database, *, after_first_login: bool) -> AdminLink | None:
    """Return a new login link for an administrator while no administrator has an open session, otherwise None.

    The first start creates the first administrator. Every start replaces the unused link of the start before. Without
    `after_first_login` it returns None as soon as somebody has logged in once, because the output may be kept in a log.
    """
    async with db.transaction(role="engine") as tx:
        await tx.execute("select pg_advisory_xact_lock($1)", FIRST_ADMIN_LOCK)
        use = await tx.fetchrow(ADMIN_USE, FIRST_ADMIN)
        assert use is not None  # the statement always returns one row
        if use["in_use"] and (use["logged_in"] or not after_first_login):
            return None
        if not use["in_use"]:
            await tx.execute(
                "insert into onceward.users (email, name, admin) values ($1, 'Administrator', true)"
                " on conflict (lower(email)) do update set admin = true",
                FIRST_ADMIN,
            )
        admin = await tx.fetchrow(
            "select user_id, email from onceward.users where admin and disabled_at is null"
            " order by email <> $1, created_at, user_id limit 1",
            FIRST_ADMIN,
        )
        if admin is None:
            return None
        await tx.execute("delete from onceward.login_links where user_id = $1 and used_at is null", admin["user_id"])
        token = await create_link(tx, admin["user_id"], hours=24, actor="system:start")
        return AdminLink(token, admin["email"])


async def save_web_address(conn: Connection, url: str) -> None:
    """Store the URL of the web server that has just started, for the login links that commands print."""
    await conn.execute(
        "insert into onceward.web_address (url) values ($1)"
        " on conflict (only_row) do update set url = excluded.url, started_at = onceward.now()",
        url,
    )


async def find_web_address(conn: Connection) -> str | None:
    """Return the URL of the web server that started last, or None if none has started yet."""
    return await conn.fetchval("select url from onceward.web_address")


async def link_for(tx: Transaction, email: str, *, hours: float = 24, actor: str) -> str:
    """Return a login token for an existing user. Runs as the engine."""
    user_id = await tx.fetchval(
        "select user_id from onceward.users where lower(email) = lower($1) and disabled_at is null", email
    )
    if user_id is None:
        raise NotFound(f"user {email!r} does not exist or is disabled")
    return await create_link(tx, user_id, hours=hours, actor=actor)


async def redeem_link(tx: Transaction, token: str, *, session_hours: float = 12) -> Session:
    """Mark a link as used and open a session. A second use of the link fails. Runs as the engine."""
    user_id = None
    if len(token) == TOKEN_LENGTH:
        user_id = await tx.fetchval(
            USE_LINK,
            _hash(token),
        )
    if user_id is None:
        raise NotAuthenticated("the login link is unknown, used or expired")
    session = secrets.token_urlsafe(32)
    expires_at = await tx.fetchval(
        "insert into onceward.sessions (hash, user_id, expires_at)"
        " values ($1, $2, onceward.now() + make_interval(secs => $3)) returning expires_at",
        _hash(session),
        user_id,
        session_hours * 3600,
    )
    await audit.record(tx, "session.opened", entity_type="user", entity_id=user_id, actor=f"session:{user_id}")
    return Session(session, user_id, expires_at)


async def authenticate_session(conn: Connection, token: str, *, organization: UUID | None = None) -> Identity:
    """Return the identity of a session, which acts for `organization` or for the person's only organization."""
    row = await conn.fetchrow(FIND, _hash(token)) if len(token) == TOKEN_LENGTH else None
    if row is None:
        raise NotAuthenticated("the session is unknown or expired")
    roles: dict[UUID, Scope] = dict(zip(row["organizations"], row["roles"], strict=True))
    acting, scopes = _acting(roles, organization, admin=row["admin"])
    return Identity(
        "session", acting, scopes, sub=str(row["user_id"]), label=str(row["user_id"]), csrf=csrf_token(token)
    )


def _acting(roles: dict[UUID, Scope], requested: UUID | None, *, admin: bool) -> tuple[UUID | None, frozenset[Scope]]:
    if admin:
        return requested, frozenset({"admin"})
    if requested is None and len(roles) == 1:
        requested = next(iter(roles))
    if requested is None:
        return None, frozenset({"user"})
    if requested not in roles:
        raise NotAllowed(f"you are not a member of organization {requested}")
    return requested, frozenset({roles[requested]})


async def close_session(conn: Connection, token: str) -> None:
    """Delete a session. An unknown session is not an error."""
    await conn.execute("delete from onceward.sessions where hash = $1", _hash(token))


async def forget_expired(conn: Connection) -> None:
    """Delete expired sessions, and expired login links that were never used."""
    await conn.execute("delete from onceward.sessions where expires_at < onceward.now()")
    await conn.execute("delete from onceward.login_links where expires_at < onceward.now() and used_at is null")


def csrf_token(session: str) -> str:
    """Return the CSRF token that every form of this session must send. Other sites cannot know it."""
    digest = hmac.new(session.encode(), b"onceward csrf", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def csrf_matches(identity: Identity, given: Sequence[str | None]) -> bool:
    """Return whether one of the given values is the CSRF token of the session."""
    expected = identity.csrf or ""
    return bool(expected) and any(hmac.compare_digest(expected.encode(), (one or "").encode()) for one in given)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

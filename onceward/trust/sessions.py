"""Dashboard sessions. A one-time login link, a passkey or single sign-on opens a session; there are no passwords.

The database stores only hashes of tokens. The CSRF token is derived from the session token, so it is not stored and
ends with the session. A session ends when it expires, when it has been idle, and when the person or an administrator
ends it. A session that lacks a second factor that it needs is pending: it can only add or use a second factor.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import read_statement
from onceward.trust import audit
from onceward.trust.errors import NotAllowed, NotAuthenticated, NotFound, SecondFactorRequired
from onceward.trust.identity import Identity, Scope, SessionState

FIRST_ADMIN = "admin@localhost"
FIRST_ADMIN_LOCK = 0x61646D696E  # "admin"
TOKEN_LENGTH = 43

ADMIN_USE = read_statement("trust", "find_admin_use")
FIND = read_statement("trust", "find_session")
OPEN = read_statement("trust", "open_session")
USE_LINK = read_statement("trust", "use_login_link")

TOUCH = "update onceward.sessions set last_seen_at = onceward.now() where session_id = $1"
"""Runs at most once a minute per session, so that most requests write nothing."""

Method: TypeAlias = Literal["link", "passkey", "single_sign_on"]
"""How a session was opened."""


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """How long a session lasts, and for whom the instance requires a second factor."""

    hours: float = 12
    idle_minutes: float = 0
    """Minutes without a request after which the session ends; 0 means never."""
    second_factor: Literal["optional", "admins", "required"] = "optional"


@dataclass(frozen=True, slots=True)
class Device:
    """Where a session was opened, for the list of the person's own sessions."""

    browser: str = ""
    address: str = ""


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


async def redeem_link(
    tx: Transaction, token: str, *, policy: SessionPolicy | None = None, device: Device | None = None
) -> Session:
    """Mark a link as used and open a session. A second use of the link fails. Runs as the engine."""
    user_id = None
    if len(token) == TOKEN_LENGTH:
        user_id = await tx.fetchval(
            USE_LINK,
            _hash(token),
        )
    if user_id is None:
        raise NotAuthenticated("the login link is unknown, used or expired")
    return await open_session(tx, user_id, method="link", policy=policy, device=device)


async def open_session(
    tx: Transaction,
    user_id: UUID,
    *,
    method: Method,
    has_second_factor: bool = False,
    policy: SessionPolicy | None = None,
    device: Device | None = None,
) -> Session:
    """Open a session of a user who has just signed in. Runs as the engine."""
    policy, device = policy or SessionPolicy(), device or Device()
    token = secrets.token_urlsafe(32)
    expires_at = await tx.fetchval(
        OPEN,
        _hash(token),
        user_id,
        policy.hours * 3600,
        policy.idle_minutes * 60 or None,
        policy.second_factor,
        has_second_factor,
        method,
        device.browser,
        device.address,
    )
    await audit.record(
        tx,
        "session.opened",
        entity_type="user",
        entity_id=user_id,
        metadata={"method": method, "address": device.address},
        actor=f"session:{user_id}",
    )
    return Session(token, user_id, expires_at)


async def authenticate_session(
    conn: Connection,
    token: str,
    *,
    organization: UUID | None = None,
    allow_pending: bool = False,
    is_activity: bool = True,
) -> Identity:
    """Return the identity of a session, which acts for `organization` or for the person's only organization.

    Raises `SecondFactorRequired` for a pending session. With `allow_pending` it returns an identity that may nothing
    but add or use a second factor. `is_activity` says whether the session counts as used: an open page does not use it.
    """
    row = await conn.fetchrow(FIND, _hash(token)) if len(token) == TOKEN_LENGTH else None
    if row is None:
        raise NotAuthenticated("the session is unknown or expired")
    roles: dict[UUID, Scope] = {
        id: "user" if role == "member" else role for id, role in zip(row["organizations"], row["roles"], strict=True)
    }
    desk_roles: dict[UUID | None, str] = dict(zip(row["organizations"], row["desk_roles"], strict=True))
    acting, scopes = _acting(roles, organization, admin=row["admin"])
    is_needed = row["enrolled"] or row["required_everywhere"] or acting in row["requiring"]
    is_pending = is_needed and not row["has_second_factor"]
    if is_pending and not allow_pending:
        raise SecondFactorRequired(enrolled=row["enrolled"])
    if is_pending:
        acting, scopes = None, frozenset[Scope]({"user"})
    if is_activity and row["touch"]:
        await conn.execute(TOUCH, row["session_id"])
    user_id = str(row["user_id"])
    state = SessionState(
        row["session_id"], row["method"], row["confirmed_s_ago"], is_pending=is_pending, is_enrolled=row["enrolled"]
    )
    return Identity(
        "session",
        acting,
        scopes,
        sub=user_id,
        label=user_id,
        csrf=csrf_token(token),
        session=state,
        roles=frozenset(desk_roles.get(acting, "").split()),
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


async def close_session(tx: Transaction, token: str) -> None:
    """Delete a session. An unknown session is not an error. Runs as the engine."""
    user_id = await tx.fetchval("delete from onceward.sessions where hash = $1 returning user_id", _hash(token))
    if user_id is not None:
        await audit.record(tx, "session.closed", entity_type="user", entity_id=user_id, actor=f"session:{user_id}")


async def replace_token(tx: Transaction, session_id: UUID) -> str:
    """Record that the session used its second factor, and give it a new token. The old token stops working.

    A token that somebody planted or saw before the person signed in completely is worth nothing afterwards.
    """
    token = secrets.token_urlsafe(32)
    await tx.execute(
        "update onceward.sessions set hash = $2, second_factor_at = onceward.now(), confirmed_at = onceward.now()"
        " where session_id = $1",
        session_id,
        _hash(token),
    )
    return token


async def confirm_session(tx: Transaction, session_id: UUID, *, second_factor: bool) -> None:
    """Record that the person has just proven again who they are, with or without a second factor."""
    await tx.execute(
        "update onceward.sessions set confirmed_at = onceward.now(),"
        " second_factor_at = case when $2 then onceward.now() else second_factor_at end where session_id = $1",
        session_id,
        second_factor,
    )


async def forget_expired(conn: Connection) -> None:
    """Delete expired and idle sessions, and expired login links that were never used."""
    await conn.execute(
        "delete from onceward.sessions where expires_at < onceward.now() or last_seen_at + idle < onceward.now()"
    )
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

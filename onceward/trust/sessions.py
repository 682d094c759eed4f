"""People in the dashboard: one-time links open sessions; there are no passwords to lose.

Only hashes of tokens are kept. A session's CSRF token is derived from it, so it needs no storage and ends with it.
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
from onceward.trust import audit
from onceward.trust.errors import NotAllowed, NotAuthenticated, NotFound
from onceward.trust.identity import Identity, Scope

FIRST_ADMIN = "admin@localhost"
FIRST_ADMIN_LOCK = 0x61646D696E  # "admin"
TOKEN_LENGTH = 43

FIND = """
select u.user_id, u.email, u.name, u.admin,
       array(select m.organization_id from onceward.memberships m where m.user_id = u.user_id
             order by m.organization_id) as organizations,
       array(select m.role from onceward.memberships m where m.user_id = u.user_id
             order by m.organization_id) as roles
from onceward.sessions s join onceward.users u using (user_id)
where s.hash = $1 and s.expires_at > onceward.now() and u.disabled_at is null
"""


@dataclass(frozen=True, slots=True)
class Session:
    """An open session; `token` goes into the cookie and is kept nowhere."""

    token: str
    user_id: UUID
    expires_at: datetime


async def create_link(tx: Transaction, user_id: UUID, *, hours: float = 24, actor: str) -> str:
    """A token that logs this person in once; put it behind `/login?token=`. Runs as the engine."""
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


async def first_admin_link(db: Database) -> str | None:
    """On the very first start: an administrator, and the token to log in with. None once anybody has logged in.

    Until then every start makes a new link and voids the one before, so a line lost in the terminal is no harm.
    """
    async with db.transaction(role="engine") as tx:
        await tx.execute("select pg_advisory_xact_lock($1)", FIRST_ADMIN_LOCK)
        taken = await tx.fetchval(
            "select exists (select from onceward.login_links where used_at is not null)"
            " or exists (select from onceward.users where email <> $1)",
            FIRST_ADMIN,
        )
        if taken:
            return None
        user_id = await tx.fetchval(
            "insert into onceward.users (email, name, admin) values ($1, 'Administrator', true)"
            " on conflict (lower(email)) do update set admin = true returning user_id",
            FIRST_ADMIN,
        )
        await tx.execute("delete from onceward.login_links where user_id = $1", user_id)
        return await create_link(tx, user_id, hours=24, actor="system:first-start")


async def link_for(tx: Transaction, email: str, *, hours: float = 24, actor: str) -> str:
    """A login link for somebody already known. Runs as the engine."""
    user_id = await tx.fetchval(
        "select user_id from onceward.users where lower(email) = lower($1) and disabled_at is null", email
    )
    if user_id is None:
        raise NotFound(f"there is no user {email!r}")
    return await create_link(tx, user_id, hours=hours, actor=actor)


async def redeem_link(tx: Transaction, token: str, *, session_hours: float = 12) -> Session:
    """Use a link up and open a session, in one transaction; the second use of a link fails. Runs as the engine."""
    user_id = None
    if len(token) == TOKEN_LENGTH:
        user_id = await tx.fetchval(
            "update onceward.login_links l set used_at = onceward.now() from onceward.users u"
            " where l.hash = $1 and l.used_at is null and l.expires_at > onceward.now()"
            " and u.user_id = l.user_id and u.disabled_at is null returning l.user_id",
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
    """Who is in this session, acting for `organization`, or for the only one they belong to."""
    row = await conn.fetchrow(FIND, _hash(token)) if len(token) == TOKEN_LENGTH else None
    if row is None:
        raise NotAuthenticated("the session is unknown or expired")
    roles: dict[UUID, Scope] = dict(zip(row["organizations"], row["roles"], strict=True))
    acting, scopes = _acting(roles, organization, admin=row["admin"])
    return Identity(
        "session", acting, scopes, user_id=str(row["user_id"]), label=str(row["user_id"]), csrf=csrf_token(token)
    )


def _acting(roles: dict[UUID, Scope], wanted: UUID | None, *, admin: bool) -> tuple[UUID | None, frozenset[Scope]]:
    if admin:
        return wanted, frozenset({"admin"})
    if wanted is None and len(roles) == 1:
        wanted = next(iter(roles))
    if wanted is None:
        return None, frozenset({"user"})
    if wanted not in roles:
        raise NotAllowed(f"you are not a member of organization {wanted}")
    return wanted, frozenset({roles[wanted]})


async def close_session(conn: Connection, token: str) -> None:
    """Log out; unknown sessions are already closed."""
    await conn.execute("delete from onceward.sessions where hash = $1", _hash(token))


async def forget_expired(conn: Connection) -> None:
    """Drop what can no longer be used."""
    await conn.execute("delete from onceward.sessions where expires_at < onceward.now()")
    await conn.execute("delete from onceward.login_links where expires_at < onceward.now() and used_at is null")


def csrf_token(session: str) -> str:
    """What a form of this session must send along; other sites cannot know it."""
    digest = hmac.new(session.encode(), b"onceward csrf", hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def csrf_matches(identity: Identity, given: Sequence[str | None]) -> bool:
    """Whether any of the given values is this session's token."""
    expected = identity.csrf or ""
    return bool(expected) and any(hmac.compare_digest(expected.encode(), (one or "").encode()) for one in given)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()

"""The caller of a request and its scopes. Every authentication method returns an `Identity`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Literal, get_args
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.trust.errors import ConfirmationRequired, NotAllowed

Scope = Literal["user", "viewer", "operator", "owner", "admin"]
"""From the lowest to the highest: an end user; may read; may replay and pause; manages an organization; the
instance."""

Kind = Literal["key", "session", "token", "operator"]
"""An API key, a dashboard session, an end user's JWT, or a user of the command line."""

Permission = Literal["publish", "message", "enqueue", "work", "replay", "refund", "scan"]
"""What an API key can be allowed to do and nothing else: publish events, send messages, enqueue jobs and start
workflows, run external jobs, repeat failed work, pay money back, admit tickets. The scope operator includes all of
them."""
PERMISSIONS: tuple[str, ...] = get_args(Permission)

RANK: dict[str, int] = {scope: rank for rank, scope in enumerate(get_args(Scope))}


STAFF = "admins"
"""The name under which messages to the staff of an organization are stored."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a caller is. Two callers are the same one only if all three agree: a subject alone identifies nobody.

    The same subject may exist in another organization, and a JWT may carry any text as its subject.
    """

    organization: UUID | None
    kind: Kind
    sub: str

    def user_in(self, organization: UUID | None) -> str | None:
        """Return the id of the end user, or None if this is not the JWT of an end user of that organization."""
        return self.sub if self.kind == "token" and self.organization == organization else None

    @property
    def ref(self) -> str:
        """Return a name that no other principal of the organization has: for an end user their id.

        Others carry their kind (`session:...`), and so does an end user whose id looks like such a name.
        """
        first, colon, _ = self.sub.partition(":")
        is_plain = self.kind == "token" and self.sub != STAFF and not (colon and first in get_args(Kind))
        return self.sub if is_plain else f"{self.kind}:{self.sub}"


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """The apps and sources that an API key is limited to. A key with limits can use nothing else."""

    apps: frozenset[str] = frozenset()
    sources: frozenset[str] = frozenset()

    def allow(self, path: str) -> bool:
        """Return whether the key may call this path of the API at all."""
        if path == "/api/v1/me":
            return True
        _, _, rest = path.partition("/api/v1/")
        area, _, of = rest.partition("/")
        if area in self.apps:
            return True
        # The routes of events check the source of each event.
        return bool(self.sources) and (area == "events" or (area == "sources" and of.partition("/")[0] in self.sources))


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a dashboard session has proven."""

    session_id: UUID
    method: str
    confirmed_s_ago: float = field(compare=False)  # it grows, and the identity stays the same
    is_pending: bool
    """Whether the session lacks the second factor that it needs. Such a session can only add or use a second factor."""
    is_enrolled: bool
    """Whether the person has a second factor."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller, which acts for `organization`.

    None means the whole instance (scope admin), or an end user without an organization. `sub` is the id of the key, of
    the dashboard user or of the end user; it is meaningless without `kind` and `organization`, so compare `principal`.
    """

    kind: Kind
    organization: UUID | None
    scopes: frozenset[Scope]
    sub: str = ""
    label: str = ""
    csrf: str | None = None
    tier: str | None = None
    """The tier that the token of an end user names, for limits and log lines."""
    session: SessionState | None = None
    permissions: frozenset[Permission] = frozenset()
    """What a key may do in addition to its scopes."""
    roles: frozenset[str] = frozenset()
    """What a member of the organization is in the desks of apps: `library.librarian`."""
    limits: KeyLimits | None = None
    """The apps and sources that a key is limited to, or None."""

    @property
    def principal(self) -> Principal:
        return Principal(self.organization, self.kind, self.sub)

    def user_in(self, organization: UUID | None) -> str | None:
        """Return the id of the end user, or None if this is not the JWT of an end user of that organization."""
        return self.principal.user_in(organization)

    @property
    def member(self) -> UUID | None:
        """Return the id of the dashboard user whose session this is, or None."""
        return UUID(self.sub) if self.kind == "session" else None

    @property
    def key_id(self) -> UUID | None:
        """Return the id of the API key, or None."""
        return UUID(self.sub) if self.kind == "key" else None

    @property
    def reported_as(self) -> set[tuple[str | None, str | None]]:
        """Return the names under which the feed reports that the access of this caller changed."""
        names: set[tuple[str | None, str | None]] = {("organization", str(self.organization))}
        if self.kind == "key":
            names.add(("key", self.sub))
        elif self.session is not None:
            names |= {("user", self.sub), ("session", str(self.session.session_id))}
        return names

    @property
    def person(self) -> str | None:
        """Return the id of the person for the audit log, or None for a key and the command line."""
        return self.sub if self.kind in ("session", "token") else None

    @property
    def actor(self) -> str:
        """Return the name of this identity in the audit log."""
        return f"{self.kind}:{self.label or self.sub or 'unknown'}"

    def may(self, scope: Scope, *roles: str) -> bool:
        """Return whether the identity has this scope, a higher one, or one of these roles of a desk."""
        return any(RANK[own] >= RANK[scope] for own in self.scopes) or not self.roles.isdisjoint(roles)

    def require(self, scope: Scope, permission: Permission | None = None, *, roles: Iterable[str] = ()) -> None:
        """Raise `NotAllowed` unless the identity has this scope, or the permission or a role that is enough here."""
        if self.may(scope, *roles) or (permission is not None and permission in self.permissions):
            return
        own = ", ".join(sorted({*self.scopes, *self.permissions})) or "none"
        needed = f"the scope {scope}" if permission is None else f"the scope {scope} or {permission}"
        raise NotAllowed(f"this requires {needed}; {self.kind} {self.label!r} has: {own}")

    def may_use_source(self, source: str | None) -> bool:
        """Return whether the identity may see and replay events of this source. A key can be limited to some."""
        return self.limits is None or source in self.limits.sources

    def require_source(self, source: str | None) -> None:
        """Raise `NotAllowed` if the key is limited to other sources, or if it is limited and no source is named."""
        if self.limits is not None and not self.may_use_source(source):
            allowed = ", ".join(sorted(self.limits.sources))
            raise NotAllowed(f"key {self.label!r} is limited to the sources {allowed}: name one of them as `source`")

    def require_recent(self, minutes: float) -> None:
        """Raise `ConfirmationRequired` if this is a session whose person proved who they are too long ago."""
        if self.session is not None and self.session.confirmed_s_ago > minutes * 60:
            raise ConfirmationRequired


COMMAND_LINE = Identity("operator", None, frozenset({"admin"}), label="cli")
"""Who acts when a command runs on a machine that has the database's URL."""
"""A user of the command line has access to the database and therefore acts as an administrator of the instance."""


def transaction_for(db: Database, identity: Identity) -> AbstractAsyncContextManager[Transaction]:
    """Open a transaction that sees the rows of the identity's organization, or all rows for an instance admin."""
    if identity.organization is None and identity.may("admin"):
        return db.transaction(role="engine")
    return db.transaction(role="app", organization=identity.organization)

"""The caller of a request and its scopes. Every authentication method returns an `Identity`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.trust.errors import NotAllowed

Scope = Literal["user", "viewer", "operator", "owner", "admin"]
"""From the lowest to the highest: an end user; may read; may replay and pause; manages an organization; the instance."""

Kind = Literal["key", "session", "token", "operator"]
"""An API key, a dashboard session, an end user's JWT, or a user of the command line."""

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
class Identity:
    """An authenticated caller, which acts for `organization`.

    None means the whole instance (scope admin), or an end user without an organization. `sub` is the id of the key, of the
    dashboard user or of the end user; it is meaningless without `kind` and `organization`, so compare `principal`.
    """

    kind: Kind
    organization: UUID | None
    scopes: frozenset[Scope]
    sub: str = ""
    label: str = ""
    csrf: str | None = None
    tier: str | None = None
    """The tier that the token of an end user names, for limits and log lines."""

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
    def person(self) -> str | None:
        """Return the id of the person for the audit log, or None for a key and the command line."""
        return self.sub if self.kind in ("session", "token") else None

    @property
    def actor(self) -> str:
        """Return the name of this identity in the audit log."""
        return f"{self.kind}:{self.label or self.sub or 'unknown'}"

    def may(self, scope: Scope) -> bool:
        """Return whether the identity has this scope or a higher one."""
        return any(RANK[own] >= RANK[scope] for own in self.scopes)

    def require(self, scope: Scope) -> None:
        if not self.may(scope):
            own = ", ".join(sorted(self.scopes)) or "none"
            raise NotAllowed(f"this requires the scope {scope}; {self.kind} {self.label!r} has: {own}")


COMMAND_LINE = Identity("operator", None, frozenset({"admin"}), label="cli")
"""A user of the command line has access to the database and therefore acts as an administrator of the instance."""


def transaction_for(db: Database, identity: Identity) -> AbstractAsyncContextManager[Transaction]:
    """Open a transaction that sees the rows of the identity's organization, or all rows for an instance admin."""
    if identity.organization is None and identity.may("admin"):
        return db.transaction(role="engine")
    return db.transaction(role="app", organization=identity.organization)

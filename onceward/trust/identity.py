"""Who is asking, and what they may do. Every way to authenticate ends in an `Identity`."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, get_args
from uuid import UUID

from onceward.db import Database, Transaction
from onceward.trust.errors import NotAllowed

Scope = Literal["user", "viewer", "operator", "owner", "admin"]
"""In rising order: an end user, then read, then act (replay, pause), then manage an organization, then the instance."""

Kind = Literal["key", "session", "token", "operator"]
"""An API key, a person in the dashboard, an end user's JWT, or somebody at the command line."""

RANK: dict[str, int] = {scope: rank for rank, scope in enumerate(get_args(Scope))}


@dataclass(frozen=True, slots=True)
class Identity:
    """`organization` is the one acted for; None is the whole instance (scope admin) or an end user without one."""

    kind: Kind
    organization: UUID | None
    scopes: frozenset[Scope]
    user_id: str | None = None
    label: str = ""
    csrf: str | None = None

    @property
    def actor(self) -> str:
        """How the audit log names them."""
        return f"{self.kind}:{self.label or self.user_id or 'unknown'}"

    def may(self, scope: Scope) -> bool:
        """A higher scope includes the lower ones; an end user's token has none of the others."""
        return any(RANK[own] >= RANK[scope] for own in self.scopes)

    def require(self, scope: Scope) -> None:
        if not self.may(scope):
            own = ", ".join(sorted(self.scopes)) or "none"
            raise NotAllowed(f"this needs the scope {scope}; {self.kind} {self.label!r} has: {own}")


COMMAND_LINE = Identity("operator", None, frozenset({"admin"}), label="cli")
"""Who reaches the command line reaches the database: it is the instance's administrator."""


def transaction_for(db: Database, identity: Identity) -> AbstractAsyncContextManager[Transaction]:
    """A transaction that sees what this identity may see: its organization, or everything for an instance admin."""
    if identity.organization is None and identity.may("admin"):
        return db.transaction(role="engine")
    return db.transaction(role="app", organization=identity.organization)

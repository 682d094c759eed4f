"""Access rules of queries and topics: who may see them, and for which organization they run."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database
from onceward.feature import SealedColumn
from onceward.live.errors import SubscriptionRefused
from onceward.trust import Identity, Principal, RowId, Scope, SealedColumns

Verdict = bool | UUID
Rule = Scope | Literal["anyone", "self"] | Callable[["Caller"], Verdict | Awaitable[Verdict]]
"""Who is allowed: a scope that the caller must have; `anyone`, logged in or not; `self`, if the argument `user_id` is
the caller's own id; or a function that returns True, False, or the id of the organization that the query runs for."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The client that subscribes, with its arguments. Rule functions may read `db` and decrypt with `unseal`."""

    identity: Identity | None
    arguments: Mapping[str, Any]
    db: Database
    sealed_columns: SealedColumns

    def unseal(self, column: SealedColumn, sealed: bytes, *, row: RowId) -> bytes:
        """Decrypt a value of a sealed column, as `engine.unseal` does."""
        return self.sealed_columns.unseal(column, sealed, row=row)

    @property
    def organization(self) -> UUID | None:
        return None if self.identity is None else self.identity.organization

    def user_in(self, organization: UUID | None) -> str | None:
        """Return the id of the end user, or None if the caller is not an end user of that organization.

        Name the organization of what is asked about: another organization may have a user with the same id.
        """
        return None if self.identity is None else self.identity.user_in(organization)


@dataclass(frozen=True, slots=True)
class Viewer:
    """What a result depends on besides its arguments. Clients with equal viewers share a result."""

    organization: UUID | None
    everything: bool = False
    """True for an instance administrator without an organization, who is not restricted by row-level security."""
    principal: Principal | None = None
    """Set for queries whose result is each caller's own (`per="user"`)."""


async def admit(rule: Rule, caller: Caller, what: str) -> Viewer:
    """Return the viewer that the caller acts as. Raises `Refused` if the rule does not allow the caller."""
    verdict = await _evaluate(rule, caller)
    if verdict is False:
        raise SubscriptionRefused(f"the caller may not see {what}")
    organization = verdict if isinstance(verdict, UUID) else caller.organization
    everything = organization is None and caller.identity is not None and caller.identity.may("admin")
    return Viewer(organization, everything)


async def _evaluate(rule: Rule, caller: Caller) -> Verdict:
    if callable(rule):
        answer = rule(caller)
        return await answer if inspect.isawaitable(answer) else answer
    if rule == "anyone":
        return True
    if rule == "self":
        user = caller.user_in(caller.organization)
        return user is not None and str(caller.arguments.get("user_id")) == user
    return caller.identity is not None and caller.identity.may(rule)

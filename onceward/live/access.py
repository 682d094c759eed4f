"""Who may see a query or a topic, and for which organization it then runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from onceward.db import Database
from onceward.live.errors import Refused
from onceward.trust import Identity, Scope

Verdict = bool | UUID
Rule = Scope | Literal["anyone", "self"] | Callable[["Caller"], Verdict | Awaitable[Verdict]]
"""A scope that the caller must have; `anyone`, logged in or not; `self`: the argument `user_id` is the caller's own;
or a function of the caller, which says yes, no, or yes for this organization."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, and for what. `db` is for rules that must look something up."""

    identity: Identity | None
    arguments: Mapping[str, Any]
    db: Database

    @property
    def organization(self) -> UUID | None:
        return None if self.identity is None else self.identity.organization

    @property
    def user_id(self) -> str | None:
        return None if self.identity is None else self.identity.user_id


@dataclass(frozen=True, slots=True)
class Viewer:
    """All that a result may depend on besides its arguments: those who are the same to the database share it."""

    organization: UUID | None
    everything: bool = False
    """An instance administrator without an organization: not under row-level security."""
    user_id: str | None = None


async def admit(rule: Rule, caller: Caller, what: str) -> Viewer:
    """For whom the caller may see this, or `Refused`."""
    verdict = await _judge(rule, caller)
    if verdict is False:
        raise Refused(f"{what} is not for this caller")
    organization = verdict if isinstance(verdict, UUID) else caller.organization
    everything = organization is None and caller.identity is not None and caller.identity.may("admin")
    return Viewer(organization, everything)


async def _judge(rule: Rule, caller: Caller) -> Verdict:
    if callable(rule):
        answer = rule(caller)
        return await answer if inspect.isawaitable(answer) else answer
    if rule == "anyone":
        return True
    if rule == "self":
        return caller.user_id is not None and str(caller.arguments.get("user_id")) == caller.user_id
    return caller.identity is not None and caller.identity.may(rule)

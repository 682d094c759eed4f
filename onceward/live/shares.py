"""Who keeps which live queries running, so that one caller cannot use up the limit of an organization.

A caller pays for each query that it was the first to ask for. When it leaves, another subscriber pays. Queries that
nobody watches any more make room first. If the organization is at its limit, the caller with the most queries makes
room for one with fewer: it loses a query that nobody else watches.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from onceward.live.errors import TooMuch
from onceward.live.group import Group
from onceward.live.options import LiveOptions
from onceward.trust import Identity, Principal, fingerprint

Payer = Principal | bytes
"""A caller, or the hash of the address of clients without credentials."""


def payer_of(identity: Identity | None, client: str) -> Payer:
    """Return who pays for the queries of a connection from the address `client`."""
    return fingerprint(client) if identity is None else identity.principal


def is_person(payer: Payer) -> bool:
    """Return whether the limits of one caller apply: a key belongs to the software of the organization itself."""
    return isinstance(payer, bytes) or payer.kind != "key"


class Shares:
    """The groups of each organization by payer. Dictionaries are used as ordered sets: the newest group is the last."""

    def __init__(self, options: LiveOptions) -> None:
        self._options = options
        self._of: dict[UUID | None, dict[Payer, dict[Group, None]]] = {}
        self._counts: dict[UUID | None, int] = {}

    def make_room(self, organization: UUID | None, payer: Payer) -> Group | None:
        """Return the group that must end before the payer may have another one, if any. Raises `TooMuch` if none
        may."""
        own = self._of.get(organization, {}).get(payer, {})
        most = self._options.max_groups_per_caller
        if is_person(payer) and len(own) >= most:
            unwatched = next(_unwatched(own), None)
            if unwatched is None:
                raise TooMuch(f"the caller has reached its limit of {most} different live queries on this node")
            return unwatched
        most = self._options.max_groups_per_organization
        if self._counts.get(organization, 0) < most:
            return None
        group = self._of_the_largest(organization, more_than=len(own) + 1)
        if group is None:
            raise TooMuch(f"the organization has reached its limit of {most} different live queries on this node")
        return group

    def add(self, group: Group, payer: Payer) -> None:
        group.payer = payer
        organization = group.viewer.organization
        self._of.setdefault(organization, {}).setdefault(payer, {})[group] = None
        self._counts[organization] = self._counts.get(organization, 0) + 1

    def remove(self, group: Group) -> None:
        organization = group.viewer.organization
        payers = self._of[organization]
        del payers[group.payer][group]
        if not payers[group.payer]:
            del payers[group.payer]
        self._counts[organization] -= 1
        if not payers:
            del self._of[organization], self._counts[organization]

    def hand_over(self, group: Group, leaving: Payer) -> None:
        """Let another subscriber pay for the group if the one who leaves paid."""
        if group.payer == leaving and group.subscribers:
            self.remove(group)
            self.add(group, next(iter(group.subscribers)).connection.payer)

    def take_over(self, group: Group, payer: Payer) -> None:
        """Let the caller pay for a group that nobody watched, unless it is at its limit."""
        own = self._of[group.viewer.organization].get(payer, {})
        if len(own) < self._options.max_groups_per_caller:
            self.remove(group)
            self.add(group, payer)

    def _of_the_largest(self, organization: UUID | None, *, more_than: int) -> Group | None:
        """Return a group that nobody watches, or else the newest group that only the payer with the most groups
        watches."""
        payers = self._of.get(organization, {})
        for groups in payers.values():
            if (unwatched := next(_unwatched(groups), None)) is not None:
                return unwatched
        payer, groups = max(payers.items(), key=lambda item: len(item[1]))
        if len(groups) <= more_than:
            return None
        for group in reversed(groups):
            if all(subscription.connection.payer == payer for subscription in group.subscribers):
                return group
        return None


def _unwatched(groups: dict[Group, None]) -> Iterator[Group]:
    return (group for group in groups if not group.subscribers)

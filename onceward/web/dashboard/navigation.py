"""The navigation menu: its sections, their scopes and their keyboard shortcuts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from onceward.trust.identity import Identity, Scope

Group = Literal["", "Activity", "Records", "Setup", "Machine", "Apps"]
GROUPS: tuple[Group, ...] = ("", "Activity", "Records", "Setup", "Machine", "Apps")


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the menu. It is hidden if its `table` does not exist. `instance` data belongs to no organization."""

    name: str
    title: str
    path: str
    key: str
    table: str
    scope: Scope = "viewer"
    instance: bool = False
    group: Group = "Apps"
    order: int = 100
    """Smaller numbers come first within the group."""
    roles: tuple[str, ...] = ()
    """Roles of a desk that are enough, without the scope."""


def navigation(
    sections: Iterable[Section], tables: frozenset[str], identity: Identity
) -> list[tuple[str, list[Section]]]:
    """Return the groups with the sections that are installed and that this identity may see."""
    visible = [
        each
        for each in sorted(sections, key=lambda each: each.order)
        if each.table in tables
        and identity.may(each.scope, *each.roles)
        and (not each.instance or identity.organization is None)
    ]
    groups = [(group, [each for each in visible if each.group == group]) for group in GROUPS]
    return [(group, entries) for group, entries in groups if entries]

"""The section `organizations` of `onceward apply`: name, weight and the roles of members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from pydantic import Field

from onceward.configuration import Applying, Change, Entry, all_new, differences
from onceward.trust.organizations import (
    MOST_WEIGHT,
    Role,
    create_organization,
    find_organization,
    list_members,
    remove_member,
    set_member,
    set_weight,
)


class OrganizationEntry(Entry):
    """One organization, by its slug."""

    name: str = ""
    weight: int = Field(1, ge=1, le=MOST_WEIGHT)
    members: dict[str, Role] | None = None
    """Roles by mail address. Omitted: members are not touched; otherwise these are all."""


class Organizations:
    """Creates organizations, and sets their weights and members. It deletes none: that would delete their data."""

    name = "organizations"
    entry = OrganizationEntry

    async def plan(self, applying: Applying, entries: Mapping[str, OrganizationEntry]) -> list[Change]:
        changes: list[Change] = []
        for slug, entry in entries.items():
            wanted: dict[str, Any] = {"weight": entry.weight}
            if entry.members is not None:
                wanted["members"] = {address.strip().lower(): role for address, role in sorted(entry.members.items())}
            id: UUID | None = await applying.db.fetchval(
                "select organization_id from onceward.organizations where slug = $1", slug
            )
            if id is None:
                run = _creating(applying, slug, entry)
                changes.append(Change("create", slug, all_new({"name": entry.name or slug, **wanted}), run))
                continue
            async with applying.db.transaction(role="engine") as tx:
                known = await find_organization(tx.conn, slug)
                members = {each.email.lower(): each.role for each in await list_members(tx.conn, id)}
            before = {"weight": known.weight, "members": dict(sorted(members.items()))}
            if fields := differences(before, wanted):
                changes.append(Change("change", slug, fields, _changing(applying, id, entry)))
        return changes

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        return None


def _creating(applying: Applying, slug: str, entry: OrganizationEntry) -> Any:
    async def run() -> str:
        async with applying.db.transaction(role="engine") as tx:
            made = await create_organization(tx, slug, name=entry.name, actor=applying.actor)
        await _changing(applying, made.organization_id, entry)()
        return str(made.organization_id)

    return run


def _changing(applying: Applying, id: UUID, entry: OrganizationEntry) -> Any:
    async def run() -> None:
        async with applying.db.transaction(role="engine", organization=id) as tx:
            if await tx.fetchval("select weight from onceward.organizations where organization_id = $1", id) != (
                entry.weight
            ):
                await set_weight(tx, id, entry.weight, actor=applying.actor)
            if entry.members is None:
                return
            wanted: dict[str, Role] = {address.strip().lower(): role for address, role in entry.members.items()}
            present = {each.email.lower(): each for each in await list_members(tx.conn, id)}
            for address, role in wanted.items():
                if address not in present or present[address].role != role:
                    await set_member(tx, id, address, role, actor=applying.actor)
            for address, member in present.items():
                if address not in wanted:
                    await remove_member(tx, id, member.user_id, actor=applying.actor)

    return run


SECTIONS = (Organizations(),)

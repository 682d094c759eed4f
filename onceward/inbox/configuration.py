"""The section `sources` of `onceward apply`: where webhooks arrive, and with which secrets they are verified."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from uuid import UUID

from pydantic import Field, field_validator

from onceward.configuration import (
    HIDDEN,
    Applying,
    Change,
    Changed,
    ConfigurationRefused,
    Entry,
    SecretText,
    all_new,
    differences,
    read_reference,
)
from onceward.inbox import source_limits, sources
from onceward.inbox.source import SECRET_OPTIONS, Mode, unseal
from onceward.trust import SecretBox
from onceward.trust.secrets import secret_box
from onceward.webhooks.provider import ConfigError

FIXED = ("provider", "mode", "public_url", "tolerance_s", "ordering", "rate_per_s", "max_body_bytes", "retention_days")
"""They decide which events have arrived already: a source with other ones is another source."""


class SourceEntry(Entry):
    """One source, by its name. The fields are those of `onceward sources add`."""

    provider: str
    organization: str | None = None
    secrets: list[SecretText] = Field([])
    """The newest first. A new one is added; the older ones stay valid for a day."""
    options: dict[str, Any] = Field({})
    mode: Mode = "ack"
    app: str | None = None
    public_url: str | None = None
    tolerance_s: int | None = None
    ordering: bool = False
    rate_per_s: float | None = None
    requests_per_s: float | None = None
    requests_at_once: int | None = None
    max_body_bytes: int = Field(1 << 20, ge=1)
    retention_days: int | None = None
    paused: bool = False

    @field_validator("options")
    @classmethod
    def _secret_options(cls, given: dict[str, Any]) -> dict[str, Any]:
        return {name: read_reference(value) if name in SECRET_OPTIONS else value for name, value in given.items()}


class Sources:
    """Adds sources, and changes their secrets, app, limits and pause."""

    name = "sources"
    entry = SourceEntry

    async def plan(self, applying: Applying, entries: Mapping[str, SourceEntry]) -> list[Change]:
        box = secret_box(applying.settings)
        changes: list[Change] = []
        for name, entry in entries.items():
            where = f"sources.{name}"
            organization = await applying.organization(entry.organization, where)
            row = await applying.db.fetchrow(
                "select * from onceward.sources where name = $1 and deleted_at is null", name
            )
            if row is None:
                shown = entry.model_dump(exclude={"secrets", "options"}, exclude_defaults=True)
                hidden = {key: HIDDEN if key in SECRET_OPTIONS else value for key, value in entry.options.items()}
                fields = all_new({**shown, "options": hidden, "secrets": HIDDEN if entry.secrets else None})
                changes.append(Change("create", name, fields, partial(_create, applying, box, name, entry)))
                continue
            if applying.awaits(entry.organization, organization) or row["organization_id"] != organization:
                raise ConfigurationRefused(f"{where}.organization: the source belongs to another organization")
            if row["origin"] != "stored":
                raise ConfigurationRefused(f"{where}: this source comes from the {row['origin']}: change it there")
            secrets, hidden = unseal(box, row["webhook_id"], row["secrets"])
            fields = _differences(where, entry, row, [each.value for each in secrets], {**row["options"], **hidden})
            if fields:
                id = row["webhook_id"]
                changes.append(Change("change", name, fields, partial(_change, applying, box, id, entry, fields)))
        return changes

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        row = await applying.db.fetchrow(
            "select webhook_id from onceward.sources where webhook_id = $1::uuid and deleted_at is null", id
        )
        return None if row is None else Change("delete", name, {}, partial(_delete, applying, row["webhook_id"]))


def _differences(
    where: str, entry: SourceEntry, row: Any, secrets: list[str], options: Mapping[str, Any]
) -> dict[str, Changed]:
    """Return what differs. Raises `ConfigurationRefused` for a field that a source keeps for its life."""
    fixed = {name: row[name] for name in FIXED}
    wanted = {name: getattr(entry, name) for name in FIXED}
    if entry.tolerance_s is None:
        wanted["tolerance_s"] = fixed["tolerance_s"]  # that of the sender
    moved = [*differences(fixed, wanted), *(["options"] if dict(options) != entry.options else [])]
    if moved:
        raise ConfigurationRefused(
            f"{where}.{moved[0]}: it cannot be changed: events of the source depend on it. Add a source with another"
            " name, switch the sender over, and remove this one"
        )
    names = ("app", "requests_per_s", "requests_at_once")
    fields = differences({name: row[name] for name in names}, {name: getattr(entry, name) for name in names})
    if (row["paused_at"] is not None) != entry.paused:
        fields["paused"] = Changed(not entry.paused, entry.paused)
    if entry.secrets and (not secrets or secrets[0] != entry.secrets[0]):
        fields["secrets"] = Changed(HIDDEN, HIDDEN)
    return fields


async def _create(applying: Applying, box: SecretBox, name: str, entry: SourceEntry) -> str:
    organization = await applying.organization(entry.organization, f"sources.{name}")
    given = entry.model_dump(exclude={"organization", "paused", "secrets"})
    new = sources.NewSource(name=name, organization=organization, secrets=tuple(entry.secrets), **given)
    try:
        async with applying.db.transaction(role="engine") as tx:
            added = await sources.add(tx, box, new, actor=applying.actor)
            if entry.paused:
                await sources.pause(tx, str(added.webhook_id), actor=applying.actor)
    except ConfigError as error:
        raise ConfigurationRefused(f"sources.{name}: {error}") from None
    return str(added.webhook_id)


async def _change(
    applying: Applying, box: SecretBox, id: UUID, entry: SourceEntry, fields: Mapping[str, Changed]
) -> None:
    async with applying.db.transaction(role="engine") as tx:
        name = str(id)
        if "secrets" in fields:
            await sources.rotate(tx, box, name, entry.secrets[0], actor=applying.actor)
        if "app" in fields:
            await sources.assign(tx, name, entry.app, actor=applying.actor)
        if fields.keys() & {"requests_per_s", "requests_at_once"}:
            await source_limits.limit(
                tx,
                name,
                requests_per_s=entry.requests_per_s,
                requests_at_once=entry.requests_at_once,
                actor=applying.actor,
            )
        if "paused" in fields:
            await (sources.pause if entry.paused else sources.resume)(tx, name, actor=applying.actor)


async def _delete(applying: Applying, id: UUID) -> None:
    async with applying.db.transaction(role="engine") as tx:
        await sources.delete(tx, str(id), actor=applying.actor)


SECTIONS = (Sources(),)

"""The sections `event_types` and `endpoints` of `onceward apply`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

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
from onceward.outbox.catalogue import EventType, check_name, save
from onceward.outbox.endpoint import EndpointFields
from onceward.outbox.endpoints import Endpoints, find_fields
from onceward.outbox.errors import Invalid
from onceward.outbox.outbox import OutboxOptions, guarded_client
from onceward.trust import audit
from onceward.trust.secrets import secret_box

SECRETS = ("headers", "auth")


class EventTypeEntry(Entry):
    """One event type, by its name. For types that no app declares."""

    description: str = ""
    schema_: dict[str, Any] = Field(default_factory=dict[str, Any], alias="schema")
    sample: Any


class EventTypes:
    """Adds and changes event types. It deletes none: endpoints may name them."""

    name = "event_types"
    entry = EventTypeEntry

    async def plan(self, applying: Applying, entries: Mapping[str, EventTypeEntry]) -> list[Change]:
        rows = await applying.db.fetch(
            "select name, description, schema, sample, declared_by from onceward.event_types"
        )
        known = {row["name"]: row for row in rows}
        changes: list[Change] = []
        for name, entry in entries.items():
            row = known.get(name)
            try:
                check_name(name)
            except Invalid as error:
                raise ConfigurationRefused(f"event_types.{name}: {error.reason}") from None
            if row is not None and row["declared_by"] != "api":
                raise ConfigurationRefused(
                    f"event_types.{name}: {row['declared_by']} declares this type: change it there"
                )
            wanted = {"description": entry.description, "schema": entry.schema_, "sample": entry.sample}
            run = partial(_save_type, applying, name, entry)
            if row is None:
                changes.append(Change("create", name, all_new(wanted), run))
            elif fields := differences(dict(row), wanted):
                changes.append(Change("change", name, fields, run))
        return changes

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        return None


async def _save_type(applying: Applying, name: str, entry: EventTypeEntry) -> str:
    async with applying.db.transaction(role="engine") as tx:
        await save(tx, [EventType(name, description=entry.description, schema=entry.schema_, sample=entry.sample)])
        await audit.record(tx, "event_type.declared", entity_type="event_type", entity_id=name, actor=applying.actor)
    return name


class AuthEntry(Entry):
    """How we authenticate towards an endpoint (docs/outbox.md)."""

    kind: Literal["oauth", "mutual_tls"]
    token_url: str | None = None
    client_id: str | None = None
    client_secret: SecretText | None = None
    scope: str | None = None
    audience: str | None = None
    certificate: SecretText | None = None
    private_key: SecretText | None = None


def _read_header(value: Any) -> Any:
    return value if isinstance(value, str) else read_reference(value)


Header = Annotated[str, BeforeValidator(_read_header)]
"""A plain text, or a reference if it is secret."""


class EndpointEntry(Entry):
    """One endpoint. Its name in the file is only a name in the file."""

    url: str
    organization: str | None = None
    events: list[str] = Field(["*"])
    secret: SecretText | None = None
    """Omitted: generated when it is created. A changed one signs beside the old one for a day."""
    description: str = ""
    channels: list[str] | None = None
    headers: dict[str, Header] = Field({})
    metadata: dict[str, Any] = Field({})
    owner: str | None = None
    max_in_flight: int | None = None
    rate_per_s: float | None = None
    ordered: bool = False
    retry_waits_s: list[float] | None = None
    ed25519: bool = False
    filter: str | None = None
    transform: str | None = None
    auth: AuthEntry | None = None
    source: str | None = None

    def fields(self) -> EndpointFields:
        given = self.model_dump(exclude={"organization", "auth"})
        return EndpointFields(**given, auth=None if self.auth is None else self.auth.model_dump(exclude_none=True))


class EndpointSection:
    """Creates, changes and deletes endpoints."""

    name = "endpoints"
    entry = EndpointEntry

    async def plan(self, applying: Applying, entries: Mapping[str, EndpointEntry]) -> list[Change]:
        changes: list[Change] = []
        for name, entry in entries.items():
            organization = await applying.organization(entry.organization, f"endpoints.{name}")
            wanted = entry.fields()
            try:
                wanted.check()
            except Invalid as error:
                raise ConfigurationRefused(f"endpoints.{name}.{error}") from None
            id = applying.ids.get(("endpoints", name))
            present = None if id is None else await find_fields(applying.db, secret_box(applying.settings), UUID(id))
            if present is None:
                run = partial(_create, applying, name, entry)
                changes.append(Change("create", name, all_new(_shown(wanted)), run))
                continue
            if applying.awaits(entry.organization, organization) or present.organization != organization:
                raise ConfigurationRefused(
                    f"endpoints.{name}.organization: the endpoint belongs to another organization; give the new one"
                    " another name"
                )
            before, after = _values(present.fields), _values(wanted)
            if wanted.url != present.fields.url and wanted.url.rstrip("/") == present.fields.url.rstrip("/"):
                after["url"] = before["url"]
            fields = differences(before, after)
            fields = {key: Changed(HIDDEN, HIDDEN) if key in SECRETS else each for key, each in fields.items()}
            if entry.secret is not None and not present.signs_with(entry.secret):
                fields["secret"] = Changed(HIDDEN, HIDDEN)
            if fields:
                run = partial(_change, applying, UUID(id or ""), organization, entry, fields)
                changes.append(Change("change", name, fields, run))
        return changes

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        present = await find_fields(applying.db, secret_box(applying.settings), UUID(id))
        if present is None:
            return None
        return Change("delete", name, {}, partial(_delete, applying, UUID(id), present.organization))


def _values(fields: EndpointFields) -> dict[str, Any]:
    names = set(EndpointFields.__dataclass_fields__) - {"secret"}
    values = {name: getattr(fields, name) for name in sorted(names)}
    for name in ("events", "channels", "retry_waits_s"):
        values[name] = None if values[name] is None else list(values[name])
    values["channels"] = None if values["channels"] is None else sorted(set(values["channels"]))
    return {**values, "headers": dict(values["headers"]), "metadata": dict(values["metadata"])}


def _shown(fields: EndpointFields) -> dict[str, Any]:
    values = _values(fields)
    return {name: HIDDEN if value and name in SECRETS else value for name, value in values.items()}


class _Opened:
    """The endpoints of the database with an HTTP client, which checks addresses."""

    def __init__(self, applying: Applying) -> None:
        options = OutboxOptions(allow_loopback_http=applying.settings.allow_loopback_endpoints)
        self._client = guarded_client(options)
        self._endpoints = Endpoints(applying.db, box=secret_box(applying.settings), client=self._client)

    async def __aenter__(self) -> Endpoints:
        return self._endpoints

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()


async def _create(applying: Applying, name: str, entry: EndpointEntry) -> str:
    organization = await applying.organization(entry.organization, f"endpoints.{name}")
    try:
        async with _Opened(applying) as endpoints:
            made = await endpoints.register(organization, entry.fields(), actor=applying.actor)
    except Invalid as error:
        raise ConfigurationRefused(f"endpoints.{name}.{error}") from None
    return str(made.endpoint.endpoint_id)


async def _change(
    applying: Applying, id: UUID, organization: UUID | None, entry: EndpointEntry, fields: Mapping[str, Changed]
) -> None:
    wanted = entry.fields()
    changes = {name: getattr(wanted, name) for name in fields if name != "secret"}
    try:
        async with _Opened(applying) as endpoints:
            if changes:
                await endpoints.change(organization, id, changes, actor=applying.actor)
            if "secret" in fields:
                await endpoints.rotate_secret(organization, id, actor=applying.actor, secret=entry.secret)
    except Invalid as error:
        raise ConfigurationRefused(f"endpoints.{error}") from None


async def _delete(applying: Applying, id: UUID, organization: UUID | None) -> None:
    async with _Opened(applying) as endpoints:
        await endpoints.delete(organization, id, actor=applying.actor)


SECTIONS = (EventTypes(), EndpointSection())

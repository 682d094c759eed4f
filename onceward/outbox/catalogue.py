"""The catalogue of event types, with a JSON Schema and a sample of each.

Apps declare event types with `app.event_type(...)`. At start each process writes them to the database, so that every
process can check the subscriptions of an endpoint against them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel, TypeAdapter, ValidationError

from onceward.db import Connection, Transaction
from onceward.outbox.errors import Invalid, UnknownType
from onceward.outbox.finite import find_non_finite
from onceward.statements import read_statement

NAME = re.compile(r"^[a-z0-9_-]+(\.[a-z0-9_-]+)*$")
MAX_NAME = 128
MAX_SCHEMA_BYTES = 64 << 10

SAVE = read_statement("outbox", "save_event_type")

DECLARED_OVER_API = "select 1 from onceward.event_types where name = $1 and declared_by = 'api'"


@dataclass(frozen=True, slots=True)
class EventType:
    """One event type. If it was declared with a model, `adapter` validates and serialises its data."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any])
    sample: Any = field(default_factory=dict[str, Any])
    declared_by: str = "api"
    adapter: TypeAdapter[Any] | None = field(default=None, repr=False, compare=False)


class Catalogue:
    """The event types of one process."""

    def __init__(self) -> None:
        self._types: dict[str, EventType] = {}

    def declare(
        self, name: str, model: Any = None, *, sample: Any, description: str = "", declared_by: str = "app"
    ) -> EventType:
        """Add an event type. A sample that matches the model is required, because customers develop against the
        sample."""
        check_name(name)
        if sample is None:
            raise ValueError(f"event type {name!r} has no sample; pass sample=... with example data")
        if name in self._types:
            raise ValueError(f"event type {name!r} is declared twice; use a name that no other event type has")
        adapter: TypeAdapter[Any] | None = None if model is None else TypeAdapter(model)
        if adapter is not None:
            try:
                sample = adapter.dump_python(adapter.validate_python(sample), mode="json", by_alias=True)
            except ValidationError as error:
                raise ValueError(
                    f"the sample of event type {name!r} does not match its model: {_first(error)}"
                ) from None
        declared = EventType(
            name,
            description=description or (model.__doc__ or "").strip().split("\n")[0]
            if model is not None
            else description,
            schema={} if adapter is None else adapter.json_schema(by_alias=True, mode="serialization"),
            sample=sample,
            declared_by=declared_by,
            adapter=adapter,
        )
        self._types[name] = declared
        return declared

    def include(self, other: Catalogue) -> None:
        for each in other:
            if each.name in self._types:
                raise ValueError(f"event type {each.name!r} is declared by two apps; rename one of them")
            self._types[each.name] = each

    async def check_published(self, conn: Connection | Transaction, name: str) -> None:
        """Raise `UnknownType` unless the type was declared by an app of this process or over the API."""
        check_name(name)
        if self._types and name not in self._types and not await conn.fetchval(DECLARED_OVER_API, name):
            raise UnknownType("type", f"{name!r} is not in the catalogue{_nearest(name, self._types)}")

    def dump(self, name: str, data: Any) -> str:
        """Return the data as JSON text.

        Raises `Invalid` if it does not match the model that an app of this process declared.
        """
        event_type = self._types.get(name)
        try:
            if event_type is not None and event_type.adapter is not None:
                data = event_type.adapter.validate_python(data)
                text = event_type.adapter.dump_json(data, by_alias=True).decode()
            elif isinstance(data, BaseModel):
                text = data.model_dump_json(by_alias=True)
            else:
                text = orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z).decode()
            if "null" in text and (found := find_non_finite(data)) is not None:
                path, number = found
                raise Invalid("data", f"of {name} has {number} at {path}: JSON has no such number; send null or a text")
            return text
        except ValidationError as error:
            raise Invalid("data", f"does not match the model of {name}: {_first(error)}") from None
        except (TypeError, ValueError) as error:
            raise Invalid("data", f"of {name} cannot be written as JSON: {error}") from None

    def __iter__(self) -> Iterator[EventType]:
        return iter(self._types.values())

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __len__(self) -> int:
        return len(self._types)


def check_name(name: str) -> None:
    if not NAME.match(name) or len(name) > MAX_NAME:
        raise Invalid("type", f"{name[:MAX_NAME]!r} must be lower-case words joined by dots, like `order.paid`")


async def save(conn: Connection | Transaction, types: Iterable[EventType]) -> None:
    """Write event types to the database. `conn` must run as the engine. Several nodes may do so at the same time."""
    for each in sorted(types, key=lambda one: one.name):
        if len(orjson.dumps(each.schema)) > MAX_SCHEMA_BYTES:
            raise Invalid("schema", f"of {each.name} has more than {MAX_SCHEMA_BYTES} bytes; shorten it")
        await conn.execute(SAVE, each.name, each.description, dict(each.schema), each.sample, each.declared_by)


async def known(conn: Connection | Transaction) -> list[EventType]:
    """Return the whole catalogue, sorted by name."""
    rows = await conn.fetch(
        "select name, description, schema, sample, declared_by from onceward.event_types order by 1"
    )
    return [EventType(**dict(row)) for row in rows]


async def check_subscription(conn: Connection | Transaction, events: Iterable[str]) -> None:
    """Raise `UnknownType` unless every entry is a known type, `*`, or a prefix like `order.*` of a known type."""
    names = [row["name"] for row in await conn.fetch("select name from onceward.event_types")]
    for event in events:
        if event == "*" or event in names:
            continue
        if event.endswith(".*") and any(name.startswith(event[:-1]) for name in names):
            continue
        raise UnknownType("events", f"{event!r} is not in the catalogue{_nearest(event, names)}")


def _nearest(name: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(names), n=1, cutoff=0.6)
    return (
        f"; did you mean {close[0]!r}?" if close else "; declare it with app.event_type(...) or PUT /api/v1/event-types"
    )


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "data"
    return f"{where}: {first['msg']}"

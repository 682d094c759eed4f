"""Assertions about what an app has caused: jobs, messages, published events and broadcasts.

Each returns what it found, so that a test can look further. If nothing matches, the error lists what there is instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from onceward.engine import Engine
from onceward.work import JobTask

MOST_LISTED = 20


@dataclass(frozen=True, slots=True)
class SentMessage:
    """A message that the app queued."""

    id: int
    template: str
    recipient: str
    channel: str
    key: str
    data: dict[str, Any]
    status: str


@dataclass(frozen=True, slots=True)
class PublishedEvent:
    """An event that the app published to outbound endpoints."""

    id: int
    type: str
    key: str | None
    data: Any


@dataclass(frozen=True, slots=True)
class BroadcastMessage:
    """A message that the app sent to the subscribers of a topic."""

    id: int
    topic: str
    payload: Any


async def assert_enqueued(engine: Engine, job: JobTask[..., Any] | str, /, **arguments: Any) -> int:
    """Assert that an unfinished job with at least these arguments exists, and return its id."""
    name = job if isinstance(job, str) else job.name
    rows = await engine.db.fetch(
        "select j.id, j.task, j.args from onceward.jobs j join onceward.work w using (id) order by j.id"
    )
    for row in rows:
        if row["task"] == name and contains(row["args"], arguments):
            return row["id"]
    raise _none(f"unfinished job {name} with {arguments}", [f"{row['task']} {row['args']}" for row in rows])


async def assert_not_enqueued(engine: Engine, job: JobTask[..., Any] | str, /, **arguments: Any) -> None:
    """Assert that no unfinished job with these arguments exists."""
    try:
        id = await assert_enqueued(engine, job, **arguments)
    except AssertionError:
        return
    name = job if isinstance(job, str) else job.name
    raise AssertionError(f"job {id} ({name} with {arguments}) is enqueued, but should not be")


async def assert_sent(
    engine: Engine,
    template: str,
    /,
    *,
    to: str | None = None,
    key: str | None = None,
    channel: str | None = None,
    data: dict[str, Any] | None = None,
    count: int | None = None,
) -> list[SentMessage]:
    """Assert that messages of this template were queued, and return them.

    The other arguments limit which messages count: `to` is the recipient's ref or address, `data` a part of the data.
    `count` is the exact number of messages; without it, one or more.
    """
    rows = await engine.db.fetch(
        "select id, template, recipient, address, channel, key, data, status from onceward.messages order by id"
    )
    matching = [
        SentMessage(
            row["id"], row["template"], row["recipient"], row["channel"], row["key"], row["data"] or {}, row["status"]
        )
        for row in rows
        if row["template"] == template
        and (to is None or to in (row["recipient"], row["address"]))
        and (key is None or row["key"] == key)
        and (channel is None or row["channel"] == channel)
        and (data is None or contains(row["data"], data))
    ]
    given = _described(to=to, key=key, channel=channel, data=data)
    _count(
        matching,
        count,
        f"message {template}{given}",
        [f"{r['template']} to {r['recipient']}, key {r['key']}" for r in rows],
    )
    return matching


async def assert_published(
    engine: Engine,
    type: str,
    /,
    *,
    data: dict[str, Any] | None = None,
    key: str | None = None,
    count: int | None = None,
) -> list[PublishedEvent]:
    """Assert that events of this type were published to outbound endpoints, and return them.

    `data` is a part of the event's data. `count` is the exact number of events; without it, one or more.
    """
    rows = await engine.db.fetch("select id, type, key, body from onceward.published order by id")
    events = [
        PublishedEvent(
            row["id"], row["type"], row["key"], None if row["body"] is None else orjson.loads(row["body"])["data"]
        )
        for row in rows
    ]
    matching = [
        event
        for event in events
        if event.type == type and (key is None or event.key == key) and (data is None or contains(event.data, data))
    ]
    _count(
        matching,
        count,
        f"published event {type}{_described(key=key, data=data)}",
        [f"{event.type} {event.data}" for event in events],
    )
    return matching


async def assert_broadcast(
    engine: Engine, topic: str, /, *, payload: dict[str, Any] | None = None, count: int | None = None
) -> list[BroadcastMessage]:
    """Assert that messages were sent to the subscribers of a topic, and return them.

    `payload` is a part of the message. `count` is the exact number of messages; without it, one or more.
    """
    rows = await engine.db.fetch("select id, topic, payload from onceward.topic_messages order by id")
    matching = [
        BroadcastMessage(row["id"], row["topic"], row["payload"])
        for row in rows
        if row["topic"] == topic and (payload is None or contains(row["payload"], payload))
    ]
    _count(
        matching,
        count,
        f"broadcast to {topic}{_described(payload=payload)}",
        [f"{row['topic']} {row['payload']}" for row in rows],
    )
    return matching


def contains(whole: Any, part: Any) -> bool:
    """Return whether `whole` has at least what `part` has. Dictionaries are compared key by key, other values as
    JSON."""
    if isinstance(part, dict):
        if not isinstance(whole, dict):
            return False
        members = cast("dict[str, Any]", whole)
        return all(
            name in members and contains(members[name], value) for name, value in cast("dict[str, Any]", part).items()
        )
    return whole == part or orjson.dumps(whole, default=str) == orjson.dumps(part, default=str)


def _described(**given: Any) -> str:
    named = ", ".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
    return f" with {named}" if named else ""


def _count(matching: Sequence[object], count: int | None, what: str, existing: list[str]) -> None:
    if count is None and not matching:
        raise _none(what, existing)
    if count is not None and len(matching) != count:
        raise AssertionError(f"expected {count} of {what}, found {len(matching)}; existing:\n{_listed(existing)}")


def _none(what: str, existing: list[str]) -> AssertionError:
    return AssertionError(f"no {what}; existing:\n{_listed(existing)}")


def _listed(existing: list[str]) -> str:
    lines = [f"  {line[:200]}" for line in existing[:MOST_LISTED]]
    if len(existing) > MOST_LISTED:
        lines.append(f"  and {len(existing) - MOST_LISTED} more")
    return "\n".join(lines) or "  none"

"""Topics: messages that are sent when the transaction commits, and never if it rolls back.

`occupancy/{org}/{event_id}` declares a family of topics; a client subscribes to one of them. A message belongs to the
organization of the transaction that sent it, and only that organization sees it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import orjson

from onceward.db import Connection, Transaction, dump_json, is_storable, json_contains_nul
from onceward.live.access import Rule
from onceward.live.errors import UnknownTopic
from onceward.live.feed import TopicMessage
from onceward.live.snapshot import Snapshot
from onceward.statements import read_statement

LONGEST_TOPIC = 300
LARGEST_PAYLOAD = 64 * 1024
SEGMENT = re.compile(r"^(\{[a-z_][a-z0-9_]*\}|[A-Za-z0-9_.:-]+)$")

INSERT = "insert into onceward.topic_messages (organization_id, topic, payload) values ($1, $2, $3::jsonb)"

REPLAY = read_statement("live", "replay_topic")


@dataclass(frozen=True, slots=True)
class Topic:
    """A declared family of topics. With `presence`, its topics are also places that users can enter."""

    pattern: str
    allow: Rule
    replay: int
    presence: bool
    form: re.Pattern[str]

    @classmethod
    def declare(cls, pattern: str, *, allow: Rule, replay: int, presence: bool) -> Topic:
        segments = pattern.split("/")
        for segment in segments:
            if not SEGMENT.match(segment):
                raise ValueError(
                    f"topic {pattern!r}: {segment!r} must be a word or a {{name}}; separate the parts with /"
                )
        names = [segment[1:-1] for segment in segments if segment.startswith("{")]
        if len(set(names)) != len(names):
            raise ValueError(f"topic {pattern!r} contains the same {{name}} twice")
        if replay < 0:
            raise ValueError(f"topic {pattern!r}: replay must be 0 or more, not {replay}")
        parts = [f"(?P<{each[1:-1]}>[^/]+)" if each.startswith("{") else re.escape(each) for each in segments]
        return cls(pattern, allow, replay, presence, re.compile("^" + "/".join(parts) + "$"))

    def match(self, topic: str) -> Mapping[str, str] | None:
        match = self.form.match(topic)
        return None if match is None else match.groupdict()


def find(topics: Mapping[str, Topic], topic: str, *, presence: bool = False) -> tuple[Topic, Mapping[str, str]]:
    """Return the declaration that a topic matches, and the values of its named parts. Raises `UnknownTopic`."""
    for declared in topics.values():
        if presence and not declared.presence:
            continue
        parts = declared.match(topic) if len(topic) <= LONGEST_TOPIC else None
        if parts is not None:
            return declared, parts
    raise UnknownTopic(f"no declared {'place' if presence else 'topic'} matches {topic[:LONGEST_TOPIC]!r}")


async def broadcast(tx: Transaction, topic: str, payload: Any) -> None:
    """Send a message to all subscribers of `topic` when this transaction commits."""
    if not topic or len(topic) > LONGEST_TOPIC:
        raise ValueError(f"a topic must have 1 to {LONGEST_TOPIC} characters, not {len(topic)}")
    try:
        text = dump_json(payload)
    except TypeError as error:
        raise ValueError(f"topic {topic!r}: the payload cannot be written as JSON: {error}") from None
    if not is_storable(topic) or json_contains_nul(text):
        raise ValueError(f"topic {topic!r}: the topic or its payload contains NUL, which PostgreSQL cannot store")
    if len(text) > LARGEST_PAYLOAD:
        raise ValueError(
            f"topic {topic}: the payload has {len(text)} bytes, at most {LARGEST_PAYLOAD} are allowed; "
            "send what changed, and let a live query carry the data"
        )
    await tx.execute(INSERT, tx.organization, topic, payload)


async def replay(
    conn: Connection, organization: UUID | None, topic: str, *, upto: Snapshot, since: Snapshot | None, limit: int
) -> list[TopicMessage]:
    """Return the latest messages of a topic that `upto` sees and `since` does not see, oldest first."""
    rows = await conn.fetch(REPLAY, topic, organization, str(upto), None if since is None else str(since), limit)
    return [TopicMessage(row["organization_id"], row["topic"], row["id"], row["at"], row["payload"]) for row in rows]


def message_text(message: TopicMessage) -> str:
    """Return a message as the JSON text that frames contain."""
    return orjson.dumps({"id": message.id, "at": message.at, "data": message.payload}).decode()


class TopicChannel:
    """The newest messages of one topic of one organization, shared by its subscribers on this node."""

    __slots__ = ("_recent", "followers", "organization", "position", "topic")

    def __init__(self, organization: UUID | None, topic: str, *, keep: int) -> None:
        self.organization = organization
        self.topic = topic
        self.position = 0
        self.followers: set[Any] = set()
        self._recent: deque[str] = deque(maxlen=keep)

    def add(self, message: TopicMessage) -> None:
        self._recent.append(message_text(message))
        self.position += 1

    def after(self, position: int) -> tuple[list[str], bool]:
        """Return the messages after a position, and whether some of them are no longer kept."""
        missing = self.position - position
        recent = list(self._recent)
        return recent[max(0, len(recent) - missing) :] if missing else [], missing > len(recent)

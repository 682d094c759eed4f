"""The queries and topics of an app."""

from __future__ import annotations

from typing import Any

from onceward.live.errors import UnknownQuery
from onceward.live.query import QueryDefinition
from onceward.live.topics import Topic


class LiveRegistry:
    """The queries and topics that clients can subscribe to. Names are unique."""

    def __init__(self) -> None:
        self.queries: dict[str, QueryDefinition[..., Any]] = {}
        self.topics: dict[str, Topic] = {}

    def __bool__(self) -> bool:
        return bool(self.queries or self.topics)

    def add(self, definition: QueryDefinition[..., Any]) -> None:
        existing = self.queries.get(definition.name)
        if existing is not None and existing is not definition:
            raise ValueError(
                f"two live queries are called {definition.name!r}; give one of them another name with name="
            )
        self.queries[definition.name] = definition

    def add_topic(self, topic: Topic) -> None:
        existing = self.topics.get(topic.pattern)
        if existing is not None and existing is not topic:
            raise ValueError(f"topic {topic.pattern!r} is declared twice; remove one declaration")
        self.topics[topic.pattern] = topic

    def include(self, other: LiveRegistry) -> None:
        for definition in other.queries.values():
            self.add(definition)
        for topic in other.topics.values():
            self.add_topic(topic)

    def query(self, name: str) -> QueryDefinition[..., Any]:
        definition = self.queries.get(name)
        if definition is None:
            raise UnknownQuery(f"there is no live query called {name[:100]!r}")
        return definition

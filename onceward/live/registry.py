"""The queries and topics of an app."""

from __future__ import annotations

from onceward.live.errors import UnknownQuery
from onceward.live.query import QueryDefinition
from onceward.live.topics import Topic


class LiveRegistry:
    """What clients may ask for. A name stands for one thing."""

    def __init__(self) -> None:
        self.queries: dict[str, QueryDefinition] = {}
        self.topics: dict[str, Topic] = {}

    def __bool__(self) -> bool:
        return bool(self.queries or self.topics)

    def add(self, definition: QueryDefinition) -> None:
        known = self.queries.get(definition.name)
        if known is not None and known is not definition:
            raise ValueError(f"there are two live queries called {definition.name!r}; give one of them a name=")
        self.queries[definition.name] = definition

    def add_topic(self, topic: Topic) -> None:
        known = self.topics.get(topic.pattern)
        if known is not None and known is not topic:
            raise ValueError(f"topic {topic.pattern!r} is declared twice")
        self.topics[topic.pattern] = topic

    def include(self, other: LiveRegistry) -> None:
        for definition in other.queries.values():
            self.add(definition)
        for topic in other.topics.values():
            self.add_topic(topic)

    def query(self, name: str) -> QueryDefinition:
        found = self.queries.get(name)
        if found is None:
            raise UnknownQuery(f"there is no live query {name[:100]!r}")
        return found

"""How live behaves in one process, checked when it is made."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Times in seconds. The limits are per process: a cluster of three allows three times as much."""

    poll_busy_s: float = 0.01
    """Between two looks at the feed while changes keep coming."""
    poll_quiet_s: float = 0.1
    """Between two looks when nothing has changed for a while; a wake-up cuts it short."""
    runners: int = 4
    """Queries that run at the same time; each takes a database connection."""
    query_timeout_s: float = 10.0
    linger_s: float = 5.0
    """How long a result without subscribers is kept for those who reconnect."""
    ping_s: float = 25.0
    hello_s: float = 10.0
    """How long a connection may stay silent before it says who it is."""
    recheck_s: float = 300.0
    """How often a connection's credential and permissions are looked at again."""
    retention_s: float = 300.0
    """How long the feed is kept: a node or client away for longer starts afresh."""
    topic_retention_s: float = 86_400.0
    topic_replay: int = 100
    """Messages of a topic that are kept for replay, at most."""
    presence_s: float = 300.0
    report_s: float = 5.0
    max_connections: int = 20_000
    max_connections_per_organization: int = 10_000
    max_groups_per_organization: int = 5_000
    max_subscriptions_per_connection: int = 200
    max_places_per_connection: int = 20
    max_message_bytes: int = 65_536
    max_messages_per_s: float = 50.0
    origins: tuple[str, ...] = ()
    """Origins of pages that may connect besides our own."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "origins" and value <= 0:
                raise ValueError(f"live option {field.name} must be above 0, not {value}")
        if self.poll_busy_s > self.poll_quiet_s:
            raise ValueError(f"poll_busy_s={self.poll_busy_s} must not be above poll_quiet_s={self.poll_quiet_s}")

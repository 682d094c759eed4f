"""The options of live queries in one process, checked at construction."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """Limits apply per process: three processes together allow three times as much."""

    poll_busy_s: float = 0.01
    """The pause between two reads of the feed while there are changes."""
    poll_quiet_s: float = 0.1
    """The pause when nothing has changed for a while. A wake-up ends it early."""
    runners: int = 4
    """The number of queries that run concurrently. Each uses a database connection."""
    query_timeout_s: float = 10.0
    linger_s: float = 5.0
    """How long a result without subscribers is kept for clients that reconnect."""
    ping_s: float = 25.0
    hello_s: float = 10.0
    """How long a new connection may take to send `hello`."""
    recheck_s: float = 300.0
    """The interval between checks of a connection's credentials and permissions."""
    retention_s: float = 300.0
    """How long changes stay in the feed. A node that was disconnected for longer runs all its queries again."""
    topic_retention_s: float = 86_400.0
    topic_replay: int = 100
    """The maximum number of messages per topic that are kept for replay."""
    presence_s: float = 300.0
    report_s: float = 5.0
    max_connections: int = 20_000
    max_connections_per_organization: int = 10_000
    max_connections_per_caller: int = 200
    """Of one signed-in person or end user. API keys have the limit of their organization only."""
    max_groups_per_organization: int = 5_000
    max_groups_per_caller: int = 500
    """Different queries of one signed-in person, one end user, or one address without credentials."""
    max_subscriptions_per_connection: int = 200
    max_places_per_connection: int = 20
    max_message_bytes: int = 65_536
    max_messages_per_s: float = 50.0
    origins: tuple[str, ...] = ()
    """Further origins whose pages may connect."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "origins" and value <= 0:
                raise ValueError(f"live option {field.name} must be greater than 0, not {value}")
        if self.poll_busy_s > self.poll_quiet_s:
            raise ValueError(
                f"poll_busy_s={self.poll_busy_s} must not be greater than poll_quiet_s={self.poll_quiet_s}"
            )

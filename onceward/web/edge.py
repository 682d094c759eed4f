"""The limits of one server for clients before authentication: sizes, times, connections, WebSocket frames.

One `Edge` belongs to one server. It counts the connections, in total and per client address, and visits every open
connection about once a second to enforce the time limits. The whole server has one timer: a connection only records
when it started to wait, in the edge's own clock.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from onceward.settings import Settings
from onceward.telemetry import get_logger
from onceward.web import metrics
from onceward.web.settings import WebSettings

log = get_logger("onceward.web")

TICK_S = 0.25
SLOTS = 4
"""Each tick visits one slot of connections, so each connection is visited once in SLOTS ticks."""
REPORT_S = 10.0
"""All refusals of this interval are logged as one line."""
CROWDED = 0.8
"""The share of the connection limit above which a warning is logged and idle connections are closed early."""
CROWDED_IDLE_S = 2.0
BURST_S = 5.0
"""A burst may use the frame budget of this number of seconds."""


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """Sizes in bytes, times in seconds. docs/security.md explains each one.

    Those without a setting have one right value.
    """

    head_bytes: int = 32 * 1024
    headers: int = 100
    url_bytes: int = 8 * 1024
    head_s: float = 15.0
    body_s: float = 30.0
    idle_s: float = 75.0
    write_s: float = 30.0
    connections: int = 25_000
    connections_per_address: int = 256
    descriptor_reserve: int = 256
    frames_per_s: float = 100.0
    frames_per_s_per_address: float = 1000.0
    trusted_proxies: tuple[str, ...] = ("127.0.0.1",)

    @classmethod
    def of(cls, settings: Settings) -> EdgeLimits:
        """Return the limits from the settings of this process."""
        own = settings.of(WebSettings)
        return cls(
            head_s=own.http_head_timeout_s,
            body_s=own.http_body_timeout_s,
            idle_s=own.http_idle_timeout_s,
            write_s=own.http_write_timeout_s,
            connections=own.http_max_connections,
            connections_per_address=own.http_max_connections_per_address,
            trusted_proxies=settings.trusted_proxies,
        )


class FrameBudget:
    """A token bucket: `rate` frames per second, with a burst of `BURST_S` seconds."""

    __slots__ = ("_at", "_left", "_rate")

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._left = rate * BURST_S
        self._at = now

    def take(self, frames: int, now: float) -> bool:
        """Count these frames. Returns False if they exceed the budget."""
        self._refill(now)
        self._left = max(self._left - frames, -self._rate)
        return self._left >= 0

    def is_spent(self, now: float) -> bool:
        self._refill(now)
        return self._left < 0

    def is_full(self, now: float) -> bool:
        self._refill(now)
        return self._left >= self._rate * BURST_S

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * self._rate, self._rate * BURST_S)
        self._at = now


class Address:
    """The connections and frames of one client address."""

    __slots__ = ("connections", "frames")

    def __init__(self, frames: FrameBudget) -> None:
        self.connections = 0
        self.frames = frames


class Visited(Protocol):
    """A connection that the edge visits."""

    def visit(self, now: float) -> None:
        """Close the connection if it has waited for too long."""


@dataclass(frozen=True, slots=True)
class EdgeRefusal:
    """The reason why a connection is refused, and its response."""

    status: int
    reason: str
    """A value of the metric's label."""
    text: str


class Edge:
    """The connections of one server."""

    def __init__(self, limits: EdgeLimits | None = None) -> None:
        self.limits = limits or EdgeLimits()
        self.now = 0.0
        """Seconds of service. Time in which the event loop was blocked does not count, so clients do not time out."""
        self.idle_s = self.limits.idle_s
        self.count = 0
        self.refused: Counter[str] = Counter()
        """Refusals since the last log line, by reason."""
        self._proxies = ProxyHeadersMiddleware(_no_app, list(self.limits.trusted_proxies)).trusted_hosts
        self._slots: list[set[Visited]] = [set() for _ in range(SLOTS)]
        self._turn = 0
        self._addresses: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ticked_at = 0.0
        self._report_at = self._tidy_at = 0.0
        self._is_crowded = False
        self.descriptors, self.backlog = _descriptors(self.limits.descriptor_reserve)
        """The first file descriptor of the reserve, and the length of the accept queue."""

    # -- connections ---------------------------------------------------------------------------------------------------

    def address_of(self, host: str | None, forwarded_for: str | None = None) -> Address | None:
        """Return the counters of a client, or None for a trusted proxy, whose connections many clients share."""
        if host is None:
            return None
        if host in self._proxies:
            if not forwarded_for:
                return None
            host = self._proxies.get_trusted_client_address(forwarded_for)[0]
        key = _network(host)
        address = self._addresses.get(key)
        if address is None:
            address = self._addresses[key] = Address(FrameBudget(self.limits.frames_per_s_per_address, self.now))
        return address

    def objection(self, address: Address | None, descriptor: int) -> EdgeRefusal | None:
        """Return why a new connection must be refused, or None."""
        if descriptor >= self.descriptors:
            return EdgeRefusal(503, "descriptors", "the server has no connection left")
        if self.count >= self.limits.connections:
            return EdgeRefusal(503, "connections", "the server has no connection left")
        if address is not None and address.connections >= self.limits.connections_per_address:
            return EdgeRefusal(429, "address", "too many connections from this address")
        used = max(self.count / self.limits.connections, descriptor / self.descriptors)
        if used >= CROWDED and not self._is_crowded:
            self._is_crowded = True
            self.idle_s = min(CROWDED_IDLE_S, self.limits.idle_s)
            log.warning(
                "web.connections_nearly_exhausted",
                connections=self.count,
                max_connections=self.limits.connections,
                descriptor=descriptor,
                max_descriptors=self.descriptors,
            )
        return None

    def enter(self, connection: Visited, address: Address | None) -> None:
        """Count a connection and visit it from now on."""
        self.count += 1
        if address is not None:
            address.connections += 1
        self._slots[self.count % SLOTS].add(connection)
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._ticked_at = loop.time()
            self._timer = loop.call_later(TICK_S, self._tick, loop)

    def leave(self, connection: Visited, address: Address | None) -> None:
        """Stop counting a connection. A connection that never entered is ignored."""
        for slot in self._slots:
            if connection in slot:
                slot.discard(connection)
                self.count -= 1
                if address is not None:
                    address.connections -= 1
                return

    def refuse(self, reason: str) -> None:
        """Count a refusal by its reason."""
        metrics.REFUSED.labels(reason).inc()
        self.refused[reason] += 1

    # -- time
    # ------------------------------------------------------------------------------------------------------------

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._visit_slot(loop.time())
        finally:  # a visit that fails must not end the time limits of all connections
            waits = self.count or self.refused
            self._timer = loop.call_later(TICK_S, self._tick, loop) if waits else None

    def _visit_slot(self, at: float) -> None:
        self.now += min(at - self._ticked_at, 2 * TICK_S)
        self._ticked_at = at
        self._turn = (self._turn + 1) % SLOTS
        for connection in list(self._slots[self._turn]):
            try:
                connection.visit(self.now)
            except Exception:
                log.exception("web.visit_failed")
        metrics.CONNECTIONS.set(self.count)
        if self.refused and self.now >= self._report_at:
            self._report()
        if self.now >= self._tidy_at:
            self._tidy()

    def _report(self) -> None:
        self._report_at = self.now + REPORT_S
        log.warning("web.clients_refused", connections=self.count, refused=dict(self.refused))
        self.refused.clear()

    def _tidy(self) -> None:
        """Delete the counters of unused addresses, and end the crowded state when enough connections are free."""
        self._tidy_at = self.now + REPORT_S
        if self._is_crowded and self.count < self.limits.connections * CROWDED * 0.75 and self._descriptors_are_free():
            self._is_crowded = False
            self.idle_s = self.limits.idle_s
        self._addresses = {
            key: address
            for key, address in self._addresses.items()
            if address.connections or not address.frames.is_full(self.now)
        }

    def _descriptors_are_free(self) -> bool:
        return self.count < self.descriptors * CROWDED * 0.75

    def close(self) -> None:
        """Stop the timer. The server closes the connections."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.refused:
            self._report()


def _descriptors(reserve: int) -> tuple[int, int]:
    """Return the first file descriptor of the reserve, and the length of the accept queue.

    The kernel assigns the lowest free number, so a socket with number n shows that n descriptors are in use. The server
    accepts a full queue before it can refuse anything, so the queue must fit into the reserve too.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return 2**31, 2048
    backlog = 2048 if limit >= 16_384 else 128
    return limit - min(reserve + backlog, limit // 2), backlog


def _network(host: str) -> str:
    """Return the key of a client's counters: the IPv4 address, or the /64 network of an IPv6 address."""
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))


async def _no_app(*_: object) -> None:
    """An empty application for the middleware that parses the trusted proxies."""

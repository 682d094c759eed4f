"""Decide where an event's work goes: its task, queue and lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import structlog

from onceward import exact_json
from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import EXTERNAL_QUEUE, FORWARD_TASK, QUEUE, UNHANDLED_QUEUE, Handler, task_name
from onceward.inbox.headers import Kept, as_json
from onceward.inbox.source import Source
from onceward.webhooks.provider import ReceivedItem

log = structlog.get_logger(__name__)

MOST_RAW_BYTES = 4 << 20
MOST_SHARED_ROUTES = 1000
AS_RAW = ""
"""Stands for a payload that equals the raw body. It is stored once, and parsed when it is read."""


@dataclass(frozen=True, slots=True, eq=False)
class SharedRoute:
    """The values shared by events of one source and type with the same headers and the same route.

    Such events share one object where possible, so objects are compared by identity.
    """

    source: Source
    type: str
    headers: str
    task: str
    queue: str
    lane: str | None
    ordered: bool
    followers: tuple[str, ...]


class RoutedEvent(NamedTuple):
    """One event and the route of its work. A tuple, because it is created for every request and must be cheap."""

    shared: SharedRoute
    event_id: str
    payload: str | None
    raw: bytes | None
    signature: str | None
    unstorable: bool


Batch = Sequence[RoutedEvent]
"""The events of one request. Either all of them are committed or the request fails."""


class Route(NamedTuple):
    """The part of the route that is the same for all events of one source and type."""

    task: str
    queue: str
    lane: str | None
    handler: Handler | None
    followers: tuple[str, ...]
    by_event: bool
    """Whether the lane depends on the subject of the event."""


class EventRouter:
    """Decides the task, queue and lane of each event's work."""

    def __init__(self, catalog: Catalog, handlers: dict[str, Handler]) -> None:
        self._catalog = catalog
        self._handlers = handlers
        self._routes: dict[tuple[str, str], Route] = {}
        self._shared_routes: dict[tuple[str, str, Kept], SharedRoute] = {}
        self._version = -1

    def route_event(
        self, source: Source, item: ReceivedItem, raw: bytes | None, signature: str | None, headers: Kept
    ) -> RoutedEvent:
        if self._version != self._catalog.version:
            self._forget()
        shared = self._shared_routes.get((source.route, item.type, headers)) or self._share_route(source, item, headers)
        payload = None if item.unstorable else _payload(source, item, raw)
        return RoutedEvent(shared, item.event_id, payload, raw, signature, item.unstorable)

    def _forget(self) -> None:
        self._version = self._catalog.version
        self._routes.clear()
        self._shared_routes.clear()

    def _share_route(self, source: Source, item: ReceivedItem, headers: Kept) -> SharedRoute:
        route = self.route(source, item.type)
        lane, ordered = self._lane(source, item, route) if route.by_event else (route.lane, False)
        shared = SharedRoute(
            source, item.type, as_json(headers), route.task, route.queue, lane, ordered, route.followers
        )
        if not route.by_event:
            # Most senders repeat the same headers. Headers with counters or dates fill the cache, which is then
            # emptied.
            if len(self._shared_routes) >= MOST_SHARED_ROUTES:
                self._shared_routes.clear()
            self._shared_routes[source.route, item.type, headers] = shared
        return shared

    def route(self, source: Source, type: str) -> Route:
        """Return the route of a source and type. It is cached until the catalog is read again."""
        if self._version != self._catalog.version:
            self._forget()
        route = self._routes.get((source.route, type))
        if route is None:
            route = self._routes[source.route, type] = self._find_route(source, type)
        return route

    def _find_route(self, source: Source, type: str) -> Route:
        known = self._catalog.handles(source, type)
        task = known or task_name(source.provider.name, type, app=source.app)
        handler = self._handlers.get(task)
        lane = source.lane if source.rate_per_s is not None else None
        by_event = source.ordering or (handler is not None and handler.ordering is not False)
        queue = QUEUE if known is not None else UNHANDLED_QUEUE
        if source.mode == "external":
            queue, lane, by_event = EXTERNAL_QUEUE, str(source.webhook_id), False
        elif source.mode == "forward":
            task, queue, handler, by_event = FORWARD_TASK, QUEUE, None, False
            lane = source.lane if source.paused or source.rate_per_s is not None else None
        elif source.paused and not by_event:
            lane = source.lane  # a claim skips the lane of a paused source, however many events it has
        followers = () if known is None else self._catalog.followers(known)
        return Route(task, queue, lane, handler, followers, by_event)

    def _lane(self, source: Source, item: ReceivedItem, route: Route) -> tuple[str | None, bool]:
        subject = self._subject(item, route)
        if subject is None and source.ordering:
            subject = item.ordering
        if route.lane is not None:
            # A rate belongs to a lane, so all events of a rate-limited source share one lane.
            return route.lane, subject is not None
        if subject is None:
            return (source.lane if source.paused else None), False
        if len(subject) > 200 or not subject.isprintable():
            subject = sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()
        return f"{source.lane}:{subject}", True

    def _subject(self, item: ReceivedItem, route: Route) -> str | None:
        if route.handler is None or item.unstorable:
            return None
        try:
            return route.handler.lane_key(item.payload, item.ordering)
        except Exception as error:
            # The app's own function failed. The event is still stored, without an order.
            log.warning("ordering.failed", task=route.task, error=type(error).__name__)
            return None


def _payload(source: Source, item: ReceivedItem, raw: bytes | None) -> str:
    # Compared by identity: a payload that was split off or unwrapped has its own text.
    if raw is None or item.text is not raw:
        return exact_json.dumps(item.payload)
    # Workers in other languages read the column `payload`, which only a plain column lets them insert, too.
    return raw.decode() if source.mode == "external" else AS_RAW


def batch(
    router: EventRouter, source: Source, items: Sequence[ReceivedItem], raw: bytes, signature: str | None, headers: Kept
) -> Batch:
    """Return the events of a request. If copies of the raw body would be too large, only the first event stores it."""
    everywhere = len(items) * len(raw) <= MOST_RAW_BYTES or len(items) == 1
    return [
        router.route_event(source, item, raw if everywhere or n == 0 else None, signature, headers)
        for n, item in enumerate(items)
    ]

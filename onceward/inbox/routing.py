"""Where an event's work goes: which task, which queue, which lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import structlog

from onceward.inbox.catalog import Catalog
from onceward.inbox.handlers import EXTERNAL_QUEUE, PAUSED_QUEUE, QUEUE, UNHANDLED_QUEUE, Handler, task_name
from onceward.inbox.headers import Kept, as_json
from onceward.inbox.source import Source
from onceward.providers import exact_json
from onceward.providers.inbound.provider import ReceivedItem

log = structlog.get_logger(__name__)

MOST_RAW_BYTES = 4 << 20
MOST_COMMONS = 1000
AS_RAW = ""
"""In place of a payload: the raw body is its JSON, and PostgreSQL reads it from there."""


@dataclass(frozen=True, slots=True, eq=False)
class Common:
    """What is the same for events of one source and type that came with the same headers and go the same way.

    One object for all of them as far as possible, so they are told apart by identity.
    """

    source: Source
    type: str
    headers: str
    task: str
    queue: str
    lane: str | None
    ordered: bool
    followers: tuple[str, ...]


class Placed(NamedTuple):
    """One event, with where its work goes. A tuple, because one is made for each request."""

    common: Common
    event_id: str
    payload: str | None
    raw: bytes | None
    signature: str | None
    unstorable: bool

    @property
    def payload_text(self) -> str | None:
        """The payload as JSON, wherever it is."""
        return self.raw.decode() if self.payload == AS_RAW and self.raw is not None else self.payload


Batch = Sequence[Placed]
"""The events of one request. All of them are committed, or the request fails as a whole."""


class Route(NamedTuple):
    """Where events of one source and type go, as far as it does not depend on the event."""

    task: str
    queue: str
    lane: str | None
    handler: Handler | None
    followers: tuple[str, ...]
    by_event: bool
    """The lane depends on what the event is about."""


class Placer:
    """Decides where an event's work goes: which queue, which lane, under which name."""

    def __init__(self, catalog: Catalog, handlers: dict[str, Handler]) -> None:
        self._catalog = catalog
        self._handlers = handlers
        self._routes: dict[tuple[str, str], Route] = {}
        self._commons: dict[tuple[str, str, Kept], Common] = {}
        self._version = -1

    def place(
        self, source: Source, item: ReceivedItem, raw: bytes | None, signature: str | None, headers: Kept
    ) -> Placed:
        if self._version != self._catalog.version:
            self._forget()
        common = self._commons.get((source.route, item.type, headers)) or self._common(source, item, headers)
        if item.unstorable:
            payload = None
        else:
            # The very bytes, not equal ones: a payload that was split off or unwrapped has a text of its own.
            payload = AS_RAW if raw is not None and item.text is raw else exact_json.dumps(item.payload)
        return Placed(common, item.event_id, payload, raw, signature, item.unstorable)

    def _forget(self) -> None:
        self._version = self._catalog.version
        self._routes.clear()
        self._commons.clear()

    def _common(self, source: Source, item: ReceivedItem, headers: Kept) -> Common:
        route = self.route(source, item.type)
        lane, ordered = self._lane(source, item, route) if route.by_event else (route.lane, False)
        common = Common(source, item.type, as_json(headers), route.task, route.queue, lane, ordered, route.followers)
        if not route.by_event:
            # Most senders' headers are the same on every request. Of those that number or date theirs few are kept.
            if len(self._commons) >= MOST_COMMONS:
                self._commons.clear()
            self._commons[source.route, item.type, headers] = common
        return common

    def route(self, source: Source, type: str) -> Route:
        """Worked out once, until sources or handlers change."""
        if self._version != self._catalog.version:
            self._forget()
        found = self._routes.get((source.route, type))
        if found is None:
            found = self._routes[source.route, type] = self._work_out(source, type)
        return found

    def _work_out(self, source: Source, type: str) -> Route:
        known = self._catalog.handles(source, type)
        task = known or task_name(source.provider.name, type)
        handler = self._handlers.get(task)
        lane = source.lane if source.rate_per_s is not None else None
        by_event = source.ordering or (handler is not None and handler.ordering is not False)
        queue = QUEUE if known is not None else UNHANDLED_QUEUE
        if source.mode == "external":
            queue, lane, by_event = EXTERNAL_QUEUE, str(source.webhook_id), False
        if source.paused:
            queue = PAUSED_QUEUE
        followers = () if known is None else self._catalog.followers(known)
        return Route(task, queue, lane, handler, followers, by_event)

    def _lane(self, source: Source, item: ReceivedItem, route: Route) -> tuple[str | None, bool]:
        subject = self._subject(item, route)
        if subject is None and source.ordering:
            subject = item.ordering
        if route.lane is not None:
            # One lane has one rate: all of a paced source's events go through it, in order if any of them must.
            return route.lane, subject is not None
        if subject is None:
            return None, False
        if len(subject) > 200 or not subject.isprintable():
            subject = sha256(subject.encode("utf-8", "surrogatepass")).hexdigest()
        return f"order:{source.webhook_id}:{subject}", True

    def _subject(self, item: ReceivedItem, route: Route) -> str | None:
        if route.handler is None or item.unstorable:
            return None
        try:
            return route.handler.lane_key(item.payload, item.ordering)
        except Exception as error:
            # The user's own function. The event is taken all the same, and waits for nobody.
            log.warning("ordering_failed", task=route.task, error=type(error).__name__)
            return None


def batch(
    placer: Placer, source: Source, items: Sequence[ReceivedItem], raw: bytes, signature: str | None, headers: Kept
) -> Batch:
    """The events of a request. A body that is split into very many events is kept with the first of them only."""
    everywhere = len(items) * len(raw) <= MOST_RAW_BYTES or len(items) == 1
    return [
        placer.place(source, item, raw if everywhere or n == 0 else None, signature, headers)
        for n, item in enumerate(items)
    ]

"""The core of a node: it takes changes from the feed, runs each affected query once, and sends changed results.

Why no change is missed: a run starts after advance `n` was read, so it sees every change up to `n`. When the run ends,
the hub compares its dependencies with the advances read since then. If one of them matches, the query runs again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import UUID

from onceward.background import Loop, Tasks
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import FAILED, Database
from onceward.db.callers import Caller, calling_as
from onceward.live import metrics
from onceward.live.access import Viewer
from onceward.live.connection import Connection
from onceward.live.errors import LiveError, QueryFault, TooMuch
from onceward.live.feed import ACCESS, AccessChanges, Advance
from onceward.live.frames import FrameSender
from onceward.live.group import DependencyIndex, Group
from onceward.live.interests import LiveSubscription
from onceward.live.options import LiveOptions
from onceward.live.query import QueryDefinition
from onceward.live.query_run import run
from onceward.live.ready import ReadyGroups
from onceward.live.shares import Payer, Shares
from onceward.live.snapshot import Version
from onceward.live.topics import TopicChannel
from onceward.live.version_log import VersionLog
from onceward.live.watched import Tables
from onceward.telemetry import get_logger
from onceward.trust import Principal
from onceward.work.leaks import leaked

log = get_logger("onceward.live")

LONGEST_RETRY_S = 5.0


def _ignore(_changes: AccessChanges | None) -> None:
    pass


class Hub:
    """Holds the groups, channels and connections of a node. Everything here runs on one event loop."""

    def __init__(self, db: Database, tables: Tables, options: LiveOptions) -> None:
        self.db = db
        self.tables = tables
        self.options = options
        self.groups: dict[Any, Group] = {}
        self.channels: dict[tuple[UUID | None, str], TopicChannel] = {}
        self.connections: set[Connection] = set()
        self.connected: Counter[UUID | None] = Counter()
        """The number of connections per organization."""
        self.connected_callers: Counter[Principal] = Counter()
        """The number of connections per caller with credentials."""
        self.waiting: set[Connection] = set()
        self.frames = FrameSender()
        self.sending = Tasks("live send")
        """Frames that the network did not accept at once."""
        self.versions = VersionLog()
        self.index = DependencyIndex()
        self.in_use = asyncio.Event()
        """Set while a query, topic or wait needs the feed."""
        self.needed_since = 0.0
        """When the feed was needed again after a rest, on the monotonic clock."""
        self.positioned = asyncio.Event()
        """Set while this node has a position in the feed."""
        self.nudged = asyncio.Event()
        """Set to make the feed loop read without delay."""
        self.access_changed: Callable[[AccessChanges | None], None] = _ignore
        """Called with those whose access has changed, and with None if some may have been missed."""
        self._readers: list[asyncio.Future[Version]] = []
        self._ready = ReadyGroups(self.options.runners)
        self._runners = [
            Loop(
                f"live runner {n}",
                partial(self._run_ready, n),
                longest_step_s=LONGEST_STEP_S + options.query_timeout_s,
                instead_of_close=leaked,
            )
            for n in range(options.runners)
        ]
        self._shares = Shares(options)

    async def start(self) -> None:
        for runner in self._runners:
            await runner.start()

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.stop()
        for group in self.groups.values():
            group.cancel_timers()
        self.frames.stop()

    # -- when to read ------------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Read the feed now, because something was committed."""
        self.nudged.set()

    def need_feed(self) -> None:
        """Read the feed from now on, until nothing needs it."""
        if not self.in_use.is_set():
            self.needed_since = time.monotonic()
            self.in_use.set()

    def rest(self) -> bool:
        """Stop reading if nothing needs the feed. Returns whether reading stopped; the next read takes a new
        position."""
        if self.groups or self.channels or self.waiting or self._readers:
            return False
        self.in_use.clear()
        self.positioned.clear()
        return True

    async def next_read(self) -> Version:
        """Return the version of a read that starts after this call."""
        future: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._readers.append(future)
        self.need_feed()
        self.nudge()
        return await future

    def take_readers(self) -> list[asyncio.Future[Version]]:
        taken, self._readers = self._readers, []
        return taken

    def give_back(self, readers: list[asyncio.Future[Version]]) -> None:
        self._readers = readers + self._readers

    # -- the feed ----------------------------------------------------------------------------------------------------

    def take_position(self, version: Version) -> None:
        """Start at this version of the feed."""
        # The feed was not read until now, so runs cannot be compared with any earlier advance.
        self.versions.start_at(version)
        self.positioned.set()
        self.access_changed(None)

    def apply(self, advance: Advance) -> bool:
        """Apply the changes and messages of one read of the feed. Returns whether there were any."""
        self.versions.read_to(advance.version, None if advance.reset else advance.changes)
        if advance.reset:
            self._reset()
            self.access_changed(None)
        elif advance.changes:
            for group in self.index.affected_by(advance.changes):
                self._mark(group)
            if ended := {(key, value) for relation, key, value in advance.changes if relation == ACCESS}:
                self.access_changed(ended)
        for message in advance.messages:
            channel = self.channels.get((message.organization, message.topic))
            if channel is not None:
                channel.add(message)
                self.frames.mark_all(channel.followers)
        self.frames.add(self.waiting)
        if advance.messages or self.waiting:
            self.frames.send_all_ready()
        else:
            self.frames.send_ready(())
        return advance.reset or bool(advance.changes or advance.messages)

    def _reset(self) -> None:
        """The feed has a gap: run every query, and tell the followers of topics that messages may be missing."""
        metrics.RESETS.inc()
        log.warning("live_feed.reset", groups=len(self.groups))
        for group in self.groups.values():
            self._mark(group)
        for channel in self.channels.values():
            for follow in channel.followers:
                follow.gap = True
            self.frames.mark_all(channel.followers)
        self.frames.send_all_ready()

    # -- groups ------------------------------------------------------------------------------------------------------

    def join(
        self,
        definition: QueryDefinition[..., Any],
        arguments: dict[str, Any],
        canonical: str,
        viewer: Viewer,
        payer: Payer,
    ) -> Group:
        """Return the group for this query, arguments and viewer. The first call creates it, and counts for `payer`."""
        key = (definition.name, canonical, viewer)
        group = self.groups.get(key)
        if group is None:
            evicted = self._shares.make_room(viewer.organization, payer)
            if evicted is not None:
                self._evict(evicted)
            group = Group(key, definition, arguments, viewer, behind=self.versions.number + 1)
            self._shares.add(group, payer)
            self.groups[key] = group
            self.need_feed()
            self._enqueue(group)
        elif group.leaving is not None:
            group.leaving.cancel()
            group.leaving = None
            self._shares.take_over(group, payer)
        return group

    def leave(self, group: Group, subscription: LiveSubscription) -> None:
        group.subscribers.discard(subscription)
        if not group.subscribers and group.leaving is None:
            loop = asyncio.get_running_loop()
            group.leaving = loop.call_later(self.options.linger_s, self._drop, group)
        else:
            self._shares.hand_over(group, subscription.connection.payer)

    def _evict(self, group: Group) -> None:
        """End a group to make room for another caller. Its subscribers get an error and may subscribe again."""
        reason = TooMuch("the organization has reached its limit of live queries, and this caller has the most of them")
        for subscription in list(group.subscribers):
            subscription.connection.drop(subscription.id)
            subscription.connection.reply_error(reason, subscription.id)
            metrics.REFUSALS.labels(reason.code).inc()
        if group.leaving is not None:
            group.leaving.cancel()
        self._drop(group)

    def _drop(self, group: Group) -> None:
        group.leaving = None
        if group.subscribers or self.groups.get(group.key) is not group:
            return
        del self.groups[group.key]
        self.index.replace(group, frozenset())
        group.cancel_timers()
        self._shares.remove(group)

    def _mark(self, group: Group) -> None:
        if group.running:
            group.again = self.versions.number if group.again is None else group.again
        else:
            group.fall_behind(self.versions.number)
            self._enqueue(group)

    def _enqueue(self, group: Group) -> None:
        if not group.queued:
            group.queued = True
            self._ready.put(group)

    async def _run_ready(self, runner: int) -> None:
        """Run the next query that is due."""
        with self._runners[runner].idle():
            group = await self._ready.get()
        try:
            if self.groups.get(group.key) is group:
                with calling_as(Caller(group.viewer.organization, group.payer)):
                    await self._run(group)
        except BaseException:
            asyncio.get_running_loop().call_later(LONGEST_RETRY_S, self._retry, group)
            raise
        finally:
            group.queued = False
            self._ready.done(group)
        if self.groups.get(group.key) is group and group.behind is not None and not group.failures:
            self._enqueue(group)
        self.frames.send_ready([each.connection for each in group.subscribers])

    async def _run(self, group: Group) -> None:
        await self.positioned.wait()
        number_at_start, started = self.versions.number, time.perf_counter()
        group.running, group.again = True, None
        try:
            outcome = await run(
                self.db,
                self.tables,
                group.definition,
                group.arguments,
                group.viewer,
                timeout_s=self.options.query_timeout_s,
            )
        except FAILED as error:
            self._failed(group, QueryFault(f"query {group.definition.name} failed: {type(error).__name__}"), error)
            return
        except LiveError as error:
            self._failed(group, error, error)
            return
        except Exception as error:
            if not group.failures:  # the retries fail in the same way
                log.exception("live_query.failed", query=group.definition.name)
            self._failed(group, QueryFault(f"query {group.definition.name} failed: {type(error).__name__}"), None)
            return
        finally:
            group.running = False
            group.runs += 1
            group.last_ms = (time.perf_counter() - started) * 1000
            metrics.RUNS.labels(group.definition.name).inc()
            metrics.RUN_SECONDS.observe(group.last_ms / 1000)
        self.index.replace(group, outcome.dependencies)
        group.behind = None
        missed = self.versions.first_match(group.dependencies, after=number_at_start)
        if missed is None:
            missed = group.again
        if missed is not None:
            group.fall_behind(missed)
        group.failures = 0
        self._expire_later(group, outcome.stale_in_s)
        if outcome.hash != group.hash or group.error is not None:
            group.take_result(outcome.text, outcome.hash)
            self._publish(group)

    def _failed(self, group: Group, shown: LiveError, error: BaseException | None) -> None:
        """Schedule a retry. Report the error, except that clients keep their old result during a database failure."""
        group.failures += 1
        group.fall_behind(self.versions.number)
        metrics.FAILURES.labels(group.definition.name).inc()
        if error is not None:
            log.warning(
                "live_query.failed",
                query=group.definition.name,
                failures=group.failures,
                error=type(error).__name__,
                detail=str(error)[:300] if isinstance(error, LiveError) else getattr(error, "sqlstate", None),
            )
        wait_s = min(LONGEST_RETRY_S, 0.1 * 2 ** min(group.failures, 10))
        asyncio.get_running_loop().call_later(wait_s, self._retry, group)
        fault = isinstance(error, LiveError) or error is None
        if (group.text is None or fault) and (group.error is None or str(group.error) != str(shown)):
            group.error = shown
            self._publish(group)

    def _retry(self, group: Group) -> None:
        if self.groups.get(group.key) is group:
            self._enqueue(group)

    def _expire_later(self, group: Group, stale_in_s: float | None) -> None:
        if group.stale is not None:
            group.stale.cancel()
            group.stale = None
        if stale_in_s is not None:
            # At least 50 ms: a query with a `stale_at` in the past would otherwise run in an endless loop.
            wait_s = min(max(stale_in_s, 0.05), 3600.0)
            group.stale = asyncio.get_running_loop().call_later(wait_s, self._expired, group)

    def _expired(self, group: Group) -> None:
        group.stale = None
        if self.groups.get(group.key) is group:
            self._enqueue(group)  # without effect while it runs; that run sets the next expiry

    def _publish(self, group: Group) -> None:
        self.frames.mark_all(group.subscribers)

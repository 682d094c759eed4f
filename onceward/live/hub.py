"""The heart of a node: changes come in, the queries they concern run once each, changed results go out.

Why nothing is missed: a run starts after the advance numbered `n` was read, so it sees all that `n` saw; whatever
advances are read while it runs are compared with its dependencies when it ends, and if one concerns it, it runs again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import asyncpg

from onceward.db import BROKEN, Database, DatabaseError, end
from onceward.live import metrics
from onceward.live.access import Viewer
from onceward.live.connection import Connection, Follow, Subscription
from onceward.live.errors import LiveError, QueryFault, TooMuch
from onceward.live.feed import Advance, Change
from onceward.live.group import DependencyIndex, Group, any_matches
from onceward.live.options import LiveOptions
from onceward.live.query import QueryDefinition
from onceward.live.running import run
from onceward.live.snapshot import Version
from onceward.live.topics import Channel
from onceward.live.watched import Tables
from onceward.telemetry import get_logger

log = get_logger("onceward.live")

REMEMBERED = 4096
"""Advances kept to compare with runs that began before them; a run that outlasts them runs again."""
HOLD_S = 0.1
"""How long a client's finished results wait for its others of the same advance, to share a frame."""
LONGEST_RETRY_S = 5.0
SLICE = 250


@dataclass(frozen=True, slots=True)
class Remembered:
    number: int
    before: Version
    changes: frozenset[Change] | None
    """None: everything (a reset)."""


class Hub:
    """Groups, channels and the connections that follow them. Everything here runs on one event loop."""

    def __init__(self, db: Database, tables: Tables, options: LiveOptions) -> None:
        self.db = db
        self.tables = tables
        self.options = options
        self.groups: dict[Any, Group] = {}
        self.channels: dict[tuple[UUID | None, str], Channel] = {}
        self.connections: set[Connection] = set()
        self.connected: Counter[UUID | None] = Counter()
        """Connections by organization."""
        self.waiting: set[Connection] = set()
        self.frames_sent = 0
        self.number = 0
        self.version: Version | None = None
        self.version_text = ""
        self.index = DependencyIndex()
        self.wanted = asyncio.Event()
        """Set while anybody depends on the feed being read."""
        self.positioned = asyncio.Event()
        """Set while the feed is being read."""
        self.nudged = asyncio.Event()
        """Set to have the feed read now."""
        self._readers: list[asyncio.Future[Version]] = []
        self._log: deque[Remembered] = deque(maxlen=REMEMBERED)
        self._ready: asyncio.Queue[Group] = asyncio.Queue()
        self._runners: list[asyncio.Task[None]] = []
        self._dirty: set[Connection] = set()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._per_organization: dict[UUID | None, int] = {}

    async def start(self) -> None:
        self._runners = [
            asyncio.create_task(self._run_ready(), name=f"live runner {n}") for n in range(self.options.runners)
        ]

    async def stop(self) -> None:
        await end(*self._runners)
        self._runners.clear()
        for group in self.groups.values():
            group.cancel_timers()
        if self._flush_timer is not None:
            self._flush_timer.cancel()

    # -- when to read ------------------------------------------------------------------------------------------------

    def nudge(self) -> None:
        """Something was committed: do not wait for the next look."""
        self.nudged.set()

    def rest(self) -> bool:
        """Stop reading if nobody depends on it; the next position is taken anew."""
        if self.groups or self.channels or self.waiting or self._readers:
            return False
        self.wanted.clear()
        self.positioned.clear()
        return True

    async def next_read(self) -> Version:
        """The version of a read that begins after this call."""
        future: asyncio.Future[Version] = asyncio.get_running_loop().create_future()
        self._readers.append(future)
        self.wanted.set()
        self.nudge()
        return await future

    def take_readers(self) -> list[asyncio.Future[Version]]:
        taken, self._readers = self._readers, []
        return taken

    def give_back(self, readers: list[asyncio.Future[Version]]) -> None:
        self._readers = readers + self._readers

    # -- the feed ----------------------------------------------------------------------------------------------------

    def take_position(self, version: Version) -> None:
        """The feed is read from here on."""
        self.version, self.version_text = version, str(version)
        # Nobody was reading until now, so there is no earlier advance that a run could be compared with.
        self._log.clear()
        self.positioned.set()

    def apply(self, advance: Advance) -> bool:
        """Take in what a read of the feed brought; returns whether there was anything."""
        before = self.version or advance.version
        self.version, self.version_text = advance.version, str(advance.version)
        if advance.reset:
            self._reset(before)
        elif advance.changes:
            self.number += 1
            self._log.append(Remembered(self.number, before, advance.changes))
            for group in self.index.concerned(advance.changes):
                self._mark(group)
        for said in advance.messages:
            channel = self.channels.get((said.organization, said.topic))
            if channel is not None:
                channel.add(said)
                for follow in channel.followers:
                    self.touch(follow.connection, follow)
        self._dirty.update(self.waiting)
        self._send_ready(list(self._dirty) if advance.messages or self.waiting else ())
        return advance.reset or bool(advance.changes or advance.messages)

    def _reset(self, before: Version) -> None:
        """The feed has a hole: run everything, and let topics say that something may be missing."""
        metrics.RESETS.inc()
        log.warning("live.reset", groups=len(self.groups))
        self.number += 1
        self._log.append(Remembered(self.number, before, None))
        for group in self.groups.values():
            self._mark(group)
        for channel in self.channels.values():
            for follow in channel.followers:
                follow.gap = True
                self.touch(follow.connection, follow)
        self._send_ready(list(self._dirty))

    # -- groups ------------------------------------------------------------------------------------------------------

    def join(self, definition: QueryDefinition, arguments: dict[str, Any], canonical: str, viewer: Viewer) -> Group:
        """The group for this question, made if it is the first to be asked."""
        key = (definition.name, canonical, viewer)
        group = self.groups.get(key)
        if group is None:
            count = self._per_organization.get(viewer.organization, 0)
            if count >= self.options.max_groups_per_organization:
                raise TooMuch(f"the organization already has {count} different live queries open here")
            self._per_organization[viewer.organization] = count + 1
            group = Group(key, definition, arguments, viewer, behind=self.number + 1)
            self.groups[key] = group
            self.wanted.set()
            self._enqueue(group)
        elif group.leaving is not None:
            group.leaving.cancel()
            group.leaving = None
        return group

    def leave(self, group: Group, subscription: Subscription) -> None:
        group.subscribers.discard(subscription)
        if not group.subscribers and group.leaving is None:
            loop = asyncio.get_running_loop()
            group.leaving = loop.call_later(self.options.linger_s, self._drop, group)

    def _drop(self, group: Group) -> None:
        group.leaving = None
        if group.subscribers or self.groups.get(group.key) is not group:
            return
        del self.groups[group.key]
        self.index.replace(group, frozenset())
        group.cancel_timers()
        left = self._per_organization[group.viewer.organization] - 1
        if left:
            self._per_organization[group.viewer.organization] = left
        else:
            del self._per_organization[group.viewer.organization]

    def _mark(self, group: Group) -> None:
        if group.running:
            group.again = self.number if group.again is None else group.again
        else:
            group.fall_behind(self.number)
            self._enqueue(group)

    def _enqueue(self, group: Group) -> None:
        if not group.queued:
            group.queued = True
            self._ready.put_nowait(group)

    async def _run_ready(self) -> None:
        while True:
            group = await self._ready.get()
            try:
                if self.groups.get(group.key) is group:
                    await self._run(group)
            except Exception:
                log.exception("live.runner_failed", query=group.definition.name)
            finally:
                group.queued = False
            if self.groups.get(group.key) is group and group.behind is not None and not group.failures:
                self._enqueue(group)
            self._send_ready([each.connection for each in group.subscribers])

    async def _run(self, group: Group) -> None:
        await self.positioned.wait()
        began, started = self.number, time.perf_counter()
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
        except (*BROKEN, DatabaseError, TimeoutError, asyncpg.PostgresError) as error:
            self._failed(group, QueryFault(f"query {group.definition.name} failed: {type(error).__name__}"), error)
            return
        except LiveError as error:
            self._failed(group, error, error)
            return
        except Exception as error:
            log.exception("live.query_failed", query=group.definition.name)
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
        missed = self._first_missed(group, began)
        if missed is not None:
            group.fall_behind(missed)
        group.failures = 0
        self._expire_later(group, outcome.stale_in_s)
        if outcome.hash != group.hash or group.error is not None:
            group.text, group.hash, group.error = outcome.text, outcome.hash, None
            self._publish(group)

    def _first_missed(self, group: Group, began: int) -> int | None:
        """The first advance since the run began that concerns the group as it now is."""
        if self.number == began:
            return None
        if self._log[0].number > began + 1:
            return began + 1
        for each in self._log:
            if each.number > began and (each.changes is None or any_matches(group.dependencies, each.changes)):
                return each.number
        return group.again

    def _failed(self, group: Group, told: LiveError, error: BaseException | None) -> None:
        """Try again by and by; who has no result yet is told, who has one keeps it, known to be behind."""
        group.failures += 1
        group.fall_behind(self.number)
        metrics.FAILURES.labels(group.definition.name).inc()
        if error is not None:
            log.warning(
                "live.query_failed",
                query=group.definition.name,
                failures=group.failures,
                error=type(error).__name__,
                detail=str(error)[:300] if isinstance(error, LiveError) else getattr(error, "sqlstate", None),
            )
        wait_s = min(LONGEST_RETRY_S, 0.1 * 2 ** min(group.failures, 10))
        asyncio.get_running_loop().call_later(wait_s, self._retry, group)
        fault = isinstance(error, LiveError) or error is None
        if (group.text is None or fault) and (group.error is None or str(group.error) != str(told)):
            group.error = told
            self._publish(group)

    def _retry(self, group: Group) -> None:
        if self.groups.get(group.key) is group:
            self._enqueue(group)

    def _expire_later(self, group: Group, stale_in_s: float | None) -> None:
        if group.stale is not None:
            group.stale.cancel()
            group.stale = None
        if stale_in_s is not None:
            # Not at once again: a query that names a moment in the past would run without end.
            wait_s = min(max(stale_in_s, 0.05), 3600.0)
            group.stale = asyncio.get_running_loop().call_later(wait_s, self._expired, group)

    def _expired(self, group: Group) -> None:
        group.stale = None
        if self.groups.get(group.key) is group:
            self._enqueue(group)  # one that is running anyway says itself when it is stale next

    # -- results go out ----------------------------------------------------------------------------------------------

    def _publish(self, group: Group) -> None:
        for subscription in group.subscribers:
            subscription.connection.mark(subscription)
            self._dirty.add(subscription.connection)

    def touch(self, connection: Connection, what: Subscription | Follow) -> None:
        """Something of this connection has news."""
        connection.mark(what)
        self._dirty.add(connection)

    def _send_ready(self, connections: Iterable[Connection]) -> None:
        """Send to those that have news and wait for no other result; the others get theirs soon, come what may."""
        ready = [each for each in connections if each in self._dirty and each.settled()]
        self._dirty.difference_update(ready)
        self._send_some(ready)
        if self._dirty and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(HOLD_S, self._flush)

    def _flush(self) -> None:
        self._flush_timer = None
        dirty, self._dirty = self._dirty, set()
        self._send_some(list(dirty))

    def _send_some(self, connections: list[Connection], start: int = 0) -> None:
        """A slice at a time, so that ten thousand subscribers of one group do not hold up everything else."""
        for connection in connections[start : start + SLICE]:
            connection.flush()
        metrics.FRAMES.inc(self.frames_sent)
        self.frames_sent = 0
        if start + SLICE < len(connections):
            asyncio.get_running_loop().call_soon(self._send_some, connections, start + SLICE)

    def version_before(self, number: int) -> Version | None:
        """The newest version that lacks nothing of the advances before `number`."""
        if not self._log or number > self.number:
            return self.version
        return self._log[max(0, number - self._log[0].number)].before

    def reached(self, behind: int | None) -> tuple[Version | None, str]:
        """The version that results are at least at, of which the first lack is in this advance."""
        if behind is None or behind > self.number:
            return self.version, self.version_text
        version = self.version_before(behind)
        return version, str(version)

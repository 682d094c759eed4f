"""Let concurrent requests share one commit. Each is stored and handled after the other in one transaction, and answered
with its own result.

request A: insert ──▶ handler ──▶ pass the transaction on ─────────────────────────▶ answer
request B: waits ───────────────▶ insert ──▶ handler ──▶ nobody waits: commit ──▶ answer

A request that finds a free place begins at once and commits at once: without other requests nothing changes. Only
requests that wait for a place join, and customers take turns: organizations, or sources without one. If one fails, all
is rolled back, and each request runs again in a transaction of its own: only the failure of that run counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog

from onceward.background import Tasks, TimeLimit
from onceward.db import Connection, Database, OutcomeUnknown, Transaction
from onceward.db.statement_watch import Watch
from onceward.errors import OncewardError
from onceward.inbox.handlers import QUEUE
from onceward.inbox.inline_statements import CHECK_NOW, join_event, success_of
from onceward.inbox.routing import RoutedEvent
from onceward.telemetry.logs import running
from onceward.work import Claimed, Task
from onceward.work.commit_sharing import PATIENCE_S, Member, Sharing, WaitedTooLong, note_parted
from onceward.work.contention import Turn
from onceward.work.fair_queue import FairQueue
from onceward.work.gate import gate
from onceward.work.metrics import count_shared

log = structlog.get_logger(__name__)

MOST_PLACES = 8
SPARE = 2
"""Connections of the pool that are left to other requests."""

Opener = Callable[[Connection, Claimed], Transaction]


class RunAlone(OncewardError):
    """The group was rolled back: the request runs again in a transaction of its own."""


@dataclass(slots=True, eq=False)
class Entry:
    """One request, its event and what its handler returned."""

    routed: RoutedEvent
    work: Claimed
    id: UUID
    task: Task
    turn: asyncio.Future[Group | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """The group that the request joins, or None for a place of its own."""
    committed: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    """Whether the group was committed: False after a rollback."""
    member: Member = field(init=False)
    elapsed_s: float = 0.0
    place: Turn | None = None
    """Its place among those that begin, if it has one."""

    def __post_init__(self) -> None:
        self.member = Member(self.task, self.work)

    @property
    def key(self) -> tuple[UUID, str]:
        return (self.routed.shared.source.webhook_id, self.routed.event_id)

    @property
    def customer(self) -> Hashable:
        return self.routed.shared.source.line[0]


class Group:
    """The requests of one open transaction, in their order. The first one holds the connection until all have ended."""

    def __init__(self, tx: Transaction) -> None:
        self.tx = tx
        self.entries: list[Entry] = []
        self.since = time.monotonic()

    @property
    def members(self) -> list[Member]:
        return [entry.member for entry in self.entries]

    def end(self, *, committed: bool) -> None:
        for entry in self.entries:
            if not entry.committed.done():
                entry.committed.set_result(committed)

    def fail(self, error: BaseException) -> None:
        """The outcome of the commit is unknown: no request may run again here."""
        for entry in self.entries:
            if not entry.committed.done():
                entry.committed.set_exception(error)
                entry.committed.exception()  # a request that has gone does not ask for it


class InlineGroups:
    """Decides which requests begin, wait and join. One per process.

    Requests whose handlers wait for each other's row locks begin two at a time (`work/contention.py`): the others
    wait, and join.
    """

    def __init__(self, db: Database, open_tx: Opener) -> None:
        self._db = db
        self._open_tx = open_tx
        self._taken = 0
        self._waiting: FairQueue[Entry] = FairQueue()
        self._events: set[tuple[UUID, str]] = set()
        self._sharing = Sharing(least=2, tries_small=False)  # a request keeps its place until its commit has ended
        self._finishing = Tasks("inline group")

    @property
    def _places(self) -> int:
        """Return how many requests may begin at once; the pool may have become smaller."""
        return max(1, min(MOST_PLACES, self._db.most_connections - SPARE))

    def takes(self, entry: Entry) -> bool:
        """Return whether the request may share. The duplicate of an event that is being handled waits for it alone."""
        return entry.task.shares and entry.key not in self._events

    async def enter(self, entry: Entry) -> Group | None:
        """Wait for a place, or for a group to join. The caller calls `leave` at the end."""
        self._events.add(entry.key)
        line = self._sharing.of(entry.task).line
        if self._taken < self._places and line.has_room:
            self._taken += 1
            entry.place = line.enter()
            return None
        self._waiting.append(entry.customer, entry)
        line.queued += 1
        try:
            return await entry.turn
        except asyncio.CancelledError:
            if entry.turn.cancelled():
                self._waiting.discard(entry.customer, entry)
                line.queued -= 1
            elif (group := entry.turn.result()) is not None:  # its turn came in the same moment
                self._finishing.start(self._go_on(group))
            else:
                self._release_place(entry)
            self._events.discard(entry.key)
            raise

    def leave(self, entry: Entry, group: Group | None) -> None:
        """The request has ended. If it held a place, the next one gets it."""
        self._events.discard(entry.key)
        if group is None:
            self._release_place(entry)

    async def observe(self) -> None:
        """Learn which handlers wait for each other's row locks. The inbox calls this several times a second."""
        await self._sharing.observe(self._db)
        self._fill_places()

    def _release_place(self, entry: Entry) -> None:
        self._taken -= 1
        if entry.place is not None:
            entry.place.end()
        self._fill_places()

    def _fill_places(self) -> None:
        """Give the free places to the requests whose turn it is and that may begin."""
        while self._taken < self._places:
            entry = next((each for each in self._present() if self._sharing.of(each.task).line.has_room), None)
            if entry is None:
                return
            self._take(entry)
            self._taken += 1
            entry.place = self._sharing.of(entry.task).line.enter()
            entry.turn.set_result(None)

    def _present(self) -> Iterator[Entry]:
        """Iterate over the requests that wait, in turn. Those that were cancelled a moment ago are about to leave."""
        return (each for each in self._waiting if not each.turn.done())

    def _take(self, entry: Entry) -> None:
        self._waiting.take(entry.customer, entry)
        self._sharing.of(entry.task).line.queued -= 1

    def _next_member(self, group: Group) -> Entry | None:
        """Remove and return the request whose turn it is, if it fits into the group."""
        entry = next(self._present(), None)
        if entry is None or not self._sharing.fits(group.members, entry.task, entry.work, since=group.since):
            return None
        self._take(entry)
        return entry

    async def handle_first(self, entry: Entry, tx: Transaction) -> Any:
        """Run the handler of the first request of a group, whose event is stored. Raises its error, or `RunAlone`."""
        group = Group(tx)
        group.entries.append(entry)
        known = self._sharing.of(entry.task)
        assert entry.place is not None
        entry.place.runs_in(tx.conn.get_server_pid())
        try:
            try:
                await self._handle(entry, tx, others=False)
            except BaseException:
                known.ended(failed=True)
                raise
            if known.line.limit is not None:
                group.since = time.monotonic()  # until now it waited for the rows of another group, and held up nobody
            await self._go_on(group, owner=entry)
            if not await self._ended(entry):
                raise RunAlone
        finally:
            entry.place.runs_in(None)
        return entry.member.result

    async def handle_in(self, group: Group, entry: Entry) -> Any:
        """Store and handle the event in the transaction of a group.

        Raises `RunAlone` for a duplicate, and after any failure.
        """
        try:
            tx = self._open_tx(group.tx.conn, entry.work)
            is_new = await join_event(tx, group.tx, entry.work, entry.id, entry.routed)
            group.tx = tx
            if is_new:
                gate("inline-joined")
                group.entries.append(entry)
                await self._handle(entry, tx, others=True)
        except BaseException as error:
            await self._part(group, entry, error)
            if _is_cancelled():
                raise
            raise RunAlone from error
        await self._go_on(group)
        if not is_new or not await self._ended(entry):
            raise RunAlone
        return entry.member.result

    async def _handle(self, entry: Entry, tx: Transaction, *, others: bool) -> None:
        member, work = entry.member, entry.work
        pooled: Any = tx.conn
        member.watch = Watch(others=others)
        pooled.watch(member.watch)
        token = running.set(work)
        began = work.began_s = time.monotonic()
        try:
            async with TimeLimit(PATIENCE_S if others else entry.task.timeout_s, of=work.task):
                member.result = await entry.task.run(work, tx)
        except TimeoutError as error:
            if others:
                raise WaitedTooLong("the handler held up other requests, and runs again alone") from error
            raise
        finally:
            running.reset(token)
            pooled.watch(None)
        entry.elapsed_s = time.monotonic() - began
        known = self._sharing.of(entry.task)
        if others:
            known.took_after_others(entry.elapsed_s)
        else:
            known.took_first(entry.elapsed_s)
        if member.watch.refused is not None:  # although the handler caught the refusal
            raise member.watch.refused

    async def _go_on(self, group: Group, owner: Entry | None = None) -> None:
        """Pass the transaction to the next request, or commit it. Raises the error of a commit that only `owner`
        has."""
        following = self._next_member(group)
        if following is not None:
            following.turn.set_result(group)
            return
        shared = len(group.entries) if len(group.entries) > 1 else None
        statements = [
            success_of(each.work, each.member.result, elapsed_s=each.elapsed_s, shared=shared) for each in group.entries
        ]
        try:
            gate("inline-before-commit")
            await group.tx.commit("; ".join((CHECK_NOW, *statements)))
        except BaseException as error:
            if group.entries == [owner] and not isinstance(error, OutcomeUnknown):
                raise  # its own request undoes it
            await self._part(group, None, error)
            if _is_cancelled():
                raise
            return
        now = time.monotonic()
        for each in group.entries:
            known = self._sharing.of(each.task)
            known.ended(failed=False)
            known.committed(now)
            if shared is not None:
                count_shared(QUEUE, each.task, shared)
        group.end(committed=True)
        gate("inline-after-commit")

    async def _part(self, group: Group, culprit: Entry | None, error: BaseException) -> None:
        """Roll the group back, so that each of its requests runs alone.

        After an unknown outcome all of them get the error.
        """
        try:
            await asyncio.shield(group.tx.rollback())
        finally:
            if isinstance(error, OutcomeUnknown):
                group.fail(error)
            else:
                members = group.members or ([] if culprit is None else [culprit.member])
                if members:
                    note_parted(self._sharing, members, None if culprit is None else culprit.member, error)
                group.end(committed=False)

    async def _ended(self, entry: Entry) -> bool:
        """Wait for the end of the group, also if this request is cancelled: the first one holds the connection of
        all."""
        cancelled: asyncio.CancelledError | None = None
        while not entry.committed.done():
            try:
                await asyncio.shield(entry.committed)
            except asyncio.CancelledError as error:
                cancelled = error
            except OutcomeUnknown:
                break
        if cancelled is not None:
            raise cancelled
        return entry.committed.result()


def _is_cancelled() -> bool:
    """Return whether the request itself was cancelled. A handler may also raise CancelledError by itself."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

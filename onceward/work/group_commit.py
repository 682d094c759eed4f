"""Group commit: what arrives together is committed together, and each caller is answered after the commit.

While one batch is being committed the next one collects, so the batch size follows the load and nobody waits for a
timer. A second commit runs beside the first as soon as it is worth one; what there is to do is shared evenly between
them, so that this process and PostgreSQL take turns instead of waiting for each other. A batch that PostgreSQL refuses is
halved until the bad item is alone: it fails, its neighbours do not. The waiting room is bounded; beyond it callers are
refused at once (`Overloaded`) instead of being forgotten later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import asyncpg
import structlog

from onceward.db import BROKEN, DatabaseError, OutcomeUnknown, Unavailable

log = structlog.get_logger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

WHOLE = 16
"""So few are not shared between two commits: the second would cost more than it saves."""


class Overloaded(Exception):
    """More is waiting for a commit than the buffer holds: come back later."""


Answer = TypeVar("Answer", contravariant=True)


class Waiter(Protocol[Answer]):
    """Whoever is told how its item fared: a future, or something that acts at once. It must not raise."""

    def done(self) -> bool: ...
    def set_result(self, result: Answer, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class GroupCommit(Generic[Item, Result]):
    """`await submit(item)` returns that item's result once the commit that contains it is done."""

    def __init__(
        self,
        flush: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        most_at_once: int = 500,
        most_waiting: int = 10_000,
        commits_at_once: int = 2,
    ) -> None:
        self._flush = flush
        self._most_at_once = most_at_once
        self._most_waiting = most_waiting
        self._commits_at_once = commits_at_once
        self._waiting: list[tuple[Item, Waiter[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()
        self._working = 0
        self._last = 0
        self._under_way = 0

    async def submit(self, item: Item) -> Result:
        """Raises what PostgreSQL said of this item, `Unavailable`, `OutcomeUnknown` or `Overloaded`."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.submit_to(item, future)
        return await future

    def submit_to(self, item: Item, waiter: Waiter[Result]) -> None:
        """As `submit`, for those who do not wait: `waiter` is told. Raises `Overloaded` only."""
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(f"{len(self._waiting)} items are waiting to be committed")
        self._waiting.append((item, waiter))
        if self._working < self._commits_at_once:
            self._begin()

    def _begin(self) -> None:
        """Another commit, if one may run beside the others and is worth it."""
        if self._working < self._commits_at_once and self._worth_a_commit(beside=self._working):
            self._working += 1
            task = asyncio.create_task(self._work())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def _worth_a_commit(self, *, beside: int) -> bool:
        """Something waits, and either nobody else will take it along or it is not much less than they took.

        A commit costs as much as a score of rows: a straggler that hurries past a large one slows all that follow.
        """
        return bool(self._waiting) and (beside == 0 or 2 * len(self._waiting) >= self._last)

    async def _work(self) -> None:
        try:
            # One turn of the loop first: callers that are ready at the same moment get into the same commit.
            await asyncio.sleep(0)
            while self._worth_a_commit(beside=self._working - 1):
                size = self._last = self._share()
                batch, self._waiting = self._waiting[:size], self._waiting[size:]
                self._under_way += size
                self._begin()  # for the others' share
                try:
                    await self._commit(batch)
                finally:
                    self._under_way -= size
        finally:
            # Here and not when the task is done, which is a turn later: what is submitted in between would be forgotten.
            self._working -= 1

    def _share(self) -> int:
        """How many of those that wait go into the next commit: its part of all that are not yet committed."""
        part = -(-(len(self._waiting) + self._under_way) // self._commits_at_once)
        return min(len(self._waiting), max(part, WHOLE), self._most_at_once)

    async def _commit(self, batch: list[tuple[Item, Waiter[Result]]], *, whole: bool = True) -> None:
        try:
            results = await self._flush([item for item, _ in batch])
        except (DatabaseError, Overloaded) as error:
            _fail(batch, error)
        except BROKEN as error:
            # A single statement commits by itself: when the connection breaks under it nobody knows.
            _fail(batch, OutcomeUnknown(f"the connection was lost while committing: {type(error).__name__}"))
        except asyncpg.PostgresError as error:
            if _nothing_can_be_done(error):
                _fail(batch, Unavailable(str(error)))
            else:
                await self._halve(batch, error)
        except Exception as error:
            # Not the database's word but a fault of our own: halving may get around it, so it is told first.
            if whole:
                log.exception("commit_failed", items=len(batch))
            await self._halve(batch, error)
        else:
            for (_, waiter), result in zip(batch, results, strict=True):
                if not waiter.done():
                    waiter.set_result(result)

    async def _halve(self, batch: list[tuple[Item, Waiter[Result]]], error: Exception) -> None:
        """The guilty one fails once it is alone, and only it."""
        if len(batch) == 1:
            _fail(batch, error)
            return
        middle = len(batch) // 2
        await self._commit(batch[:middle], whole=False)
        await self._commit(batch[middle:], whole=False)

    async def close(self) -> None:
        """Let what is waiting be committed."""
        while self._running:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*self._running)


def _nothing_can_be_done(error: asyncpg.PostgresError) -> bool:
    """Shutting down, out of connections, out of disk, read-only: no half of the batch would fare better."""
    state = getattr(error, "sqlstate", "") or ""
    return state[:2] in ("57", "53", "25", "08")


def _fail(batch: list[tuple[Item, Waiter[Result]]], error: Exception) -> None:
    for _, waiter in batch:
        if not waiter.done():
            waiter.set_exception(error)

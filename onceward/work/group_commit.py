"""Group commit: items that arrive together are committed together, and each caller gets its answer after the commit.

While one batch is being committed, the next batch collects. So the batch size follows the load, and no caller waits for
a timer. A second commit runs in parallel when enough items wait. Both share the items evenly, so that this process
prepares one batch while PostgreSQL writes the other. If PostgreSQL refuses a batch, it is halved until the bad item is
alone: only that item fails. The buffer is bounded; when it is full, callers get `Overloaded` at once. Items may name a
line: lines take turns when more items wait than a commit takes (`commit_lines.py`), and a line above its share of the
buffer gets `OverShare`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import asyncpg
import structlog

from onceward.background import Tasks
from onceward.db import BROKEN, DatabaseError, OutcomeUnknown, Unavailable
from onceward.errors import OncewardError
from onceward.work.commit_lines import CommitLines, Line

log = structlog.get_logger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

WHOLE = 16
"""Up to this many items go into one commit: a second commit would cost more than it saves."""


class Overloaded(OncewardError):
    """The buffer of items that wait for a commit is full: try again later."""


class OverShare(Overloaded):
    """The items of one customer use its share of the buffer; there is room for the items of others."""


SHARED: Line = (None, None)
"""The line of items without a line of their own. It may fill the whole buffer."""


Answer = TypeVar("Answer", contravariant=True)


class Waiter(Protocol[Answer]):
    """Receives the result of one item: a future, or an object that acts at once. Its methods must not raise."""

    def done(self) -> bool: ...
    def set_result(self, result: Answer, /) -> None: ...
    def set_exception(self, exception: Exception, /) -> None: ...


class GroupCommit(Generic[Item, Result]):
    """`await submit(item)` returns the result of the item after the commit that contains it."""

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
        self._waiting: CommitLines[tuple[Item, Waiter[Result]]] = CommitLines()
        self._running = Tasks("group commit")
        self._working = 0
        self._last = 0
        self._under_way = 0

    async def submit(self, item: Item, line: Line = SHARED) -> Result:
        """Commit the item with others and return its result.

        Raises the PostgreSQL error of this item, `Unavailable`, `OutcomeUnknown` or `Overloaded`.
        """
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self.submit_to(item, future, line)
        return await future

    def submit_to(self, item: Item, waiter: Waiter[Result], line: Line = SHARED) -> None:
        """Commit the item without blocking: `waiter` receives the result. Raises only `Overloaded`."""
        free = self._most_waiting - len(self._waiting)
        if free <= 0:
            raise Overloaded(f"{len(self._waiting)} items are waiting to be committed; try again later")
        if line is not SHARED and not self._waiting.has_room(line, free):
            raise OverShare("too many items of the same customer are waiting to be committed; try again later")
        self._waiting.append(line, (item, waiter))
        if self._working < self._commits_at_once:
            self._begin()

    def _begin(self) -> None:
        """Start another commit if the limit allows one and enough items wait."""
        if self._working < self._commits_at_once and self._worth_a_commit(beside=self._working):
            self._working += 1
            self._running.start(self._work())

    def _worth_a_commit(self, *, beside: int) -> bool:
        """Return whether to start a commit: no other commit runs, or at least half as many items wait as the last one
        took.

        A commit costs as much as about twenty rows, so a small commit beside a large one slows down all that follow.
        """
        return len(self._waiting) > 0 and (beside == 0 or 2 * len(self._waiting) >= self._last)

    async def _work(self) -> None:
        try:
            # Yield once: callers that are ready at the same moment get into the same commit.
            await asyncio.sleep(0)
            while self._worth_a_commit(beside=self._working - 1):
                size = self._last = self._share()
                batch = self._waiting.take(size)
                self._under_way += size
                self._begin()  # for the remaining items
                try:
                    await self._commit(batch)
                except BaseException as error:
                    _fail(batch, OutcomeUnknown(f"the commit was interrupted: {type(error).__name__}"))
                    raise
                finally:
                    self._under_way -= size
        finally:
            # Not in a done callback, which runs a turn later: no commit would start for items submitted in between.
            self._working -= 1
            if len(self._waiting):  # after a failure of this task
                self._begin()

    def _share(self) -> int:
        """Return how many waiting items go into the next commit: an equal share of all uncommitted items."""
        part = -(-(len(self._waiting) + self._under_way) // self._commits_at_once)
        return min(len(self._waiting), max(part, WHOLE), self._most_at_once)

    async def _commit(self, batch: list[tuple[Item, Waiter[Result]]], *, whole: bool = True) -> None:
        try:
            results = await self._flush([item for item, _ in batch])
        except (DatabaseError, Overloaded) as error:
            _fail(batch, error)
        except BROKEN as error:
            # A single statement commits by itself: if the connection breaks meanwhile, the outcome is unknown.
            _fail(batch, OutcomeUnknown(f"the connection was lost while committing: {type(error).__name__}"))
        except asyncpg.PostgresError as error:
            if _affects_every_item(error):
                unavailable = Unavailable(str(error))
                unavailable.__cause__ = error
                _fail(batch, unavailable)
            else:
                await self._halve(batch, error)
        except Exception as error:
            # A bug in Onceward, not a database error: log it now, because halving may hide it.
            if whole:
                log.exception("group_commit.failed", items=len(batch))
            await self._halve(batch, error)
        else:
            for (_, waiter), result in zip(batch, results, strict=True):
                if not waiter.done():
                    waiter.set_result(result)

    async def _halve(self, batch: list[tuple[Item, Waiter[Result]]], error: Exception) -> None:
        """Commit the halves separately. An item that is alone fails with `error`."""
        if len(batch) == 1:
            _fail(batch, error)
            return
        middle = len(batch) // 2
        await self._commit(batch[:middle], whole=False)
        await self._commit(batch[middle:], whole=False)

    async def close(self) -> None:
        """Wait until all waiting items are committed."""
        await self._running.wait()


def _affects_every_item(error: asyncpg.PostgresError) -> bool:
    """Return whether every half would fail too: shutdown, no connections, full disk, read-only server."""
    state = getattr(error, "sqlstate", "") or ""
    return state[:2] in ("57", "53", "25", "08")


def _fail(batch: list[tuple[Item, Waiter[Result]]], error: Exception) -> None:
    for _, waiter in batch:
        if not waiter.done():
            waiter.set_exception(error)

"""Group commit: what arrives together is committed together, and each caller is answered after the commit.

While one batch is being committed the next one collects, so the batch size follows the load and nobody waits for a
timer. A batch that PostgreSQL refuses is halved until the bad item is alone: it fails, its neighbours do not. The
waiting room is bounded; beyond it callers are refused at once (`Overloaded`) instead of being forgotten later.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

import asyncpg

from onceward.db import BROKEN, DatabaseError, OutcomeUnknown, Unavailable

Item = TypeVar("Item")
Result = TypeVar("Result")


class Overloaded(Exception):
    """More is waiting for a commit than the buffer holds: come back later."""


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
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: set[asyncio.Task[None]] = set()

    async def submit(self, item: Item) -> Result:
        """Raises what PostgreSQL said of this item, `Unavailable`, `OutcomeUnknown` or `Overloaded`."""
        if len(self._waiting) >= self._most_waiting:
            raise Overloaded(f"{len(self._waiting)} items are waiting to be committed")
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if len(self._running) < self._commits_at_once:
            self._begin()
        return await future

    def _begin(self) -> None:
        task = asyncio.create_task(self._work())
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _work(self) -> None:
        # One turn of the loop first: callers that are ready at the same moment get into the same commit.
        await asyncio.sleep(0)
        while self._waiting:
            batch, self._waiting = self._waiting[: self._most_at_once], self._waiting[self._most_at_once :]
            await self._commit(batch)

    async def _commit(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
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
            elif len(batch) == 1:
                _fail(batch, error)
            else:
                middle = len(batch) // 2
                await self._commit(batch[:middle])
                await self._commit(batch[middle:])
        except Exception as error:
            if len(batch) == 1:
                _fail(batch, error)
            else:
                middle = len(batch) // 2
                await self._commit(batch[:middle])
                await self._commit(batch[middle:])
        else:
            for (_, future), result in zip(batch, results, strict=True):
                if not future.done():
                    future.set_result(result)

    async def close(self) -> None:
        """Let what is waiting be committed."""
        while self._running:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*self._running)


def _nothing_can_be_done(error: asyncpg.PostgresError) -> bool:
    """Shutting down, out of connections, out of disk, read-only: no half of the batch would fare better."""
    state = getattr(error, "sqlstate", "") or ""
    return state[:2] in ("57", "53", "25", "08")


def _fail(batch: list[tuple[Item, asyncio.Future[Result]]], error: Exception) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(error)

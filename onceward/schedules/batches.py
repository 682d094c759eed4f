"""Items of a run in batches: one transaction and few statements for many items, and still one outcome per item.

If a batch fails, it is split in halves until the items that cause the failure are alone. They are recorded as failed,
and all others are done. Only one batch is in memory at a time, so a run over a million items needs no more memory than
one over a thousand.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from onceward.db import OUTAGE, OutcomeUnknown, Transaction, Unavailable
from onceward.work import Superseded

MOST_FAILURES_IN_A_ROW = 100
"""After this number of failures without a success in between, the fault is not in the items: the run fails."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchResult:
    """What became of the items of a batch that did not simply succeed, by the key of the item."""

    skipped: Iterable[object] = ()
    failed: Mapping[object, str] = field(default_factory=dict[object, str])
    """Items that count as failed although the transaction commits, with a text that says why."""


BatchFunction = Callable[[list[Any], Any], Awaitable[BatchResult | None]]
FailureHook = Callable[[Any, BaseException], Awaitable[None]]


class BatchRun(Protocol):
    """What a batch needs of its run."""

    async def do_batch(
        self, step: str, items: Mapping[str, Any], call: BatchFunction, organization: UUID | None
    ) -> Mapping[str, str]: ...

    async def record_failure(self, step: str, key: str, error: BaseException, organization: UUID | None) -> str: ...

    async def count_many(self, step: str, organization: UUID | None, outcomes: Iterable[str]) -> None: ...


@dataclass(slots=True, kw_only=True)
class Batches:
    """One call of `run.each_batch`."""

    run: BatchRun
    step: str
    call: BatchFunction
    size: int
    key: Callable[[Any], object]
    organization: Callable[[Any], UUID | None]
    on_failed: FailureHook | None
    _failures_in_a_row: int = 0

    async def all(self, items: Iterable[Any] | AsyncIterable[Any]) -> None:
        async for organization, batch in self._grouped(items):
            await self._do(organization, batch)

    async def _grouped(
        self, items: Iterable[Any] | AsyncIterable[Any]
    ) -> AsyncGenerator[tuple[UUID | None, dict[str, Any]]]:
        """Yield batches of consecutive items of one organization."""
        batch: dict[str, Any] = {}
        current: UUID | None = None
        async for item in _iterate(items):
            organization = self.organization(item)
            if batch and (organization != current or len(batch) >= self.size):
                yield current, batch
                batch = {}
            current = organization
            batch[str(self.key(item))] = item
        if batch:
            yield current, batch

    async def _do(self, organization: UUID | None, batch: Mapping[str, Any]) -> None:
        try:
            outcomes = await self.run.do_batch(self.step, batch, self.call, organization)
        except (Unavailable, Superseded, *OUTAGE):
            raise  # the database is unavailable or another worker holds the run: not a failure of the items
        except OutcomeUnknown:
            # The marks tell whether the batch was committed: items that are done are not done again.
            outcomes = await self.run.do_batch(self.step, batch, self.call, organization)
        except Exception as error:
            await self._failed(organization, batch, error)
            return
        if "success" in outcomes.values():
            self._failures_in_a_row = 0
        await self.run.count_many(self.step, organization, outcomes.values())

    async def _failed(self, organization: UUID | None, batch: Mapping[str, Any], error: Exception) -> None:
        if len(batch) > 1:
            keys = list(batch)
            middle = len(keys) // 2
            for half in (keys[:middle], keys[middle:]):
                await self._do(organization, {key: batch[key] for key in half})
            return
        [(key, item)] = batch.items()
        outcome = await self.run.record_failure(self.step, key, error, organization)
        await self.run.count_many(self.step, organization, [outcome])
        if self.on_failed is not None:
            await self.on_failed(item, error)
        self._failures_in_a_row += 1
        if self._failures_in_a_row >= MOST_FAILURES_IN_A_ROW:
            raise error


async def mark_batch(
    tx: Transaction, *, scope: int, step: str, keys: Sequence[str], run: int, lease: int, organization: UUID | None
) -> dict[str, str]:
    """Mark the items, and return those that are done already with their outcome.

    The outcome is `before` if another run with the same scope did the item. Raises `Superseded` if another worker holds
    the run.
    """
    import asyncpg

    try:
        mark = "select * from onceward.mark_items($1, $2, $3, $4, $5, $6)"
        rows = await tx.fetch(mark, scope, step, keys, run, lease, organization)
    except asyncpg.PostgresError as error:
        if error.sqlstate == "P0002":
            raise Superseded from None
        raise
    return {row["key"]: row["earlier"] or "before" for row in rows}


async def _iterate(items: Iterable[Any] | AsyncIterable[Any]) -> AsyncGenerator[Any]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item

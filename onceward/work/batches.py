"""Run the handler of a batch: one call and one commit for several pieces of work of one task."""

from __future__ import annotations

import time

import asyncpg

from onceward.db import OutcomeUnknown, RoleChanged, Transaction, TransactionEnded
from onceward.work.attempt_outcome import CancelledOutcome, CountedOutcome
from onceward.work.claimed import Claimed
from onceward.work.failure_outcome import judge, or_ended
from onceward.work.gate import gate
from onceward.work.host import Host
from onceward.work.leases import Leases
from onceward.work.outcomes import Cancelled, Superseded
from onceward.work.settle import batch_statement, describe
from onceward.work.settler import Settler
from onceward.work.slot_control import LONE_SLOT, SlotControl
from onceward.work.sqlstates import LOST_LEASE
from onceward.work.task import Task


class Batches:
    """Runs batches for one worker."""

    def __init__(self, host: Host, leases: Leases, settler: Settler) -> None:
        self._host = host
        self._leases = leases
        self._settler = settler

    async def run(self, task: Task, works: list[Claimed], slot: SlotControl = LONE_SLOT) -> list[CountedOutcome]:
        """Run several pieces of work in one commit and return the name of the outcome of each.

        Work that `task.prepare` refuses is settled alone. If the rest fails as a batch, each runs alone, so that only
        the bad one fails.
        """
        now = time.monotonic()
        refused: list[CountedOutcome] = []
        accepted: list[Claimed] = []
        for work in works:
            work.began_s = now
            try:
                if task.prepare is not None:
                    work.prepared = task.prepare(work)
                accepted.append(work)
            except Exception as error:
                refused.append(await self._settler.settle(task, work, judge(task, work, error)))
        return refused + (await self._run_batch(task, accepted, slot) if accepted else [])

    async def _run_batch(self, task: Task, works: list[Claimed], slot: SlotControl) -> list[CountedOutcome]:
        committing = False
        tx: Transaction | None = None
        try:
            async with self._host.db.acquire() as conn:
                tx = self._host.open_tx(conn, works[0])
                slot.runs(works)
                slot.begins(task.timeout_s)
                try:
                    async with tx:
                        try:
                            results = await task.run(works, tx)
                        finally:
                            slot.ended()
                        gate("before-commit")
                        committing = True
                        await self._settler.commit(tx, works, batch_statement(works, self._host.worker, results))
                except asyncpg.PostgresError as error:
                    if committing and error.sqlstate == LOST_LEASE:
                        raise Superseded from error
                    raise
            for work in works:
                self._leases.done(work)
            return ["success" for _ in works]
        except Superseded:
            # Another worker holds one of them now; the others run alone.
            if len(works) > 1:
                return await self._one_by_one(task, works, slot)
            return [self._settler.superseded(works[0])]
        except BaseException as error:
            reason = or_ended(tx, slot.failure(error))
            if isinstance(reason, TransactionEnded) and not isinstance(reason, RoleChanged):
                # Never retried: what the handler wrote for all of them may be committed.
                return [await self._settler.settle(task, work, judge(task, work, reason)) for work in works]
            if isinstance(reason, Cancelled) and len(works) > 1:
                return await self._without_cancelled(task, works, slot, reason)
            if len(works) == 1:
                return [await self._settler.settle(task, works[0], judge(task, works[0], reason))]
            if committing and isinstance(error, OutcomeUnknown):
                # Never retried in place. If the commit happened, the rows are gone and nothing is written.
                return [await self._settler.settle(task, work, judge(task, work, error)) for work in works]
            return await self._one_by_one(task, works, slot)

    async def _without_cancelled(
        self, task: Task, works: list[Claimed], slot: SlotControl, reason: Cancelled
    ) -> list[CountedOutcome]:
        """Settle the members that operators cancelled, and run the others again as a batch."""
        stopped = [work for work in works if work.id in slot.cancelled]
        rest = [work for work in works if work not in stopped]
        outcomes: list[CountedOutcome] = [
            await self._settler.settle(task, work, CancelledOutcome(describe(reason))) for work in stopped
        ]
        return [*outcomes, *(await self._run_batch(task, rest, slot) if rest else ())]

    async def _one_by_one(self, task: Task, works: list[Claimed], slot: SlotControl) -> list[CountedOutcome]:
        return [outcome for work in works for outcome in await self._run_batch(task, [work], slot)]

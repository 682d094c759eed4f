"""Settle finished work: write its outcome and run its `on_end` hook.

The outcome counts only if the lease is still held.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from onceward.db import Connection, Transaction, TransactionEnded
from onceward.db.lost import is_gone
from onceward.trust.metrics_events import record_metric
from onceward.work.attempt_outcome import AttemptOutcome, CountedOutcome, SnoozedOutcome, name_of
from onceward.work.claimed import Claimed
from onceward.work.end_hooks import RunHook, defer_end_hook, run_end_hook
from onceward.work.failure_outcome import does_not_fit, judge, log_failure, timed_out
from onceward.work.forms import wait_for_version
from onceward.work.gate import gate
from onceward.work.host import Host
from onceward.work.leases import Leases
from onceward.work.record import Written, record
from onceward.work.settle import settle
from onceward.work.task import EndHook, Task

log = structlog.get_logger(__name__)


class Settler:
    """Writes outcomes for one worker, and knows which tasks have an `on_end` hook."""

    def __init__(self, host: Host, leases: Leases, hooks: Mapping[str, EndHook]) -> None:
        self._host = host
        self._leases = leases
        self._hooks = hooks

    def has_hook(self, task: str) -> bool:
        return task in self._hooks

    async def commit(self, tx: Transaction, works: list[Claimed], last: str) -> None:
        """Commit what handlers wrote with the acknowledgement `last`, and with the `on_end` hook of their task."""
        hook = self._hooks.get(works[0].task)
        if hook is None:
            await tx.commit(last)
            return
        await tx.hand_over(last)
        for work in works:
            await run_end_hook(tx, work, self._host.worker, hook, wake=self._host.wake)
        await tx.commit()

    def superseded(self, work: Claimed) -> CountedOutcome:
        """Forget work whose lease was lost: another worker has it now."""
        self._leases.done(work)
        log.info("work.superseded", kind=work.kind, id=work.id, task=work.task)
        return "superseded"

    async def fail(self, task: Task, work: Claimed, error: Exception) -> CountedOutcome:
        """Settle work whose slot was interrupted after its handler had ended. It counts only if the lease is still
        held.

        The hook does not run here: it may be what interrupted the slot.
        """
        return await self.settle(task, work, judge(task, work, error), defer_end_hook)

    async def settle(
        self, task: Task, work: Claimed, outcome: AttemptOutcome, run: RunHook = run_end_hook
    ) -> CountedOutcome:
        """Write the outcome, however long the database is unavailable. It counts only if the lease is still held."""

        hook = self._hooks.get(task.name)
        error: dict[str, Any] | None = getattr(outcome, "error", None)
        if work.parted is not None and error is not None:
            error["group"] = work.parted

        async def write(conn: Connection, outcome: AttemptOutcome) -> Written:
            nonlocal run
            if does_not_fit(outcome):
                wait_s = await wait_for_version(conn, task, work, outcome.error)
                outcome = outcome if wait_s is None else SnoozedOutcome(wait_s, outcome.error)
            if hook is None:
                return await write_outcome(conn, outcome)
            try:
                return await write_with_hook(conn, outcome, run, hook)
            except TransactionEnded:  # the hook ended the transaction, and with it the outcome: its job repeats it
                return await write_with_hook(conn, outcome, defer_end_hook, hook)
            except BaseException:
                if is_gone(conn):  # perhaps because of the hook: it must not keep the outcome from being written
                    run = defer_end_hook
                raise

        async def write_with_hook(conn: Connection, outcome: AttemptOutcome, run: RunHook, hook: EndHook) -> Written:
            async with self._host.open_tx(conn, work) as tx:
                await tx.become_engine()
                written = await write_outcome(conn, outcome)
                if written.kept:
                    await run(tx, work, self._host.worker, hook, wake=self._host.wake)
            return written

        async def write_outcome(conn: Connection, outcome: AttemptOutcome) -> Written:
            kept = await settle(conn, work, self._host.worker, outcome, critical=task.critical)
            if timed_out(outcome):
                fields = {"task": work.task, "kind": work.kind, "timeout_s": task.timeout_s}
                await record_metric(conn, "worker_timeout", job_id=work.id, metadata=fields)
            return Written(outcome, kept)

        written = await record(self._host.db, work, outcome, write)
        self._leases.done(work)
        gate("after-settle")
        log_failure(work, written.outcome, critical=task.critical)
        return name_of(written.outcome, critical=task.critical) if written.kept else "superseded"

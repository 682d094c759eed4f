"""Run one piece of work: start the handler, judge its result, settle the outcome."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import asyncpg
import structlog

from onceward.db import (
    Connection,
    Database,
    OutcomeUnknown,
    RoleChanged,
    RolledBack,
    Transaction,
    TransactionEnded,
    Unavailable,
    note_lost_connection,
)
from onceward.db.lost import is_gone
from onceward.db.transaction import ended_and_failed
from onceward.db.watching import Watch
from onceward.telemetry.caller import work_span
from onceward.telemetry.tracing import is_tracing
from onceward.trust.metrics_events import record_metric
from onceward.work.attempt_outcome import (
    AttemptOutcome,
    CancelledOutcome,
    CountedOutcome,
    SnoozedOutcome,
    SuccessOutcome,
    name_of,
)
from onceward.work.claimed import Claimed
from onceward.work.end_hooks import RunHook, defer_end_hook, run_end_hook
from onceward.work.forms import wait_for_version
from onceward.work.gate import gate
from onceward.work.judging import does_not_fit, judge, log_failure, timed_out
from onceward.work.leases import Leases
from onceward.work.outcomes import (
    Cancelled,
    Settled,
    Superseded,
)
from onceward.work.processes import HandlerProcesses
from onceward.work.record import Written, record
from onceward.work.settle import Acknowledger, batch_statement, describe, final_statement, group_statement, settle
from onceward.work.sharing import Ended, Member, Sharing, describe_parting, note_parted
from onceward.work.slot_control import LONE_SLOT, Carried, SlotControl
from onceward.work.sqlstates import LOST_LEASE
from onceward.work.task import EndHook, Task
from onceward.work.threads import HandlerThreads

log = structlog.get_logger(__name__)

Opener = Callable[[Connection, Claimed], Transaction]


@dataclass(frozen=True, slots=True)
class Host:
    """The worker's resources, for a task that opens its own transactions and settles its own work."""

    db: Database
    worker: int
    open_tx: Opener
    wake: Callable[[str], None]
    threads: HandlerThreads
    processes: HandlerProcesses


class Executor:
    """Runs claimed work with the worker's pool, transaction opener and acknowledger."""

    def __init__(
        self,
        db: Database,
        *,
        worker: int,
        acks: Acknowledger,
        leases: Leases,
        open_tx: Opener,
        wake: Callable[[str], None] = lambda _queue: None,
        hooks: Mapping[str, EndHook] | None = None,
        threads: HandlerThreads | None = None,
        processes: HandlerProcesses | None = None,
        sharing: Sharing | None = None,
    ) -> None:
        self._db = db
        self._sharing = sharing or Sharing()
        self._hooks: Mapping[str, EndHook] = {} if hooks is None else hooks
        self._worker = worker
        self._acks = acks
        self._leases = leases
        self._open_tx = open_tx
        self._host = Host(db, worker, open_tx, wake, threads or HandlerThreads(), processes or HandlerProcesses())

    async def run(self, task: Task, work: Claimed, slot: SlotControl = LONE_SLOT) -> CountedOutcome | list[Ended]:
        """Run the task and settle the work. Return the name of the outcome, for metrics.

        Work that waits may run in the same transaction: then return how each ended.
        """
        if task.transactional:
            return await self._in_transaction(task, work, slot)
        work.began_s = time.monotonic()
        work.host = self._host
        work.open_tx = self._open_tx
        try:
            slot.begins(task.timeout_s)
            try:
                result = await task.run(work, None)
            except (Settled, Superseded):
                raise
            except BaseException as error:
                return await self._settle(task, work, judge(task, work, slot.failure(error)))
            slot.ended()
            gate("after-run")
            if task.name in self._hooks or not self._acks.takes(work, outside=task.outside):
                return await self._settle(task, work, SuccessOutcome(result))
            self._acks.add(work, result)
            if self._acks.congested:
                await self._acks.settle_down()
            return "success"
        except Settled as settled:
            self._leases.done(work)
            return settled.outcome
        except Superseded:
            self._leases.done(work)
            log.info("work.superseded", kind=work.kind, id=work.id, task=work.task)
            return "superseded"

    async def _in_transaction(self, task: Task, work: Claimed, slot: SlotControl) -> CountedOutcome | list[Ended]:
        """Run the work, and work that waits after it in the same transaction, and commit all effects and successes together."""
        ended = await self._run_group(Member(task, work), slot)
        return ended[0].outcome if len(ended) == 1 else ended

    async def _run_group(self, first: Member, slot: SlotControl, others: list[Member] | None = None) -> list[Ended]:
        """Run handlers one after the other in one transaction: `first`, and then `others`, or else work that waits.

        The round trip that commits also opens the transaction of the next work.
        """
        carried, slot.carried = slot.carried, None
        group = [first]
        self._begins(first, slot, follows_others=False)
        try:
            conn = await self._db.borrow() if carried is None else carried.conn
        except Unavailable as error:
            return [await self._settle_member(first, error)]
        tx = self._open_tx(conn, first.work) if carried is None else carried.tx
        culprit: Member | None = first
        begun = committing = False
        slot.begins(first.task.timeout_s)  # the wait for a free connection does not count towards the timeout
        since = time.monotonic()
        try:
            if not tx.is_open:
                await tx.open()
            begun = True
            try:
                gate("after-begin")
                await self._handle(first, tx, slot)
                while (member := self._next_member(group, slot, others, since)) is not None:
                    gate("before-join")
                    group.append(member)
                    then = self._open_tx(conn, member.work)
                    await then.join(tx)
                    tx = then
                    culprit = member
                    self._begins(member, slot, follows_others=True)
                    slot.begins(member.task.timeout_s)
                    gate("after-join")
                    await self._handle(member, tx, slot)
                gate("before-commit")
                committing = True
                await self._commit_group(group, tx, conn, slot, carries=others is None)
            finally:
                if tx.is_open:
                    await asyncio.shield(tx.rollback())
            gate("after-commit")
            return self._succeeded(group)
        except BaseException as error:
            # After an unknown outcome: if the commit happened, the row and its lease are gone, and settling writes nothing.
            # Only the acknowledging statement counts: an error in the handler's own statements is its failure.
            lost = committing and getattr(error, "sqlstate", None) == LOST_LEASE
            if lost and len(group) == 1:
                return [self._superseded(first)]
            if begun:
                note_lost_connection(error, conn)
            failure = _ended(tx, slot.failure(error))
            if committing and not isinstance(error, RolledBack | TransactionEnded):
                culprit = None
            is_rolled_back = not committing or isinstance(
                error, asyncpg.PostgresError | RolledBack | TransactionEnded | Unavailable
            )
        finally:
            slot.ended()
            if slot.carried is None:
                await self._db.give_back(conn)
        if len(group) == 1:
            self._sharing.of(first.task).ended(failed=True)
            return [await self._settle_member(first, failure)]
        return await self._part(group, culprit, failure, slot, is_rolled_back=is_rolled_back)

    def _begins(self, member: Member, slot: SlotControl, *, follows_others: bool) -> None:
        work = member.work
        work.follows_others = follows_others
        work.began_s = time.monotonic()
        work.db = self._db
        work.host = self._host
        work.open_tx = self._open_tx
        slot.turns_to(work, follows_others=follows_others)

    def _next_member(
        self, group: list[Member], slot: SlotControl, others: list[Member] | None, since: float
    ) -> Member | None:
        """Return the next member of an open group, if the group may have one more."""
        if group[0].task.name in self._hooks:
            return None
        if others is not None:
            return others.pop(0) if others and self._sharing.fits_again(group, others[0].task, since=since) else None

        def fits(task: Task, work: Claimed) -> bool:
            return task.name not in self._hooks and self._sharing.fits(group, task, work, since=since)

        return slot.joining(fits)

    async def _handle(self, member: Member, tx: Transaction, slot: SlotControl) -> None:
        """Run the handler of one member, and look at its statements: they may concern others in the same transaction."""
        task, work = member.task, member.work
        pooled: Any = tx.conn
        watch: Callable[[Watch | None], None] = pooled.watch
        if task.shares:
            member.watch = Watch(others=work.follows_others)
            watch(member.watch)
        began = time.monotonic()
        try:
            if is_tracing():
                member.result = await _traced(task, work, tx)
            else:
                member.result = await task.run(work, tx)
        finally:
            slot.ended()  # before the rollback, which nothing may interrupt
            if member.watch is not None:
                watch(None)
        member.seconds = time.monotonic() - began
        if member.watch is not None:
            self._sharing.of(task).took(member.seconds)
            if member.watch.refused is not None:  # although the handler caught the refusal
                raise member.watch.refused

    async def _commit_group(
        self, group: list[Member], tx: Transaction, conn: Connection, slot: SlotControl, *, carries: bool
    ) -> None:
        work = group[-1].work
        if len(group) == 1:
            last = final_statement(work, self._worker, group[0].result)
            hook = self._hooks.get(work.task)
            if hook is not None:
                await self._commit_with_hook(tx, [work], hook, last)
                return
        else:
            last = group_statement([(each.work, each.result) for each in group], self._worker)
        if not carries or self._db.crowded or (following := slot.following()) is None:
            await tx.commit(last)
            return
        # An error while the next transaction opens looks like a failure of this work, although this work has
        # committed. The commit cleared the lease, so settling that failure writes nothing.
        then = self._open_tx(conn, following)
        await tx.commit(last, then=then)
        slot.carried = Carried(following, conn, then)

    def _succeeded(self, group: list[Member]) -> list[Ended]:
        now = time.monotonic()
        for member in group:
            self._leases.done(member.work)
            if member.watch is not None:
                known = self._sharing.of(member.task)
                known.ended(failed=False)
                known.committed(now)
        return [Ended(each.task, "success", each.seconds, len(group)) for each in group]

    def _superseded(self, member: Member) -> Ended:
        work = member.work
        self._leases.done(work)
        log.info("work.superseded", kind=work.kind, id=work.id, task=work.task)
        return Ended(member.task, "superseded", member.seconds)

    async def _settle_member(self, member: Member, failure: BaseException) -> Ended:
        seconds = member.work.elapsed_s
        outcome = await self._settle(member.task, member.work, judge(member.task, member.work, failure))
        return Ended(member.task, outcome, seconds)

    async def _part(
        self,
        group: list[Member],
        culprit: Member | None,
        failure: BaseException,
        slot: SlotControl,
        *,
        is_rolled_back: bool,
    ) -> list[Ended]:
        """Settle a group that was rolled back. The failure costs its owner only: the others run again, in smaller groups.

        The owner runs again alone, because what it met may have been the group; only then its failure counts. Without a known
        owner each runs alone. If it is unknown whether the group was committed, nothing runs here again: each is pending again,
        unless it was committed.
        """
        note_parted(self._sharing, group, culprit, failure)
        if not is_rolled_back:
            return [await self._settle_unknown(each, failure) for each in group]
        if isinstance(failure, TransactionEnded) and not isinstance(failure, RoleChanged):
            # No statement of a handler can have ended this transaction unseen. If one has, what all of them wrote may be committed.
            return [await self._settle_member(each, failure) for each in group]
        rest = [each for each in group if each is not culprit] if culprit is not None else []
        ended: list[Ended] = []
        while rest:
            again = rest.pop(0)
            ended += await self._run_group(again, slot, rest)
        for each in group if culprit is None else [culprit]:
            each.work.parted = describe_parting(group, failure)
            if isinstance(failure, Cancelled):
                ended.append(await self._settle_member(each, failure))
            else:
                ended += await self._run_group(each, slot, [])
        return ended

    async def _settle_unknown(self, member: Member, failure: BaseException) -> Ended:
        """Make a member of a group pending again whose commit may have happened: then its lease is gone, and nothing is written."""
        outcome = await self._settle(member.task, member.work, SnoozedOutcome(0.05, describe(failure)))
        return Ended(member.task, outcome, member.seconds)

    async def _commit_with_hook(self, tx: Transaction, works: list[Claimed], hook: EndHook, last: str) -> None:
        """Acknowledge the work, run its on_end hook, and commit both."""
        await tx.hand_over(last)
        for work in works:
            await run_end_hook(tx, work, self._worker, hook, wake=self._host.wake)
        await tx.commit()

    async def run_batch(self, task: Task, works: list[Claimed], slot: SlotControl = LONE_SLOT) -> list[CountedOutcome]:
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
                refused.append(await self._settle(task, work, judge(task, work, error)))
        return refused + (await self._run_batch(task, accepted, slot) if accepted else [])

    async def _run_batch(self, task: Task, works: list[Claimed], slot: SlotControl) -> list[CountedOutcome]:
        committing = False
        tx: Transaction | None = None
        try:
            async with self._db.acquire() as conn:
                tx = self._open_tx(conn, works[0])
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
                        hook = self._hooks.get(task.name)
                        last = batch_statement(works, self._worker, results)
                        if hook is None:
                            await tx.commit(last)
                        else:
                            await self._commit_with_hook(tx, works, hook, last)
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
            self._leases.done(works[0])
            log.info("work.superseded", task=task.name, id=works[0].id)
            return ["superseded"]
        except BaseException as error:
            reason = _ended(tx, slot.failure(error))
            if isinstance(reason, TransactionEnded) and not isinstance(reason, RoleChanged):
                # Never retried: what the handler wrote for all of them may be committed.
                return [await self._settle(task, work, judge(task, work, reason)) for work in works]
            if isinstance(reason, Cancelled) and len(works) > 1:
                return await self._without_cancelled(task, works, slot, reason)
            if len(works) == 1:
                return [await self._settle(task, works[0], judge(task, works[0], reason))]
            if committing and isinstance(error, OutcomeUnknown):
                # Never retried in place. If the commit happened, the rows are gone and nothing is written.
                return [await self._settle(task, work, judge(task, work, error)) for work in works]
            return await self._one_by_one(task, works, slot)

    async def _without_cancelled(
        self, task: Task, works: list[Claimed], slot: SlotControl, reason: Cancelled
    ) -> list[CountedOutcome]:
        """Settle the members that operators cancelled, and run the others again as a batch."""
        stopped = [work for work in works if work.id in slot.cancelled]
        rest = [work for work in works if work not in stopped]
        outcomes: list[CountedOutcome] = [
            await self._settle(task, work, CancelledOutcome(describe(reason))) for work in stopped
        ]
        return [*outcomes, *(await self._run_batch(task, rest, slot) if rest else ())]

    async def _one_by_one(self, task: Task, works: list[Claimed], slot: SlotControl) -> list[CountedOutcome]:
        return [outcome for work in works for outcome in await self._run_batch(task, [work], slot)]

    async def run_alone(self, task: Task, work: Claimed, slot: SlotControl) -> None:
        """Run one member of a batch or group in a transaction of its own."""
        if task.batch > 1:
            await self.run_batch(task, [work], slot)
        else:
            await self._run_group(Member(task, work), slot, [])

    async def fail(self, task: Task, work: Claimed, error: Exception) -> CountedOutcome:
        """Settle work whose slot was interrupted after its handler had ended. It counts only if the lease is still held.

        The hook does not run here: it may be what interrupted the slot.
        """
        return await self._settle(task, work, judge(task, work, error), defer_end_hook)

    async def _settle(
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
            async with self._open_tx(conn, work) as tx:
                await tx.become_engine()
                written = await write_outcome(conn, outcome)
                if written.kept:
                    await run(tx, work, self._worker, hook, wake=self._host.wake)
            return written

        async def write_outcome(conn: Connection, outcome: AttemptOutcome) -> Written:
            kept = await settle(conn, work, self._worker, outcome, critical=task.critical)
            if timed_out(outcome):
                fields = {"task": work.task, "kind": work.kind, "timeout_s": task.timeout_s}
                await record_metric(conn, "worker_timeout", job_id=work.id, metadata=fields)
            return Written(outcome, kept)

        written = await record(self._db, work, outcome, write)
        self._leases.done(work)
        gate("after-settle")
        log_failure(work, written.outcome, critical=task.critical)
        return name_of(written.outcome, critical=task.critical) if written.kept else "superseded"


async def _traced(task: Task, work: Claimed, tx: Transaction) -> Any:
    """Run the handler in a span of its own. Its failure is an outcome, not an error of the span."""
    with work_span(work):
        try:
            return await task.run(work, tx)
        except BaseException as error:
            failure = error
    raise failure


def _ended(tx: Transaction | None, failure: BaseException) -> BaseException:
    """Return the failure, or that the handler had ended its transaction before it failed: a retry could repeat its effects."""
    if tx is None or not tx.was_ended or isinstance(failure, TransactionEnded):
        return failure
    return ended_and_failed(failure)

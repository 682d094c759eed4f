"""Run handlers in transactions. Handlers that wait share one transaction, and a failure costs only its owner."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import asyncpg

from onceward.db import (
    Connection,
    RoleChanged,
    RolledBack,
    Transaction,
    TransactionEnded,
    Unavailable,
    note_lost_connection,
)
from onceward.db.statement_watch import Watch
from onceward.telemetry.caller import work_span
from onceward.telemetry.tracing import is_tracing
from onceward.work.attempt_outcome import SnoozedOutcome
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import Ended, Member, Sharing, describe_parting, note_parted
from onceward.work.contention import Turn
from onceward.work.failure_outcome import judge, or_ended
from onceward.work.gate import gate
from onceward.work.host import Host
from onceward.work.leases import Leases
from onceward.work.outcomes import Cancelled, Snooze
from onceward.work.settle import describe, final_statement, group_statement, parted_statement
from onceward.work.settler import Settler
from onceward.work.slot_control import Carried, SlotControl
from onceward.work.sqlstates import LOST_LEASE
from onceward.work.task import Task


class Groups:
    """Runs work with a transaction for one worker."""

    def __init__(self, host: Host, leases: Leases, settler: Settler, sharing: Sharing) -> None:
        self._host = host
        self._leases = leases
        self._settler = settler
        self._sharing = sharing

    async def run(self, first: Member, slot: SlotControl, others: list[Member] | None = None) -> list[Ended]:
        """Run handlers one after the other in one transaction: `first`, and then `others`, or else work that waits.

        The round trip that commits also opens the transaction of the next work.
        """
        line = self._sharing.line_of(first.task)
        if line is None:
            return await self._run(first, slot, others, None)
        turn = line.enter()
        try:
            return await self._run(first, slot, others, turn)
        finally:
            turn.end()

    async def _run(
        self, first: Member, slot: SlotControl, others: list[Member] | None, turn: Turn | None
    ) -> list[Ended]:
        carried, slot.carried = slot.carried, None
        group = [first]
        self._begins(first, slot, follows_others=False)
        try:
            conn = await self._host.db.borrow() if carried is None else carried.conn
        except Unavailable as error:
            return [await self._settle_member(first, error)]
        tx = self._host.open_tx(conn, first.work) if carried is None else carried.tx
        if turn is not None:
            turn.runs_in(conn.get_server_pid())
        culprit: Member | None = first
        sender = first
        """The last member that sent a statement: what the transaction is now, it has made."""
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
                    then = self._host.open_tx(conn, member.work)
                    then.follow(tx)
                    tx = then
                    culprit = member
                    self._begins(member, slot, follows_others=True)
                    slot.begins(member.task.timeout_s)
                    gate("after-join")
                    await self._handle(member, tx, slot)
                    if tx.has_begun:
                        sender = member
                gate("before-commit")
                committing = True
                if turn is not None:
                    turn.end()
                await self._commit_group(group, tx, conn, slot, carries=others is None)
            finally:
                if tx.is_open:
                    await asyncio.shield(tx.rollback())
            gate("after-commit")
            return self._succeeded(group)
        except BaseException as error:
            # After an unknown outcome: if the commit happened, the row and its lease are gone, and settling writes
            # nothing. Only the acknowledging statement counts: an error in the handler's own statements is its failure.
            lost = committing and getattr(error, "sqlstate", None) == LOST_LEASE
            if lost and len(group) == 1:
                return [Ended(first.task, self._settler.superseded(first.work), first.seconds, first.work.organization)]
            if begun:
                note_lost_connection(error, conn)
            failure = or_ended(tx, slot.failure(error))
            if isinstance(error, RolledBack | TransactionEnded):
                culprit = culprit if tx.has_begun else sender
            elif committing:
                culprit = None
            is_rolled_back = not committing or isinstance(
                error, asyncpg.PostgresError | RolledBack | TransactionEnded | Unavailable
            )
        finally:
            slot.ended()
            if slot.carried is None:
                await self._host.db.give_back(conn)
        if len(group) == 1:
            self._sharing.of(first.task).ended(failed=True)
            return [await self._settle_member(first, failure)]
        return await self._part(group, culprit, failure, slot, turn, is_rolled_back=is_rolled_back)

    def _begins(self, member: Member, slot: SlotControl, *, follows_others: bool) -> None:
        work = member.work
        work.follows_others = follows_others
        work.began_s = time.monotonic()
        work.db = self._host.db
        work.host = self._host
        work.open_tx = self._host.open_tx
        slot.turns_to(work, follows_others=follows_others)

    def _next_member(
        self, group: list[Member], slot: SlotControl, others: list[Member] | None, since: float
    ) -> Member | None:
        """Return the next member of an open group, if the group may have one more."""
        if self._settler.has_hook(group[0].task.name):
            return None
        if others is not None:
            return self._next_again(group, others, since)

        def fits(task: Task, work: Claimed) -> bool:
            return not self._settler.has_hook(task.name) and self._sharing.fits(group, task, work, since=since)

        return slot.joining(fits)

    def _next_again(self, group: list[Member], others: list[Member], since: float) -> Member | None:
        """Return the next of `others`, members of a group that was rolled back. Those that may not run yet stay in
        the list."""
        ran = [each.work for each in group]
        for place, each in enumerate(others):
            if not each.work.is_blocked or each.work.after in ran:
                return others.pop(place) if self._sharing.fits_again(group, each.task, since=since) else None
        return None

    async def _handle(self, member: Member, tx: Transaction, slot: SlotControl) -> None:
        """Run the handler of one member, and look at its statements: they may concern others in the same
        transaction."""
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
            last = final_statement(work, self._host.worker, group[0].result)
        else:
            last = group_statement([(each.work, each.result) for each in group], self._host.worker)
        last += "".join(parted_statement(each.work) for each in group if each.work.parted is not None)
        if (
            self._settler.has_hook(work.task)
            or not carries
            or self._host.db.crowded
            or self._is_limited(group)
            or (following := slot.following()) is None
        ):
            await self._settler.commit(tx, [work], last)
            return
        # An error while the next transaction opens looks like a failure of this work, although this work has
        # committed. The commit cleared the lease, so settling that failure writes nothing.
        then = self._host.open_tx(conn, following)
        await tx.commit(last, then=then)
        slot.carried = Carried(following, conn, then)

    def _is_limited(self, group: list[Member]) -> bool:
        """Return whether other groups of the task may wait for their turn: then the slot must not keep its own."""
        line = self._sharing.line_of(group[0].task)
        return line is not None and line.limit is not None

    def _succeeded(self, group: list[Member]) -> list[Ended]:
        now = time.monotonic()
        for member in group:
            self._leases.done(member.work)
            member.work.succeeded = True
            if member.watch is not None:
                known = self._sharing.of(member.task)
                known.ended(failed=False)
                known.committed(now)
        return [Ended(each.task, "success", each.seconds, each.work.organization, len(group)) for each in group]

    async def _settle_member(self, member: Member, failure: BaseException) -> Ended:
        seconds = member.work.elapsed_s
        outcome = await self._settler.settle(member.task, member.work, judge(member.task, member.work, failure))
        return Ended(member.task, outcome, seconds, member.work.organization)

    async def _part(
        self,
        group: list[Member],
        culprit: Member | None,
        failure: BaseException,
        slot: SlotControl,
        turn: Turn | None,
        *,
        is_rolled_back: bool,
    ) -> list[Ended]:
        """Settle a group that was rolled back. The failure costs its owner only: the others run again, in smaller
        groups, in the turn of this group.

        The owner runs again alone, because what it met may have been the group; only then its failure counts. Without a
        known owner each runs alone. Work that follows the owner in its ordered lane runs after it: it had joined and
        not begun. If its predecessor failed, it does not run: its slot releases it. If it is unknown whether the group
        was committed, nothing runs here again: each is pending again, unless it was committed.
        """
        note_parted(self._sharing, group, culprit, failure)
        if not is_rolled_back:
            return [await self._settle_unknown(each, failure) for each in group]
        if isinstance(failure, TransactionEnded) and not isinstance(failure, RoleChanged):
            # No statement of a handler can have ended this transaction unseen. If one has, what all of them wrote may
            # be committed.
            return [await self._settle_member(each, failure) for each in group]
        for each in group:
            each.work.parted = describe_parting(group, failure)
        rest = [each for each in group if each is not culprit] if culprit is not None else []
        ended = await self._run_again(rest, slot, turn)
        for each in group if culprit is None else [culprit]:
            if each.work.is_blocked:
                continue
            if isinstance(failure, Cancelled):
                ended.append(await self._settle_member(each, failure))
            else:
                ended += await self._run_in(turn, each, slot, [])
        return ended + await self._run_again(rest, slot, turn)

    async def _run_in(self, turn: Turn | None, first: Member, slot: SlotControl, others: list[Member]) -> list[Ended]:
        """Run handlers again in the turn of their group."""
        if turn is not None:
            turn.goes_on()
        return await self._run(first, slot, others, turn)

    async def _run_again(self, rest: list[Member], slot: SlotControl, turn: Turn | None) -> list[Ended]:
        """Run members of a group that was rolled back, in groups. Leave in `rest` those whose predecessor has not
        succeeded."""
        ended: list[Ended] = []
        while (again := next((each for each in rest if not each.work.is_blocked), None)) is not None:
            rest.remove(again)
            ended += await self._run_in(turn, again, slot, rest)
        return ended

    async def _settle_unknown(self, member: Member, failure: BaseException) -> Ended:
        """Make a member of a group pending again whose commit may have happened: then its lease is gone, and nothing
        is written."""
        outcome = await self._settler.settle(member.task, member.work, SnoozedOutcome(0.05, describe(failure)))
        return Ended(member.task, outcome, member.seconds, member.work.organization)


async def _traced(task: Task, work: Claimed, tx: Transaction) -> Any:
    """Run the handler in a span of its own. Work that is put off has not failed."""
    with work_span(work) as recorded:
        try:
            return await task.run(work, tx)
        except BaseException as error:
            if not isinstance(error, Snooze):
                recorded.fail(type(error).__name__)
            failure = error
    raise failure

"""Run one piece of work: start the handler, judge its result, settle the outcome."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from onceward.db import Database
from onceward.work.attempt_outcome import CountedOutcome, SuccessOutcome
from onceward.work.batches import Batches
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import Ended, Member, Sharing
from onceward.work.failure_outcome import judge
from onceward.work.gate import gate
from onceward.work.groups import Groups
from onceward.work.host import Host, Opener
from onceward.work.leases import Leases
from onceward.work.outcomes import Settled, Superseded
from onceward.work.processes import HandlerProcesses
from onceward.work.settle import Acknowledger
from onceward.work.settler import Settler
from onceward.work.slot_control import LONE_SLOT, SlotControl
from onceward.work.task import EndHook, Task
from onceward.work.threads import HandlerThreads


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
        self._acks = acks
        self._leases = leases
        self._host = Host(db, worker, open_tx, wake, threads or HandlerThreads(), processes or HandlerProcesses())
        self.settler = Settler(self._host, leases, {} if hooks is None else hooks)
        self.batches = Batches(self._host, leases, self.settler)
        self.sharing = sharing or Sharing()
        self.wake = wake
        """Tells all nodes that work of a queue waits."""
        self._groups = Groups(self._host, leases, self.settler, self.sharing)

    async def run(self, task: Task, work: Claimed, slot: SlotControl = LONE_SLOT) -> CountedOutcome | list[Ended]:
        """Run the task and settle the work. Return the name of the outcome, for metrics.

        Work that waits may run in the same transaction: then return how each ended.
        """
        if task.transactional:
            ended = await self._groups.run(Member(task, work), slot)
            return ended[0].outcome if len(ended) == 1 else ended
        work.began_s = time.monotonic()
        work.host = self._host
        work.open_tx = self._host.open_tx
        try:
            slot.begins(task.timeout_s)
            try:
                result = await task.run(work, None)
            except (Settled, Superseded):
                raise
            except BaseException as error:
                return await self.settler.settle(task, work, judge(task, work, slot.failure(error)))
            slot.ended()
            gate("after-run")
            if self.settler.has_hook(task.name) or not self._acks.takes(work, outside=task.outside):
                return await self.settler.settle(task, work, SuccessOutcome(result))
            self._acks.add(work, result)
            if self._acks.congested:
                await self._acks.settle_down()
            return "success"
        except Settled as settled:
            self._leases.done(work)
            return settled.outcome
        except Superseded:
            return self.settler.superseded(work)

    async def run_alone(self, task: Task, work: Claimed, slot: SlotControl) -> None:
        """Run one member of a batch or group in a transaction of its own."""
        if task.batch > 1:
            await self.batches.run(task, [work], slot)
        else:
            await self._groups.run(Member(task, work), slot, [])

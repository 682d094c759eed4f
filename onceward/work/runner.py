"""The runner of one queue: pacing decides how much to claim, the feeder claims it, the slots run it."""

from __future__ import annotations

from collections.abc import Sequence

from onceward.db import Database
from onceward.work.claim_connections import ClaimConnections
from onceward.work.claim_size import Pacing
from onceward.work.claimed import Claimed
from onceward.work.executor import Executor
from onceward.work.feeder import Feeder
from onceward.work.idle_flags import IdleFlags
from onceward.work.leases import Leases
from onceward.work.slot import Slot
from onceward.work.slots import Count, Slots
from onceward.work.suspects import Suspects
from onceward.work.task import AppRegistry
from onceward.work.threads import HandlerThreads


class QueueRunner:
    """Claims and runs the work of one queue between `start` and `stop`.

    It runs every task that the process knows: a job may be put into another queue than that of its task. Only its pace
    depends on the tasks for which the queue was declared.
    """

    def __init__(
        self,
        db: Database,
        registry: AppRegistry,
        executor: Executor,
        leases: Leases,
        suspects: Suspects,
        connections: ClaimConnections,
        flags: IdleFlags,
        *,
        queue: str,
        worker: int,
        concurrency: int,
        poll_s: float,
        shares: bool = True,
        fair: bool = True,
        count: Count,
    ) -> None:
        self.queue = queue
        own = [task for task in registry if task.queue == queue] or list(registry)
        names = sorted({task.name for task in own})
        pacing = Pacing(own, concurrency=concurrency, connections=db.most_connections)
        self._slots = Slots(
            db,
            executor,
            leases,
            pacing,
            suspects,
            registry.tasks,
            own=own,
            queue=queue,
            shares=shares,
            suspect_ended=self._suspect_ended,
            count=count,
        )
        self._feeder = Feeder(
            self._slots,
            pacing,
            leases,
            suspects,
            connections,
            registry.kinds,
            flags,
            queue=queue,
            tasks=[
                *names,
                *sorted(registry.tasks.keys() - set(names)),
            ],  # a claim compares a row with them in this order
            worker=worker,
            poll_s=poll_s,
            fair=fair,
        )

    @property
    def slots(self) -> Sequence[Slot]:
        return self._slots.slots

    async def start(self, threads: HandlerThreads) -> None:
        await self._slots.start(threads)
        await self._feeder.start()

    async def stop(self, grace_s: float) -> list[Claimed]:
        """Stop claiming, release work that has not started, wait for running work, then cancel and release it.

        Return the work of handlers that could not be stopped.
        """
        await self._feeder.stop()
        return await self._slots.stop(grace_s)

    def wake(self) -> None:
        """New or rescued work was committed: claim it at once."""
        self._feeder.wake()

    def check_deadlines(self) -> None:
        """Cancel handlers that exceeded their timeout. A loop calls this."""
        self._slots.check_deadlines()

    def held(self) -> set[int]:
        """Return the ids of all work that this queue runs or will run here."""
        return self._slots.held()

    def cancel(self, ids: set[int]) -> None:
        """Cancel the work with these ids that runs in this queue."""
        self._slots.cancel(ids)

    def _suspect_ended(self) -> None:
        self._feeder.suspect_ended()

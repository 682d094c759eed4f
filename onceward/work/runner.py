"""The runner of one queue: pacing decides how much to claim, the feeder claims it, the slots run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onceward.db import Database
from onceward.work.claim_connections import ClaimConnections
from onceward.work.claimed import Claimed
from onceward.work.executor import Executor
from onceward.work.feeder import Feeder
from onceward.work.idle_flags import IdleFlags
from onceward.work.leases import Leases
from onceward.work.pacing import Pacing
from onceward.work.slot import Slot, SuspectTurn
from onceward.work.slots import Slots
from onceward.work.task import Registry, Task
from onceward.work.threads import HandlerThreads


class QueueRunner:
    """Claims and runs the work of one queue between `start` and `stop`."""

    def __init__(
        self,
        db: Database,
        registry: Registry,
        executor: Executor,
        leases: Leases,
        suspects: SuspectTurn,
        connections: ClaimConnections,
        flags: IdleFlags,
        *,
        queue: str,
        worker: int,
        concurrency: int,
        poll_s: float,
        count: Callable[[str, Task, str, float], None],
    ) -> None:
        self.queue = queue
        tasks = {task.name: task for task in registry if task.queue == queue}
        pacing = Pacing(tasks.values(), concurrency=concurrency, connections=db.most_connections)
        self._slots = Slots(
            db, executor, leases, pacing, tasks, queue=queue, suspect_ended=self._suspect_ended, count=count
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
            tasks=tasks,
            worker=worker,
            poll_s=poll_s,
        )

    @property
    def slots(self) -> Sequence[Slot]:
        return self._slots.slots

    def start(self, threads: HandlerThreads) -> None:
        self._slots.start(threads)
        self._feeder.start()

    async def stop(self, grace_s: float) -> list[Claimed]:
        """Stop claiming, release work that has not started, wait for running work, then cancel and release it.

        Return the work of handlers that could not be stopped.
        """
        await self._feeder.stop()
        return await self._slots.stop(grace_s)

    def wake(self, *, rescued: bool = False) -> None:
        """New or rescued work was committed: claim it at once."""
        self._feeder.wake(rescued=rescued)

    def check_deadlines(self) -> None:
        """Cancel handlers that exceeded their timeout. A loop calls this."""
        self._slots.check_deadlines()

    def cancel(self, ids: set[int]) -> None:
        """Cancel the work with these ids that runs in this queue."""
        self._slots.cancel(ids)

    def _suspect_ended(self) -> None:
        self._feeder.suspect_ended()

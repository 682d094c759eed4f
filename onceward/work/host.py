"""The worker's resources, for tasks that open their own transactions and settle their own work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onceward.db import Connection, Database, Transaction
from onceward.work.claimed import Claimed
from onceward.work.processes import HandlerProcesses
from onceward.work.threads import HandlerThreads

Opener = Callable[[Connection, Claimed], Transaction]


@dataclass(frozen=True, slots=True)
class Host:
    """The worker's resources: its pool, its number, how it opens transactions and wakes queues, its threads and
    processes."""

    db: Database
    worker: int
    open_tx: Opener
    wake: Callable[[str], None]
    threads: HandlerThreads
    processes: HandlerProcesses

"""What a worker can run: named tasks, and the registry of them that decides what it may claim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from onceward.db import Connection, Transaction
from onceward.work.claimed import Claimed
from onceward.work.policy import JOBS, RetryPolicy


class Kind(Protocol):
    """A kind of work: where its bodies are. Its table learns outcomes through `onceward.settled_<name>` (SQL)."""

    @property
    def name(self) -> str: ...

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, Any]:
        """The bodies of claimed work, by id. One that is missing is settled as `payload_invalid`."""
        ...

    # A kind may also have `finish`: a statement with the parameters of sql/finish.sql that acknowledges many successes
    # at once and keeps its table true. Without it each success is settled by itself.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One thing that can be done, and how it is to be treated when it fails."""

    name: str
    run: Callable[[Any, Any], Awaitable[Any]]
    """`run(work, tx)`: `work` is a Claimed (a list of them for a batch); `tx` is None unless `transactional`."""
    kind: str = "job"
    queue: str = "default"
    retry: RetryPolicy = JOBS
    timeout_s: float | None = 30.0
    transactional: bool = False
    outside: bool = False
    """It calls the outside: acknowledged at once, and fetched ahead only with `ahead`."""
    ahead: bool = False
    """Though it calls the outside, as much is fetched ahead as gets done in a moment, and what hangs lends its place."""
    critical: bool = True
    """False: when its attempts are used up it ends as `failed`, without a dead letter or an alert."""
    batch: int = 1
    form: Callable[[], str] | None = None
    """A digest of what it accepts (forms.py); computed when a worker starts."""

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200:
            raise ValueError(f"a task's name must have 1 to 200 characters, not {self.name!r}")
        if self.batch > 1 and not self.transactional:
            raise ValueError(f"{self.name}: batch={self.batch} shares a commit, so the handler must ask for `tx`")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"{self.name}: timeout must be more than 0 seconds, not {self.timeout_s}")


@dataclass(slots=True)
class Registry:
    """All tasks and kinds of one process."""

    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    template_folders: list[Path] = field(default_factory=list[Path])
    """Where the texts of this app's messages are."""

    def add(self, task: Task) -> None:
        if task.name in self.tasks:
            raise ValueError(f"two tasks are named {task.name!r}: names must be unique within an app")
        self.tasks[task.name] = task

    def add_kind(self, kind: Kind) -> None:
        self.kinds[kind.name] = kind

    def set_default_attempts(self, kind: str, attempts: int) -> None:
        """Use this number of attempts for tasks that were declared without a retry policy of their own."""
        for name, task in self.tasks.items():
            if task.retry.default_of == kind and task.retry.attempts != attempts:
                self.tasks[name] = replace(task, retry=replace(task.retry, attempts=attempts))

    def queues(self) -> dict[str, list[str]]:
        """Task names by the queue they are claimed from."""
        found: dict[str, list[str]] = {}
        for task in self.tasks.values():
            found.setdefault(task.queue, []).append(task.name)
        return found

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks.values())


def open_transaction(conn: Connection, work: Claimed) -> Transaction:
    """What a handler gets when nothing better was injected; the facade replaces it."""
    return Transaction(conn, organization=work.organization, cause=work.cause)

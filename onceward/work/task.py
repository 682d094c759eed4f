"""Tasks that a worker can run, and the registry of them. A worker claims only tasks in its registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from onceward.db import Connection, Transaction
from onceward.db.pool import IDLE_LIMIT_S
from onceward.feature import SealedColumn
from onceward.work.claimed import Claimed
from onceward.work.endings import JobEnd
from onceward.work.policy import JOBS, RetryPolicy

SPARE_S = 15.0
"""A transaction outlives the timeout of its handler by this time: the handler's timeout ends the attempt, not the
session's."""


@dataclass(frozen=True, slots=True)
class KindRoutines:
    """The SQL routines of a kind. SQL and `final_statement` build their names from the name of the kind."""

    settled: str
    """`onceward.settled_<kind>` writes an outcome to the table of the kind."""
    ended: str | None = None
    """`onceward.ended_<kind>` returns the arguments that an on_end hook gets."""
    succeed: str | None = None
    """`onceward.succeed_<kind>` acknowledges one success in the handler's transaction. Transactional tasks need it."""


class Kind(Protocol):
    """A kind of work: loads its bodies, and names the SQL functions of its package.

    A worker checks them when it starts.
    """

    @property
    def name(self) -> str: ...

    @property
    def routines(self) -> KindRoutines: ...

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, Any]:
        """Return the bodies of claimed work by id. Work whose body is missing is settled as `payload_invalid`."""
        ...

    # A kind may also have `finish`: a statement with the parameters of sql/finish.sql that acknowledges many successes
    # at once and updates the table of the kind. Without `finish` each success is settled by its own statement.


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A named handler with its queue, retry policy and limits."""

    name: str
    run: Callable[[Any, Any], Awaitable[Any]]
    """`run(work, tx)`: `work` is a Claimed (a list of them for a batch); `tx` is None unless `transactional`."""
    kind: str = "job"
    queue: str = "default"
    retry: RetryPolicy = JOBS
    timeout_s: float | None = 30.0
    transactional: bool = False
    outside: bool = False
    """The handler calls outside services. It is acknowledged at once, and prefetched only with `ahead`."""
    ahead: bool = False
    """Prefetch by throughput although the handler calls outside services.

    The slot of a slow handler does not count against the concurrency.
    """
    critical: bool = True
    """False: after the last attempt the work ends as `failed`, without a dead letter or an alert."""
    shared: bool = True
    """The handler may share its transaction and commit with other work that waits (docs/work.md, Shared commits)."""
    batch: int = 1
    prepare: Callable[[Claimed], Any] | None = None
    """Validates one member of a batch and keeps what it read in `work.prepared`.

    A member that it refuses leaves the batch.
    """
    form: Callable[[], str] | None = None
    """Returns a digest of the arguments that the task accepts (forms.py). A worker calls it when it starts."""
    load_result: Callable[[Any], Any] | None = None
    """Returns a stored result with the type that the handler returns."""
    over_http: Callable[[], Any] | None = None
    """Returns the declared job or workflow, if programs may enqueue or start it over HTTP."""

    external: bool = False
    """Programs in other languages run it (external.py); no worker of ours claims it."""

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200:
            raise ValueError(f"a task's name must have 1 to 200 characters, not {self.name!r}")
        if self.batch > 1 and not self.transactional:
            raise ValueError(f"{self.name}: batch={self.batch} shares a commit, so the handler must ask for `tx`")
        if self.timeout_s is not None and self.timeout_s <= 0:
            raise ValueError(f"{self.name}: timeout must be more than 0 seconds, not {self.timeout_s}")

    @property
    def shares(self) -> bool:
        """Return whether the handler may share a commit: it has a transaction and nothing else, and a usual timeout."""
        return (
            self.shared
            and self.transactional
            and self.batch == 1
            and not self.outside
            and self.timeout_s is not None
            and self.timeout_s <= IDLE_LIMIT_S - SPARE_S
        )


@dataclass(frozen=True, slots=True)
class BatchResults:
    """What a batch returns to keep a result for each of its members, in their order."""

    values: Sequence[Any]


@dataclass(frozen=True, slots=True)
class MessageHook:
    """A function of the app that runs when a message reaches a state, for one template or for all (None)."""

    state: str
    template: str | None
    run: Callable[[Any, Any], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class EndHook:
    """A function that runs when work of a task ends: `run(tx, end)`. If it fails, it becomes the job `job`."""

    run: Callable[[Any, JobEnd], Awaitable[Any]]
    queue: str
    job: str


@dataclass(slots=True)
class AppRegistry:
    """Everything that an app registers for the engine: tasks and kinds of work, hooks, templates and encrypted
    columns."""

    tasks: dict[str, Task] = field(default_factory=dict[str, Task])
    external: dict[str, Task] = field(default_factory=dict[str, Task])
    """The jobs that programs in other languages run, by name."""
    apps: set[str] = field(default_factory=set[str])
    """The names of the app and of the apps that it includes."""
    kinds: dict[str, Kind] = field(default_factory=dict[str, Kind])
    template_folders: list[Path] = field(default_factory=list[Path])
    """Folders with the message templates of the app."""
    message_hooks: list[MessageHook] = field(default_factory=list[MessageHook])
    delivery_hooks: list[Callable[[Any, Any], Awaitable[Any]]] = field(
        default_factory=list[Callable[[Any, Any], Awaitable[Any]]]
    )
    idle_limits_s: dict[str, float] = field(default_factory=dict[str, float])
    """How long a transaction may wait for its next statement, for tasks whose timeout exceeds the limit of sessions."""
    end_hooks: dict[str, EndHook] = field(default_factory=dict[str, EndHook])
    """By the name of the task."""
    sealed: set[SealedColumn] = field(default_factory=set[SealedColumn])
    """The encrypted columns that the app declares."""
    payments: Any = None
    """What the app declares about payments (`onceward.payments.declarations.PaymentRegistry`)."""

    def add(self, task: Task) -> None:
        if task.name in self.tasks or task.name in self.external:
            raise ValueError(f"two tasks are named {task.name!r}: names must be unique within an app")
        if task.external:
            self.external[task.name] = task
            return
        self.tasks[task.name] = task
        if task.timeout_s is None or task.timeout_s > IDLE_LIMIT_S - SPARE_S:
            self.idle_limits_s[task.name] = 0 if task.timeout_s is None else task.timeout_s + SPARE_S

    def set_end_hook(self, task: str, run: Callable[[Any, JobEnd], Awaitable[Any]], *, queue: str = "default") -> None:
        """Run a function when work of this task ends. Also add the job that repeats the function if it fails."""
        name = f"{task}#on_end"

        async def run_job(work: Claimed, tx: Any) -> Any:
            return await run(tx, JobEnd.load(work.args))

        self.end_hooks[task] = EndHook(run, queue, name)
        self.tasks[name] = Task(name=name, run=run_job, queue=queue, transactional=True)

    def add_kind(self, kind: Kind) -> None:
        self.kinds[kind.name] = kind

    def set_default_attempts(self, kind: str, attempts: int) -> None:
        """Use this number of attempts for tasks that were declared without a retry policy of their own."""
        for name, task in self.tasks.items():
            if task.retry.default_of == kind and task.retry.max_attempts != attempts:
                self.tasks[name] = replace(task, retry=replace(task.retry, max_attempts=attempts))

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks.values())


def open_transaction(conn: Connection, work: Claimed) -> Transaction:
    """Return a plain transaction for a handler. The facade passes an opener that returns a `Tx` instead."""
    return Transaction(conn, organization=work.organization, cause=work.cause)

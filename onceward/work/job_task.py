"""Jobs as values: a registered function, the same job with options, and a call with its arguments.

await tx.enqueue(remind.schedule_in(hours=24).unique(f"remind:{ticket}"), ticket_id=ticket)
await tx.enqueue_many([remind.call(ticket_id=ticket) for ticket in tickets])
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from inspect import iscoroutinefunction
from typing import Any, Generic, Literal, ParamSpec, TypeVar, cast, get_args
from uuid import UUID

from onceward.db import is_storable
from onceward.durations import Duration, in_seconds
from onceward.work.arguments import Arguments, ResultType
from onceward.work.endings import JobEnd
from onceward.work.task import AppRegistry, Task

MAX_HEAD_START_S = 3600

OnConflict = Literal["skip", "replace", "debounce"]

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Hook = TypeVar("Hook", bound=Callable[[Any, JobEnd], Awaitable[Any]])


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one enqueue."""

    queue: str | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    boost_s: int = 0
    unique_key: str | None = None
    unique_for: str = "unfinished"
    on_conflict: OnConflict | Literal["ignore"] = "skip"
    """`ignore` skips without a record in system_metrics, for jobs that the engine enqueues twice on purpose."""
    lane: str | None = None
    cap: int | None = None
    ordered: bool = False
    parent: str | None = None
    parent_cap: int | None = None
    max_attempts: int | None = None
    tags: tuple[str, ...] = ()
    organization: UUID | None = None
    fair_key: str | None = None


DEFAULTS = Options()


class ConfiguredJob(Generic[P, R]):
    """A job with options, to pass to `enqueue`. Each method returns a new value with one more option.

    `P` is the job's own arguments (without the injected ones), `R` the type of its result.
    """

    __slots__ = ("job", "name", "options")

    def __init__(self, job: JobTask[P, R], options: Options) -> None:
        self.job = job
        self.name = job.name
        self.options = options

    def __repr__(self) -> str:
        return f"<job {self.name} with options>"

    def call(self, /, *args: P.args, **kwargs: P.kwargs) -> BoundJob[R]:
        """Return the job with its arguments, for `enqueue_many`, `enqueue_then` and `enqueue_sql`."""
        if args:
            raise positional(self.name)
        return BoundJob(self, kwargs)

    def unique(
        self,
        key: str,
        *,
        within: Duration | None = None,
        forever: bool = False,
        on_conflict: OnConflict = "skip",
    ) -> ConfiguredJob[P, R]:
        """Allow one job with this key: while it is unfinished (default), within a period, or forever.

        `on_conflict` decides about a second enqueue: `skip` it, `replace` the arguments of the unfinished job (it runs
        at the earlier of the two times), or `debounce` (replace them and start the delay again). A running attempt
        keeps its arguments; when it has ended in any way, the job runs again with the new ones.
        """
        if not key or len(key) > 500:
            raise ValueError(f"{self.name}: a unique key must have 1 to 500 characters, not {len(key)}")
        if within is not None and forever:
            raise ValueError(f"{self.name}: unique takes within={within!r} or forever=True, not both")
        if on_conflict not in get_args(OnConflict):
            raise ValueError(f"{self.name}: on_conflict must be skip, replace or debounce, not {on_conflict!r}")
        if within is not None and in_seconds(within) <= 0:
            raise ValueError(f"{self.name}: within must be longer than 0 seconds, not {within!r}")
        period = "ever" if forever else "unfinished" if within is None else f"{in_seconds(within)} seconds"
        return self._with(unique_key=key, unique_for=period, on_conflict=on_conflict)

    def schedule_in(self, delay: timedelta | None = None, **units: float) -> ConfiguredJob[P, R]:
        """Run the job after this delay at the earliest: `schedule_in(hours=24)`. Replaces `schedule_at`."""
        return self._with(delay=delay_of(self.name, delay, units), run_at=None)

    def schedule_at(self, moment: datetime) -> ConfiguredJob[P, R]:
        """Run the job at this time at the earliest. The time must have a time zone. Replaces `schedule_in`."""
        return self._with(run_at=aware(self.name, moment), delay=None)

    def head_start(self, duration: Duration) -> ConfiguredJob[P, R]:
        """Run the job before work that became due up to this much earlier. At most one hour; not a priority."""
        seconds = in_seconds(duration)
        if not 0 <= seconds <= MAX_HEAD_START_S:
            raise ValueError(
                f"{self.name}: head_start must lie between 0 and {MAX_HEAD_START_S} seconds, not {duration}"
            )
        return self._with(boost_s=round(seconds))

    def in_order(self, key: str) -> ConfiguredJob[P, R]:
        """Run the jobs with this key one at a time, in the order in which they were enqueued. Replaces `in_lane`."""
        return self._with(lane=key, cap=1, ordered=True, parent=None, parent_cap=None)

    def in_lane(
        self, key: str, *, limit: int | None = None, parent: str | None = None, parent_limit: int | None = None
    ) -> ConfiguredJob[P, R]:
        """Run at most `limit` jobs with this key at the same time, over all workers. Replaces `in_order`.

        A parent limits several keys together: `in_lane("user:7", limit=2, parent="all", parent_limit=50)`.
        """
        if (parent is None) != (parent_limit is None):
            raise ValueError(f"{self.name}: give both parent and parent_limit, or neither")
        return self._with(lane=key, cap=limit, ordered=False, parent=parent, parent_cap=parent_limit)

    def fair_by(self, key: object) -> ConfiguredJob[P, R]:
        """Give each key of the organization its turn while work waits: `fair_by(customer_id)`.

        Lanes have turns of their own.
        """
        text = str(key)
        if key is None or not text or len(text) > 500:
            raise ValueError(f"{self.name}: a fair key must have 1 to 500 characters, not {key!r:.60}")
        return self._with(fair_key=text)

    def in_queue(self, queue: str) -> ConfiguredJob[P, R]:
        """Put the job into this queue instead of the job's own."""
        if self.job.task.external:
            raise ValueError(f"{self.name}: an external job has a queue of its own, {self.job.task.queue}")
        return self._with(queue=queue)

    def tagged(self, *tags: str) -> ConfiguredJob[P, R]:
        """Set tags that operators can search for. Replaces earlier tags."""
        return self._with(tags=tags)

    def max_attempts(self, number: int) -> ConfiguredJob[P, R]:
        """Make at most this many attempts, instead of the job's own number."""
        if not 1 <= number <= 1000:
            raise ValueError(f"{self.name}: max_attempts must be between 1 and 1000, not {number}")
        return self._with(max_attempts=number)

    def for_organization(self, organization: UUID | None) -> ConfiguredJob[P, R]:
        """Run the job for this organization. A job that a transaction enqueues has the transaction's organization."""
        return self._with(organization=organization)

    def _with(self, **changes: Any) -> ConfiguredJob[P, R]:
        _check_storable(self.name, changes)
        return ConfiguredJob(self.job, replace(self.options, **changes))


class JobTask(ConfiguredJob[P, R]):
    """A function registered as a job. A call runs the function itself; the methods add the options of one enqueue."""

    def __init__(
        self, function: Callable[..., Any], task: Task, *, injected: frozenset[str], registry: AppRegistry | None = None
    ) -> None:
        self.function = function
        self.injected = injected
        self._registry = registry
        self.task = task
        self._arguments = Arguments(function, task.name, injected, open_ended=task.batch > 1)
        self.dump = self._arguments.dump
        self.load = self._arguments.load
        self.model = self._arguments.model
        self.load_result = ResultType(function, task.name).load
        self.__doc__ = function.__doc__
        self.name = task.name
        super().__init__(self, DEFAULTS)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def on_end(self, function: Hook) -> Hook:
        """Run `async def hook(tx: Tx, end: JobEnd)` when a job ends in any way, in the commit of its outcome."""
        if self._registry is None or not iscoroutinefunction(function):
            raise TypeError(f"{self.name}: on_end needs an `async def (tx: Tx, end: JobEnd)` and a registered job")
        if self.name in self._registry.end_hooks:
            raise ValueError(f"{self.name} has two on_end hooks: call both functions from one")
        # No worker of ours serves the queue of an external job.
        self._registry.set_end_hook(self.name, function, queue="default" if self.task.external else self.task.queue)
        return function

    def __repr__(self) -> str:
        return f"<job {self.name}>"


class BoundJob(Generic[R_co]):
    """A job with its arguments: `pack.call(order=1)`. The arguments are checked when the job is enqueued."""

    __slots__ = ("arguments", "job")

    def __init__(self, job: ConfiguredJob[..., R_co], arguments: dict[str, Any]) -> None:
        self.job: ConfiguredJob[..., Any] = job
        self.arguments = arguments

    def __repr__(self) -> str:
        return f"<call of job {self.job.name}>"


def queue_of(job: ConfiguredJob[..., Any]) -> str:
    """Return the name of the queue that the job is put into."""
    return job.options.queue or job.job.task.queue


def queues_of(calls: Iterable[BoundJob[Any]]) -> set[str]:
    """Return the names of the queues that the calls are put into."""
    return {queue_of(job) for job in {call.job for call in calls}}


def positional(name: str) -> TypeError:
    """Return the error for arguments that were given by position."""
    return TypeError(f"{name}: the arguments of a job or workflow are passed by name")


def delay_of(name: str, delay: timedelta | None, units: dict[str, float]) -> timedelta:
    """Return the delay of `schedule_in`: a timedelta, or units such as `hours=24`."""
    if (delay is None) == (not units):
        raise ValueError(f"{name}: schedule_in takes a timedelta or units such as hours=24, one of the two")
    delay = timedelta(**units) if delay is None else delay
    if delay < timedelta(0):
        raise ValueError(f"{name}: delay must not be negative, got {delay}")
    return delay


def aware(name: str, moment: datetime) -> datetime:
    """Return the time of `schedule_at`. Raise ValueError if it has no time zone."""
    if moment.tzinfo is None:
        raise ValueError(f"{name}: schedule_at {moment} has no time zone; use an aware datetime")
    return moment


def same_organization(name: str, given: UUID, acting_for: UUID | None) -> UUID:
    """Return the organization of `for_organization`. Raise ValueError if the transaction acts for another one."""
    if acting_for is not None and acting_for != given:
        raise ValueError(
            f"{name}: for_organization({given}) was set, but the transaction acts for {acting_for}; "
            "enqueue it in a transaction of that organization"
        )
    return given


def _check_storable(name: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        for text in values:
            if isinstance(text, str) and not is_storable(text):
                raise ValueError(
                    f"{name}: {option} {text[:40]!r} contains NUL or half of a surrogate pair, which PostgreSQL "
                    f"cannot store"
                )

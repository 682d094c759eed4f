"""The typed decorators of an app. Their overloads tell a type checker which parameters are injected."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, get_origin, overload

from onceward import inject, workflows
from onceward.durations import Duration, in_seconds
from onceward.inbox.event import Event
from onceward.live import LiveRegistry, Per, Query, QueryDefinition, Rule
from onceward.messages import DeliveryReport, MessageEnd
from onceward.outbox import DeliveryEnd
from onceward.schedules import Run
from onceward.tx import Tx
from onceward.work import JOBS, AppRegistry, Job, JobTask, RetryOption, Task, as_policy
from onceward.work.external import external_queue
from onceward.work.forms import digest
from onceward.work.isolation import Isolation, isolate
from onceward.workflows import Workflow, WorkflowTask

P = ParamSpec("P")
R = TypeVar("R")

INJECTED: tuple[type, ...] = (Job, Tx)

EventHandler = TypeVar(
    "EventHandler",
    bound=Callable[[Event[Any], Tx], Awaitable[Any]]
    | Callable[[list[Event[Any]], Tx], Awaitable[Any]]
    | Callable[[Event[Any]], Awaitable[Any]]
    | Callable[[Tx], Awaitable[Any]]
    | Callable[[], Awaitable[Any]],
)
"""A function that handles webhooks: `async def (event: Event[Model], tx: Tx)`, either of the two, or neither.

With `batch=n`: `async def (events: list[Event[Model]], tx: Tx)`.
"""

MessageFunction = TypeVar("MessageFunction", bound=Callable[[Tx, DeliveryReport], Awaitable[Any]])
"""A function that runs when a message reaches a state: `async def (tx: Tx, report: DeliveryReport)`."""

MessageEndFunction = TypeVar("MessageEndFunction", bound=Callable[[Tx, MessageEnd], Awaitable[Any]])
DeliveryEndFunction = TypeVar("DeliveryEndFunction", bound=Callable[[Tx, DeliveryEnd], Awaitable[Any]])

ScheduleFunction = TypeVar("ScheduleFunction", bound=Callable[[Run], Awaitable[Any]])
"""A function that runs on a schedule: `async def (run: Run)`."""


class WorkflowDecorator:
    """`@app.workflow` registers a function as a workflow; `@app.workflow(name="...", max_steps=50)` does so with
    options."""

    __slots__ = ("_options", "_registry")

    def __init__(self, registry: AppRegistry, options: dict[str, Any] | None = None) -> None:
        self._registry = registry
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Workflow, P], Awaitable[R]], /) -> WorkflowTask[P, R]: ...
    @overload
    def __call__(
        self, /, *, name: str | None = None, version: str | None = None, max_steps: int = 1000, over_http: bool = False
    ) -> WorkflowDecorator: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register the function, or return a decorator with these options.

        `name` defaults to the function's name. `version` names its code in errors; the default is a hash of the code.
        With `over_http=True`, operators and keys of an organization may start it (`POST /api/v1/workflows`).
        """
        if function is None:
            if self._options is not None:
                raise TypeError("app.workflow(...)(...): give all options in one call")
            return WorkflowDecorator(self._registry, options)
        return workflows.register(self._registry, function, **(self._options or {}), **options)


class QueryDecorator:
    """`@app.query` registers a live query; `@app.query(per="user", allow="user")` does so with options."""

    __slots__ = ("_live", "_options")

    def __init__(self, live: LiveRegistry, options: dict[str, Any] | None = None) -> None:
        self._live = live
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Query, P], Awaitable[R]], /) -> QueryDefinition[P, R]: ...
    @overload
    def __call__(
        self, /, *, name: str | None = None, allow: Rule = "viewer", per: Per = "organization"
    ) -> QueryDecorator: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register the function, or return a decorator with these options.

        `name` defaults to the function's name. All users of an organization share the result; with `per="user"` each
        has their own. `allow` says who may subscribe.
        """
        if function is None:
            if self._options is not None:
                raise TypeError("app.query(...)(...): give all options in one call")
            return QueryDecorator(self._live, options)
        return declare_query(self._live, function, **(self._options or {}), **options)


def declare_query(
    live: LiveRegistry,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    allow: Rule = "viewer",
    per: Per = "organization",
) -> QueryDefinition[..., Any]:
    """Check the function's signature and add it as a live query."""
    query_name = name or function.__name__
    parameter = inject.read(function, known=(Query,), name=query_name).parameter(Query)
    if parameter is None:
        raise TypeError(f"query {query_name} must take a parameter annotated with Query")
    definition: QueryDefinition[..., Any] = QueryDefinition(
        function, name=query_name, parameter=parameter, allow=allow, per=per
    )
    live.add(definition)
    return definition


class JobDecorator:
    """`@app.job` registers a function as a job; `@app.job(queue="mail", max_attempts=5)` does so with options.

    The injected parameters come first and by position: `(job: Job, tx: Tx, *, ...)`, `(tx: Tx, *, ...)`, `(job: Job, *,
    ...)` or `(*, ...)`. The others are keyword-only and become the arguments of `enqueue`. A sync function runs in a
    thread and cannot take `tx`. With `batch=n`, the function is `(jobs: list[Job], tx: Tx)` and gets up to `n` jobs of
    one organization in one transaction.
    """

    __slots__ = ("_options", "_registry")

    def __init__(self, registry: AppRegistry, options: dict[str, Any] | None = None) -> None:
        self._registry = registry
        self._options = options

    @overload
    def __call__(self, function: Callable[Concatenate[Job, Tx, P], Awaitable[R]], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[[list[Job], Tx], Awaitable[R]], /) -> JobTask[..., R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Tx, P], Awaitable[R]], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], Awaitable[R]], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Job, P], R], /) -> JobTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> JobTask[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        max_attempts: int | None = None,
        retry: RetryOption | None = None,
        timeout: Duration | None = 30.0,
        batch: int = 1,
        shared: bool = True,
        outside: bool = False,
        critical: bool = True,
        process: bool = False,
        memory_mb: int | None = None,
        cpu_s: float | None = None,
        over_http: bool = False,
        external: bool = False,
    ) -> JobDecorator: ...
    def __call__(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register the function, or return a decorator with these options.

        `name` defaults to the function's name. `retry` is a `RetryPolicy` or a list of waits; `max_attempts` includes
        the first attempt. `timeout` ends an attempt. With `shared=False` a function with `tx` always has a commit of
        its own: otherwise it may share one with other jobs that wait (docs/work.md). `outside=True` says that the
        function calls outside services; `critical=False` ends the last failed attempt without a dead letter or an
        alert. `process=True` runs the function in a process of its own, which may take `memory_mb` more memory and use
        `cpu_s` of CPU time. With `over_http=True`, operators and keys of an organization may enqueue the job with
        arguments of their own (`POST /api/v1/jobs`). With `external=True`, programs in other languages run the job
        (docs/other-languages.md): the function only declares its arguments and its result, and `timeout` is how long a
        claim lasts.
        """
        if function is None:
            if self._options is not None:
                raise TypeError("app.job(...)(...): give all options in one call")
            return JobDecorator(self._registry, options)
        return declare_job(self._registry, function, **(self._options or {}), **options)


def declare_job(
    registry: AppRegistry,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    queue: str = "default",
    max_attempts: int | None = None,
    retry: RetryOption | None = None,
    timeout: Duration | None = 30.0,
    batch: int = 1,
    shared: bool = True,
    outside: bool = False,
    critical: bool = True,
    process: bool = False,
    memory_mb: int | None = None,
    cpu_s: float | None = None,
    over_http: bool = False,
    external: bool = False,
) -> JobTask[..., Any]:
    """Check the function's signature and add it to the registry as a job."""
    job_name = name or function.__name__
    if batch < 1:
        raise ValueError(f"{job_name}: batch must be at least 1, not {batch}")
    signature = inject.read(function, known=INJECTED, name=job_name)
    isolation: Isolation | None = None
    if external:
        if signature.injected or batch > 1 or process or queue != "default" or timeout is None:
            raise TypeError(
                f"{job_name}: a job with external=True runs in another program, so it takes neither `tx` nor `job`, "
                "batch, process or queue, and it needs a timeout: how long a claim lasts"
            )
        queue = external_queue(job_name)
    if process:
        if signature.parameter(Tx) is not None or batch > 1:
            raise TypeError(
                f"{job_name}: a job with process=True cannot use `tx` or batch, because its process has no database "
                "connection; return the result, and write it in an on_end hook"
            )
        isolation = isolate(function, job_name, memory_mb=memory_mb, cpu_s=cpu_s)
    elif memory_mb is not None or cpu_s is not None:
        raise ValueError(f"{job_name}: memory_mb and cpu_s limit a process of its own: add process=True")
    task = Task(
        name=job_name,
        run=_runner(function, job_name, signature, batch, isolation, lambda: job),
        queue=queue,
        retry=as_policy(retry, max_attempts, JOBS),
        timeout_s=None if timeout is None else in_seconds(timeout),
        transactional=signature.parameter(Tx) is not None,
        outside=outside,
        critical=critical,
        shared=shared,
        batch=batch,
        form=lambda: digest(job.model.model_json_schema),
        load_result=lambda stored: job.load_result(stored),
        over_http=(lambda: job) if over_http else None,
        external=external,
    )
    job: JobTask[..., Any] = JobTask(function, task, injected=frozenset(signature.injected), registry=registry)
    registry.add(task)
    return job


def _runner(
    function: Callable[..., Any],
    name: str,
    signature: inject.Injection,
    batch: int,
    isolation: Isolation | None,
    job: Callable[[], JobTask[..., Any]],
) -> Callable[[Any, Any], Awaitable[Any]]:
    """Return the function that the executor calls: it decodes the arguments and injects `Job` and `Tx`."""
    job_name = signature.parameter(Job)
    tx_name = signature.parameter(Tx)
    asynchronous = inspect.iscoroutinefunction(function)
    if tx_name is not None and not asynchronous:
        raise TypeError(f"{name}: a sync function runs in a thread and cannot use `tx`; make it `async def`")
    takes_list = get_origin(signature.annotation(Job)) is list
    if takes_list != (batch > 1):
        raise TypeError(
            f"{name}: batch is {batch}, so the function takes "
            + ("`jobs: list[Job], tx: Tx`" if batch > 1 else "`job: Job`, not a list; set batch to more than 1")
        )

    if batch > 1:
        if job_name is None or tx_name is None or signature.arguments:
            raise TypeError(f"{name}: a batch handler takes `jobs: list[Job], tx: Tx` and nothing else")

        async def run_batch(works: Any, tx: Any) -> Any:
            return await function(**{job_name: [Job(each) for each in works], tx_name: tx})

        return run_batch

    if isolation is not None:

        async def run_in_process(work: Any, _tx: Any) -> Any:
            job().load(work.args)  # here too: work that fits another version waits for it
            return await work.host.processes.call(isolation, work, work.host.threads.current_slot())

        return run_in_process

    def run(work: Any, tx: Any) -> Awaitable[Any]:
        arguments = job().load(work.args)
        if job_name is not None:
            arguments[job_name] = Job(work)
        if tx_name is not None:
            arguments[tx_name] = tx
        return function(**arguments) if asynchronous else work.host.threads.call(function, arguments)

    return run


def require_async(decorator: str, function: Callable[..., Any]) -> None:
    """Raise TypeError if the function is not `async def`."""
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{decorator}: {function.__name__} must be `async def`")

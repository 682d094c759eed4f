"""Turn a handler function into a task: the executor validates the payload and passes the parameters that it declares.

The task's name is `<provider>/<type>`, or `<source>/<type>` for a handler of one source. Every handler has a second
task, `<app>:<provider>/<type>`, for the sources that belong to its app.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from onceward.db import Transaction
from onceward.inbox.event import LOAD, Event, StoredEvent, stored
from onceward.inbox.outcome_counts import Run, count_failure, counted
from onceward.webhooks.provider import ConfigError
from onceward.webhooks.registry import get_provider
from onceward.work import (
    EVENTS,
    BatchResults,
    Claimed,
    Item,
    Options,
    PayloadInvalid,
    RetryPolicy,
    Task,
    insert,
)
from onceward.work.forms import digest

QUEUE = "events"
UNHANDLED_QUEUE = "unhandled"
EXTERNAL_QUEUE = "external"
FORWARD_TASK = "inbox.forward"
"""Passes an event of a source in mode `forward` to the endpoints of the source. The outbox registers it."""

Ordering = bool | str | Callable[[Any], str | None]
Call = Callable[..., Awaitable[Any]]
Before = Callable[[Claimed, Any], Awaitable[Any]]
"""What the engine does with an event before its handler runs: it applies a delivery report to its message."""
ApplyAll = Callable[[Sequence[Claimed], Any], Awaitable[list[Any]]]
"""What the engine does with several events that it handles itself. It returns the result of each."""


@dataclass(frozen=True, slots=True)
class Handler:
    """The task of a handler, and how its events are ordered."""

    task: Task
    ordering: Ordering = False
    model: Any = None
    """The type of `Event[...]` that the function declares. None: any payload."""

    def lane_key(self, payload: Any, subject: str | None) -> str | None:
        """Return the subject of an event. Events of one subject are handled one after the other; None means any
        order."""
        if self.ordering is False:
            return None
        if self.ordering is True:
            return subject
        if isinstance(self.ordering, str):
            return _at_path(payload, self.ordering)
        return self.ordering(payload)


def _at_path(payload: Any, path: str) -> str | None:
    value = payload
    for part in path.split("."):
        value = cast(dict[str, Any], value).get(part) if isinstance(value, dict) else None
    return None if value is None or isinstance(value, dict | list) else str(value)


def task_name(provider: str, type: str, *, app: str | None = None) -> str:
    """Return the name of a handler's task. With an app: the name for the sources that belong to this app."""
    return f"{provider}/{type}" if app is None else f"{app}:{provider}/{type}"


def follower_name(provider: str, type: str, function: str, *, app: str | None = None) -> str:
    """Return the name of the job that runs a handler with `as_job=True`."""
    return f"{task_name(provider, type, app=app)}#{function}"


@lru_cache(maxsize=64)
def _data_of(provider: str) -> Callable[[Any], Any]:
    try:
        return get_provider(provider).data
    except ConfigError:
        return lambda payload: payload


def reader(annotation: Any, name: str) -> Callable[[StoredEvent, int], Event[Any]]:
    """Return a function that converts a stored event to the annotated type.

    It raises PayloadInvalid for a wrong payload.
    """
    models = get_args(annotation)
    adapter: TypeAdapter[Any] | None = None
    if models and models[0] is not Any:
        try:
            adapter = TypeAdapter(models[0])
        except Exception as error:
            raise TypeError(
                f"{name}: Event[{models[0]!r}] is not a type that a payload can be validated against"
            ) from error

    def read(event: StoredEvent, attempt: int) -> Event[Any]:
        if event.payload is None:
            raise PayloadInvalid("the body cannot be read as a payload; its bytes are kept")
        data = _data_of(event.provider)(event.payload)
        if adapter is not None:
            try:
                data = adapter.validate_python(data)
            except ValidationError as error:
                raise PayloadInvalid(_faults(error)) from None
        return Event(
            event.seq,
            event.event_id,
            event.type,
            data,
            event.payload,
            event.source,
            event.provider,
            event.organization,
            event.received_at,
            event.headers,
            attempt,
        )

    return read


def _faults(error: ValidationError) -> str:
    """Return which fields are invalid and why, without their values, which may be personal data."""
    faults = [
        f"{'.'.join(str(part) for part in fault['loc']) or 'payload'}: {fault['msg']}"
        for fault in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return "; ".join(faults[:10]) + (f"; and {len(faults) - 10} more" if len(faults) > 10 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A handler as its decorator describes it. A parameter name is None if the function does not have that
    parameter."""

    function: Call
    provider: str
    type: str
    event_parameter: str | None
    event_annotation: Any
    tx_parameter: str | None
    retry: RetryPolicy
    timeout_s: float | None
    ordering: Ordering = False
    batch: int = 1
    app: str | None = None

    def __post_init__(self) -> None:
        takes_list = get_origin(self.event_annotation) is list
        if self.batch < 1:
            raise ValueError(f"{self.name}: batch must be at least 1, not {self.batch}")
        if takes_list != (self.batch > 1) or (takes_list and self.tx_parameter is None):
            form = "`events: list[Event[...]], tx: Tx`" if self.batch > 1 else "`event: Event[...]`, not a list"
            raise TypeError(f"{self.name}: batch is {self.batch}, so the handler takes {form}")

    @property
    def name(self) -> str:
        return task_name(self.provider, self.type, app=self.app)

    @property
    def one_event(self) -> Any:
        """Return the annotation of one event: `Event[Model]`, also for a handler of batches."""
        return get_args(self.event_annotation)[0] if self.batch > 1 else self.event_annotation

    @property
    def model(self) -> Any:
        """Return the type that the payload is validated against, or None."""
        models = get_args(self.one_event)
        return None if not models or models[0] is Any else models[0]

    def form(self) -> str:
        """Return a digest of the payload's JSON schema."""
        return "" if self.model is None else digest(TypeAdapter(self.model).json_schema)

    def call(self) -> Callable[[StoredEvent, int, Any], Awaitable[Any]]:
        """Return a coroutine function that calls the handler with the parameters it declares."""
        read = reader(self.event_annotation, self.name)

        async def call(event: StoredEvent, attempt: int, tx: Any) -> Any:
            arguments: dict[str, Any] = {}
            if self.event_parameter is not None:
                arguments[self.event_parameter] = read(event, attempt)
            if self.tx_parameter is not None:
                arguments[self.tx_parameter] = tx
            return await self.function(**arguments)

        return call


async def nothing(_work: Claimed, _tx: Any) -> None:
    """Do nothing before the handler."""


def handler(declared: Declared, *, others: Callable[[], Sequence[str]], before: Before = nothing) -> Handler:
    """Return the main handler of an event type. `others` returns the names of its handlers that run as separate
    jobs."""
    if declared.batch > 1:
        return _batch_handler(declared, others=others, before=before)
    call = declared.call()

    async def run(works: list[Claimed], tx: Any) -> Any:
        [work] = works
        # Before the call: after it, the transaction may act for an organization that does not own the event.
        await enqueue_followers(work, others(), tx)
        await before(work, tx)
        return await call(work.body, work.attempt, tx)

    transactional = declared.tx_parameter is not None
    return Handler(_declared_task(declared, run, transactional=transactional), declared.ordering, declared.model)


def _batch_handler(declared: Declared, *, others: Callable[[], Sequence[str]], before: Before) -> Handler:
    """Return a handler that gets several events of one type and organization in one transaction."""
    read = reader(declared.one_event, declared.name)

    def prepare(work: Claimed) -> Event[Any]:
        require_body(work)
        try:
            return read(work.body, work.attempt)
        except PayloadInvalid as error:
            count_failure(task, work, error)
            raise

    async def run(works: list[Claimed], tx: Any) -> None:
        for each in works:
            await enqueue_followers(each, others(), tx)
            await before(each, tx)
        events = [each.prepared or prepare(each) for each in works]
        await declared.function(**{str(declared.event_parameter): events, str(declared.tx_parameter): tx})

    task = _declared_task(declared, run, prepare=prepare)
    return Handler(task, declared.ordering, declared.model)


def _declared_task(declared: Declared, run: Run, **more: Any) -> Task:
    return _task(
        declared.name,
        run,
        retry=declared.retry,
        timeout_s=declared.timeout_s,
        batch=declared.batch,
        form=declared.form,
        **more,
    )


def _task(name: str, run: Run, *, transactional: bool = True, retry: RetryPolicy = EVENTS, **more: Any) -> Task:
    """Return the task of a type of events, whose outcomes are counted."""
    task = Task(
        name=name,
        run=counted(lambda: task, run),
        kind="event",
        queue=QUEUE,
        transactional=transactional,
        retry=retry,
        **more,
    )
    return task


def require_body(work: Claimed) -> None:
    """Raise PayloadInvalid for an event of a batch that has no body."""
    if work.body is None:
        raise PayloadInvalid("the body of this event is missing: it was pruned or deleted by hand")


def follower(declared: Declared) -> Task:
    """Return the task of a handler with `as_job=True`: a job caused by the event, with its own retries and dead
    letter."""
    if declared.batch > 1:
        raise TypeError(f"{declared.name}: batch={declared.batch} cannot be combined with as_job=True")
    call = declared.call()

    async def run(work: Claimed, tx: Any) -> Any:
        rows = await (work.db if tx is None else tx).fetch(LOAD, [work.args["event"]])
        if not rows:
            raise PayloadInvalid(
                f"event {work.args['event']} does not exist any more: it was pruned or deleted by hand"
            )
        return await call(stored(rows[0]), work.attempt, tx)

    return Task(
        name=follower_name(declared.provider, declared.type, declared.function.__name__, app=declared.app),
        run=run,
        queue=QUEUE,
        retry=declared.retry,
        timeout_s=declared.timeout_s,
        transactional=declared.tx_parameter is not None,
        form=declared.form,
    )


def only_followers(
    name: str, others: Callable[[], Sequence[str]], *, before: Before = nothing, ordering: Ordering = False
) -> Handler:
    """Return the handler of a type that only jobs or the engine handle. Its result is that of `before`."""

    async def run(works: list[Claimed], tx: Any) -> Any:
        [work] = works
        await enqueue_followers(work, others(), tx)
        return await before(work, tx)

    return Handler(_task(name, run), ordering)


def engine_handler(name: str, others: Callable[[], Sequence[str]], *, apply: ApplyAll, batch: int) -> Handler:
    """Return the handler of a type that the engine itself handles, many events in one commit, each with its result."""

    async def run(works: list[Claimed], tx: Any) -> BatchResults:
        if followers := others():
            for each in works:
                await enqueue_followers(each, followers, tx)
        return BatchResults(await apply(works, tx))

    return Handler(_task(name, run, batch=batch, prepare=require_body))


FOLLOWER_KEYS = "400 days"
"""How long the followers of an event are remembered: as long as events are, unless the setting of their ids is
changed."""


def followers(names: Sequence[str], event: int, organization: Any) -> list[Item]:
    """Return the jobs of handlers with `as_job=True`. The unique key allows each job once per event.

    The node that receives the event and the handler both enqueue them: an older receiver may not know them all.
    """
    return [
        Item(
            name,
            f'{{"event":{event}}}',
            QUEUE,
            Options(unique_key=f"event:{event}", unique_for=FOLLOWER_KEYS, on_conflict="ignore"),
            organization,
            event,
        )
        for name in names
    ]


async def enqueue_followers(work: Claimed, names: Sequence[str], tx: Transaction | None) -> None:
    """Enqueue followers that the receiving node did not know. Use the handler's transaction if it has one.

    A follower belongs to the organization of the event, never to the one that a handler acts for: its unique key is
    per organization, and only that organization can read the event.
    """
    if not names:
        return
    jobs = followers(names, work.id, work.organization)
    if tx is not None:
        await insert(tx.conn, jobs)
        return
    async with work.db.transaction(role="engine") as own:
        await insert(own.conn, jobs)

"""A job to enqueue: the task, its arguments and the options of this one enqueue.

tx.enqueue(remind.later(hours=24).once(f"remind:{ticket}"), ticket_id=ticket)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from onceward.db import is_storable, json_contains_nul
from onceward.work.outcomes import PayloadInvalid
from onceward.work.task import Task

MAX_ARGS_BYTES = 1 << 20
MAX_BOOST_S = 3600

OnConflict = Literal["skip", "replace", "debounce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one enqueue."""

    queue: str | None = None
    delay: timedelta | None = None
    run_at: datetime | None = None
    boost_s: int = 0
    unique_key: str | None = None
    unique_for: str = "unfinished"
    on_conflict: OnConflict = "skip"
    lane: str | None = None
    cap: int | None = None
    ordered: bool = False
    parent: str | None = None
    parent_cap: int | None = None
    max_attempts: int | None = None
    tags: tuple[str, ...] = ()


class Orderable:
    """The options of an enqueue as methods. Each method returns a new order."""

    __slots__ = ()

    name: str

    def _with(self, **changes: Any) -> Order:
        raise TypeError(f"{type(self).__name__} cannot be enqueued: pass a job or an order")

    def later(self, delay: timedelta | None = None, **units: float) -> Order:
        """Run the job after this delay at the earliest: `later(hours=24)`."""
        delay = delay if delay is not None else timedelta(**units)
        if delay < timedelta(0):
            raise ValueError(f"{self.name}: delay must not be negative, got {delay}")
        return self._with(delay=delay)

    def at(self, moment: datetime) -> Order:
        """Run the job at this time at the earliest. The time must have a time zone."""
        if moment.tzinfo is None:
            raise ValueError(f"{self.name}: run time {moment} has no time zone; use an aware datetime")
        return self._with(run_at=moment)

    def once(
        self,
        key: str,
        *,
        within: timedelta | None = None,
        for_ever: bool = False,
        on_conflict: OnConflict = "skip",
    ) -> Order:
        """Allow one job with this key: while it is unfinished (default), within a period, or for ever."""
        if not key or len(key) > 500:
            raise ValueError(f"{self.name}: a unique key must have 1 to 500 characters, not {len(key)}")
        duration = "ever" if for_ever else f"{within.total_seconds()} seconds" if within else "unfinished"
        return self._with(unique_key=key, unique_for=duration, on_conflict=on_conflict)

    def boosted(self, seconds: int) -> Order:
        """Give the job priority over work that became due up to this many seconds earlier; at most an hour."""
        if not 0 <= seconds <= MAX_BOOST_S:
            raise ValueError(f"{self.name}: boost must lie between 0 and {MAX_BOOST_S} seconds, not {seconds}")
        return self._with(boost_s=seconds)

    def in_order(self, key: str) -> Order:
        """Run the jobs with this key one at a time, in the order in which they were enqueued."""
        return self._with(lane=key, cap=1, ordered=True)

    def in_lane(
        self, key: str, *, at_once: int | None = None, parent: str | None = None, parent_at_once: int | None = None
    ) -> Order:
        """Run at most `at_once` jobs with this key at the same time, over all workers. A parent limits several keys together."""
        if (parent is None) != (parent_at_once is None):
            raise ValueError(f"{self.name}: give both parent and parent_at_once, or neither")
        return self._with(lane=key, cap=at_once, parent=parent, parent_cap=parent_at_once)

    def in_queue(self, queue: str) -> Order:
        return self._with(queue=queue)

    def tagged(self, *tags: str) -> Order:
        return self._with(tags=tags)

    def attempts(self, most: int) -> Order:
        """Override the task's number of attempts."""
        return self._with(max_attempts=most)


class Order(Orderable):
    """A job task with options, to pass to `enqueue`."""

    __slots__ = ("job", "name", "options")

    def __init__(self, job: JobTask, options: Options | None = None) -> None:
        self.job = job
        self.name = job.name
        self.options = options or Options()

    def _with(self, **changes: Any) -> Order:
        _check_storable(self.name, changes)
        return Order(self.job, replace(self.options, **changes))


def queue_of(what: JobTask | Order) -> str:
    """Return the name of the queue that the job is put into."""
    order = what if isinstance(what, Order) else Order(what)
    return order.options.queue or order.job.task.queue


class JobTask(Orderable):
    """A function registered as a job. A call runs the function; the methods of `Orderable` return an order with options."""

    def __init__(self, function: Callable[..., Any], task: Task, *, injected: frozenset[str]) -> None:
        self.function = function
        self.task = task
        self.name = task.name
        self.model = _arguments_model(function, task.name, injected, open_ended=task.batch > 1)
        self._validate: Callable[[Any], BaseModel] = self.model.__pydantic_validator__.validate_python
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    def dump(self, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON. Raise an error that names the argument that does not fit the signature."""
        try:
            text = self.model(**arguments).model_dump_json()
        except ValidationError as error:
            raise TypeError(f"{self.name}: {_first_problem(error)}") from None
        except ValueError as error:
            raise TypeError(f"{self.name}: arguments cannot be written as JSON: {error}") from None
        if len(text) > MAX_ARGS_BYTES:
            raise ValueError(
                f"{self.name}: arguments take {len(text)} bytes, more than 1 MiB: store them and pass a reference"
            )
        if json_contains_nul(text):
            raise ValueError(f"{self.name}: arguments contain the character NUL, which PostgreSQL cannot store")
        return text

    def load(self, arguments: Any) -> dict[str, Any]:
        """Return stored arguments, converted to the types of the signature."""
        try:
            return dict(self._validate(arguments).__dict__)
        except ValidationError as error:
            raise PayloadInvalid(f"{self.name}: {_first_problem(error)}") from None

    def _with(self, **changes: Any) -> Order:
        _check_storable(self.name, changes)
        return Order(self, Options(**changes))


def _check_storable(name: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        values = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
        for text in values:
            if isinstance(text, str) and not is_storable(text):
                raise ValueError(
                    f"{name}: {option} {text[:40]!r} contains NUL or half of a surrogate pair, which PostgreSQL cannot store"
                )


def _first_problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "arguments"
    return f"argument {where}: {first['msg']}"


def _arguments_model(
    function: Callable[..., Any], name: str, injected: frozenset[str], *, open_ended: bool
) -> type[BaseModel]:
    """Return a model that validates and serialises the keyword-only parameters of a handler.

    A batch handler declares no parameters: it reads `job.args`, so the model accepts any.
    """
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in injected:
            continue
        if parameter.kind is inspect.Parameter.VAR_KEYWORD or parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise TypeError(f"{name}: *args and **kwargs cannot be arguments of a job; name each one")
        if parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"{name}: parameter {parameter.name!r} must be keyword-only (put it after `*`)")
        default = ... if parameter.default is inspect.Parameter.empty else parameter.default
        fields[parameter.name] = (hints.get(parameter.name, Any), default)
    return create_model(
        f"{name}_arguments",
        __config__=ConfigDict(
            extra="allow" if open_ended else "forbid", arbitrary_types_allowed=False, ser_json_inf_nan="null"
        ),
        **fields,
    )

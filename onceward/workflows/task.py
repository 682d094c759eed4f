"""A function registered as a workflow, and the request to start one.

tx.start_workflow(refund_cohort.once(f"cohort:{id}").attributed(cohort=id), cohort_id=id, reason="cancelled")
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from onceward.work import JOBS, JobTask, Task
from onceward.workflows.functions import Callee

QUEUE = "workflows"
PREFIX = "workflow:"
MOST_STEPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one start."""

    key: str | None = None
    delay: timedelta = timedelta(0)
    run_at: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Startable:
    """The start options as methods. Each returns a new `Start`."""

    name: str

    def _with(self, **changes: Any) -> Start:
        raise TypeError(f"{type(self).__name__} cannot be started")

    def once(self, key: str) -> Start:
        """Start at most one workflow of this name with this key in an organization, ever."""
        if not key or len(key) > 500:
            raise ValueError(f"{self.name}: a key must have 1 to 500 characters, not {len(key)}")
        return self._with(key=key)

    def later(self, delay: timedelta | None = None, **units: float) -> Start:
        """Start after a delay: `later(hours=24)`."""
        delay = delay if delay is not None else timedelta(**units)
        if delay < timedelta(0):
            raise ValueError(f"{self.name}: a delay must not be negative, got {delay}")
        return self._with(delay=delay)

    def at(self, moment: datetime) -> Start:
        """Start at this time (an aware datetime)."""
        if moment.tzinfo is None:
            raise ValueError(f"{self.name}: start time {moment} has no time zone; use an aware datetime")
        return self._with(run_at=moment)

    def attributed(self, **attributes: Any) -> Start:
        """Set attributes that operators can search for."""
        return self._with(attributes=attributes)


class Start(Startable):
    """A workflow with options, ready for `start_workflow`."""

    def __init__(self, task: WorkflowTask, options: Options | None = None) -> None:
        self.task = task
        self.name = task.name
        self.options = options or Options()

    def _with(self, **changes: Any) -> Start:
        return Start(self.task, replace(self.options, **changes))


class WorkflowTask(Startable):
    """A registered workflow: its function, the version of its code, and the step functions it has called."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str,
        injected: str,
        run: Callable[[Any, Any], Any],
        version: str | None = None,
        max_steps: int = MOST_STEPS,
    ) -> None:
        if not 1 <= max_steps <= 100_000:
            raise ValueError(f"{name}: max_steps must be between 1 and 100000, not {max_steps}")
        self.function = function
        self.name = name
        self.injected = injected
        self.version = version or _fingerprint(function)
        self.max_steps = max_steps
        # A run has no timeout: each of its steps has one.
        self.task = Task(name=PREFIX + name, run=run, kind="workflow", queue=QUEUE, retry=JOBS, timeout_s=None)
        self._arguments = JobTask(function, self.task, injected=frozenset({injected}))
        self._callees: dict[Callable[..., Any], Callee] = {}
        self.__doc__ = function.__doc__

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def dump(self, arguments: dict[str, Any]) -> str:
        """Return the arguments as JSON. The error names an argument that does not fit the signature."""
        return self._arguments.dump(arguments)

    def load(self, arguments: Any) -> dict[str, Any]:
        """Return the arguments from JSON, with the types of the signature."""
        return self._arguments.load(arguments)

    def callee(self, function: Callable[..., Any]) -> Callee:
        if (callee := self._callees.get(function)) is None:
            callee = self._callees[function] = Callee(function)
        return callee

    def _with(self, **changes: Any) -> Start:
        return Start(self, Options(**changes))


def _fingerprint(function: Callable[..., Any]) -> str:
    """Return a hash of the function's bytecode. Functions that it calls are not included."""
    code = function.__code__
    parts = (code.co_code, repr(code.co_names).encode(), repr(code.co_varnames).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]

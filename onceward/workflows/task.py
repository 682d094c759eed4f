"""A function registered as a workflow, and the request to start one.

tx.start_workflow(refund_cohort.unique(f"cohort:{id}").attributes(cohort=id), cohort_id=id, reason="cancelled")
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from onceward.work import JOBS, Arguments, ResultType, Task
from onceward.work.job_task import aware, delay_of
from onceward.workflows.step_functions import Callee

QUEUE = "workflows"
PREFIX = "workflow:"
MOST_STEPS = 1000

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options of one start."""

    key: str | None = None
    delay: timedelta = timedelta(0)
    run_at: datetime | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    organization: UUID | None = None


class ConfiguredWorkflow(Generic[P, R]):
    """A workflow with options, to pass to `start_workflow`. Each method returns a new value with one more option."""

    def __init__(self, workflow: WorkflowTask[P, R], options: StartOptions) -> None:
        self.workflow = workflow
        self.name = workflow.name
        self.options = options

    def __repr__(self) -> str:
        return f"<workflow {self.name} with options>"

    def unique(self, key: str) -> ConfiguredWorkflow[P, R]:
        """Start at most one workflow of this name with this key in an organization, ever."""
        if not key or len(key) > 500:
            raise ValueError(f"{self.name}: a unique key must have 1 to 500 characters, not {len(key)}")
        return self._with(key=key)

    def schedule_in(self, delay: timedelta | None = None, **units: float) -> ConfiguredWorkflow[P, R]:
        """Start after a delay: `schedule_in(hours=24)`. Replaces `schedule_at`."""
        return self._with(delay=delay_of(self.name, delay, units), run_at=None)

    def schedule_at(self, moment: datetime) -> ConfiguredWorkflow[P, R]:
        """Start at this time (an aware datetime). Replaces `schedule_in`."""
        return self._with(run_at=aware(self.name, moment), delay=timedelta(0))

    def attributes(self, **attributes: Any) -> ConfiguredWorkflow[P, R]:
        """Set attributes that operators can search for. Replaces earlier attributes."""
        return self._with(attributes=attributes)

    def for_organization(self, organization: UUID | None) -> ConfiguredWorkflow[P, R]:
        """Run the workflow for this organization. One that a transaction starts has the transaction's organization."""
        return self._with(organization=organization)

    def _with(self, **changes: Any) -> ConfiguredWorkflow[P, R]:
        return ConfiguredWorkflow(self.workflow, replace(self.options, **changes))


class WorkflowTask(ConfiguredWorkflow[P, R]):
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
        over_http: bool = False,
    ) -> None:
        if not 1 <= max_steps <= 100_000:
            raise ValueError(f"{name}: max_steps must be between 1 and 100000, not {max_steps}")
        self.function = function
        self.name = name
        self.injected = injected
        self.version = version or _fingerprint(function)
        self.max_steps = max_steps
        self.load_result = ResultType(function, name).load
        # A run has no timeout: each of its steps has one.
        self.task = Task(
            name=PREFIX + name,
            run=run,
            kind="workflow",
            queue=QUEUE,
            retry=JOBS,
            timeout_s=None,
            load_result=self.load_result,
            over_http=(lambda: self) if over_http else None,
        )
        arguments = Arguments(function, self.task.name, frozenset({injected}))
        self.dump = arguments.dump
        self.load = arguments.load
        self.model = arguments.model
        self._callees: dict[Callable[..., Any], Callee] = {}
        self.__doc__ = function.__doc__
        super().__init__(self, StartOptions())

    def __repr__(self) -> str:
        return f"<workflow {self.name}>"

    def callee(self, function: Callable[..., Any]) -> Callee:
        """Return the step function with its inspected signature."""
        if (callee := self._callees.get(function)) is None:
            callee = self._callees[function] = Callee(function)
        return callee


def _fingerprint(function: Callable[..., Any]) -> str:
    """Return a hash of the function's bytecode. Functions that it calls are not included."""
    code = function.__code__
    parts = (code.co_code, repr(code.co_names).encode(), repr(code.co_varnames).encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:12]

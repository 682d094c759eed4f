"""Call functions as recorded steps and compensations. Type checkers see the arguments without the injected ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from onceward.durations import Duration, in_seconds
from onceward.work import RetryOption, RetryPolicy, as_policy
from onceward.work.gate import gate
from onceward.workflows.run import WorkflowRun
from onceward.workflows.step import How, StepCall
from onceward.workflows.step_functions import Step

if TYPE_CHECKING:
    from onceward.tx import Tx

P = ParamSpec("P")
T = TypeVar("T")

STEPS = RetryPolicy(max_attempts=5, first_s=1, factor=4, max_wait_s=3600)
"""The default for steps: five attempts within a minute and a half."""
COMPENSATIONS = RetryPolicy(max_attempts=12, first_s=1, factor=3, max_wait_s=3600)
"""The default for compensations: twelve attempts over about six hours, then the workflow is a dead letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepOptions:
    """The options of a step or compensation."""

    key: object = None
    retry: RetryOption | None = None
    max_attempts: int | None = None
    timeout_s: float | None = 30.0
    rate_per_s: float | None = None

    def how(self, default: RetryPolicy) -> How:
        """Return how to run the step: the retry policy, the timeout and the rate."""
        return How(
            retry=as_policy(self.retry, self.max_attempts, default),
            timeout_s=self.timeout_s,
            rate_per_s=self.rate_per_s,
        )


DEFAULTS = StepOptions()


class StepCaller:
    """Calls functions as steps of a workflow, with the options that `wf.options(...)` was given.

    A step function takes its injected parameters first: `(step: Step, tx: Tx, ...)`, `(tx: Tx, ...)`,
    `(step: Step, ...)` or only its own arguments.
    """

    __slots__ = ("_options", "_run")

    def __init__(self, run: WorkflowRun, options: StepOptions = DEFAULTS) -> None:
        self._run = run
        self._options = options

    @overload
    def step(
        self, function: Callable[Concatenate[Step, Tx, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> StepCall[T]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[Tx, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> StepCall[T]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[Step, P], Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> StepCall[T]: ...
    @overload
    def step(self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> StepCall[T]: ...
    @overload
    def step(
        self, function: Callable[Concatenate[Step, P], T], /, *args: P.args, **kwargs: P.kwargs
    ) -> StepCall[T]: ...
    @overload
    def step(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> StepCall[T]: ...
    def step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> StepCall[Any]:
        """Run a function as a recorded step: `await wf.step(charge, order, cents=100)`.

        The result is read from the record with the type that the function returns. A function with a `Tx` parameter is
        recorded in the commit of its effects, so it takes effect exactly once. Options:
        `wf.options(key=...).step(...)`.
        """
        callee = self._run.task.callee(function)
        bound = callee.arguments(args, kwargs)
        place = self._run.place("step", callee.name, self._options.key)
        return StepCall(self._run, place, callee, bound, self._options.how(STEPS))

    @overload
    async def compensate(
        self, function: Callable[Concatenate[Step, Tx, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...
    @overload
    async def compensate(
        self, function: Callable[Concatenate[Tx, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...
    @overload
    async def compensate(
        self, function: Callable[Concatenate[Step, P], Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> None: ...
    @overload
    async def compensate(self, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> None: ...
    async def compensate(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        """Register the function that undoes the next step. If the workflow fails, compensations run in reverse order.

        The step may not have run, or only in part, when the compensation runs: the function must handle both.
        """
        callee = self._run.task.callee(function)
        if self._options.rate_per_s is not None:
            raise TypeError(f"compensation {callee.name}: rate applies to steps only")
        bound = callee.arguments(args, kwargs)
        place = self._run.place("compensation", callee.name, self._options.key)
        if place.recorded is None:
            gate("workflow-before-register")
            await self._run.record(place, "registered")
            gate("workflow-after-register")
        self._run.register(StepCall(self._run, place, callee, bound, self._options.how(COMPENSATIONS)))


def step_options(
    *, key: object, retry: RetryOption | None, max_attempts: int | None, timeout: Duration | None, rate: float | None
) -> StepOptions:
    """Return the options for the arguments of `wf.options`."""
    return StepOptions(
        key=key,
        retry=retry,
        max_attempts=max_attempts,
        timeout_s=None if timeout is None else in_seconds(timeout),
        rate_per_s=rate,
    )

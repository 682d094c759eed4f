"""Make a function a workflow that workers of this registry run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from onceward.work import Claimed, Registry
from onceward.workflows.history import WorkflowKind
from onceward.workflows.run import Run
from onceward.workflows.task import MOST_STEPS, WorkflowTask
from onceward.workflows.workflow import Workflow


def register(
    registry: Registry,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    version: str | None = None,
    max_steps: int = MOST_STEPS,
) -> WorkflowTask:
    """The function asks for `wf: Workflow`; its other parameters are keyword-only arguments."""
    called = name or function.__name__
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{called}: a workflow must be `async def`")
    hints = get_type_hints(function, include_extras=True)
    asking = [parameter for parameter, annotation in hints.items() if annotation is Workflow]
    if len(asking) != 1:
        raise TypeError(f"{called}: a workflow takes one parameter annotated `Workflow`, this has {len(asking)}")

    async def run(work: Claimed, _tx: object) -> None:
        one = Run(task, work)
        await one.perform(Workflow(one))

    task = WorkflowTask(function, name=called, injected=asking[0], run=run, version=version, max_steps=max_steps)
    registry.add(task.task)
    if "workflow" not in registry.kinds:
        registry.add_kind(WorkflowKind())
    return task

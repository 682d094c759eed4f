"""Register a function as a workflow in a registry."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onceward import inject
from onceward.work import AppRegistry, Claimed
from onceward.workflows.history import WorkflowKind
from onceward.workflows.run import WorkflowRun
from onceward.workflows.task import MOST_STEPS, WorkflowTask
from onceward.workflows.workflow import Workflow


def register(
    registry: AppRegistry,
    function: Callable[..., Any],
    *,
    name: str | None = None,
    version: str | None = None,
    max_steps: int = MOST_STEPS,
    over_http: bool = False,
) -> WorkflowTask[..., Any]:
    """Register the function. It has one parameter `wf: Workflow`; the others are keyword-only arguments."""
    workflow_name = name or function.__name__
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{workflow_name}: a workflow must be `async def`")
    signature = inject.read(function, known=(Workflow,), name=workflow_name)
    injected = signature.parameter(Workflow)
    if injected is None:
        raise TypeError(f"{workflow_name}: a workflow's first parameter must be annotated `Workflow`")

    async def run(work: Claimed, _tx: object) -> None:
        current = WorkflowRun(task, work)
        await current.perform(Workflow(current))

    task: WorkflowTask[..., Any] = WorkflowTask(
        function,
        name=workflow_name,
        injected=injected,
        run=run,
        version=version,
        max_steps=max_steps,
        over_http=over_http,
    )
    registry.add(task.task)
    if "workflow" not in registry.kinds:
        registry.add_kind(WorkflowKind())
    return task

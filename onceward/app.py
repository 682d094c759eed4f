"""The application object: handlers are registered on it by decorators, and apps compose with `include`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceward import inject, workflows
from onceward.db import Line
from onceward.tx import Tx
from onceward.work import JOBS, Job, JobTask, Registry, RetryPolicy, Task, as_policy

if TYPE_CHECKING:
    from fastapi import APIRouter

INJECTED: tuple[type, ...] = (Job, Tx)


class Onceward:
    """`app = Onceward("shop")`; `onceward worker shop.main:app` runs it."""

    def __init__(self, name: str, *, migrations: Path | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"an app's name must be an identifier, not {name!r}")
        self.name = name
        self.registry = Registry()
        self.lines: list[Line] = [] if migrations is None else [Line(name, migrations)]
        self.routers: list[APIRouter] = []

    def include(self, other: Onceward) -> None:
        """Everything of another app becomes part of this one; a clash of names is an error."""
        for task in other.registry:
            self.registry.add(task)
        for kind in other.registry.kinds.values():
            self.registry.add_kind(kind)
        self.lines.extend(other.lines)
        self.routers.extend(other.routers)

    # -- HTTP ------------------------------------------------------------------------------------------------------

    def routes(self, router: APIRouter) -> None:
        """Serve these routes, beside the engine's own."""
        self.routers.append(router)

    # -- jobs ------------------------------------------------------------------------------------------------------

    def job(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        queue: str = "default",
        attempts: int | None = None,
        retry: RetryPolicy | Sequence[float] | None = None,
        timeout: float | None = 30.0,
        batch: int = 1,
        outside: bool = False,
        critical: bool = True,
    ) -> Any:
        """Register a function as a job. `timeout` in seconds; `retry` a list of waits in seconds or a policy."""

        def register(function: Callable[..., Any]) -> JobTask:
            called = name or function.__name__
            signature = inject.read(function, known=INJECTED, name=called)
            task = Task(
                name=called,
                run=_runner(function, called, signature, batch, lambda: job),
                queue=queue,
                retry=as_policy(retry, attempts, JOBS),
                timeout_s=timeout,
                transactional=signature.parameter(Tx) is not None,
                outside=outside,
                critical=critical,
                batch=batch,
            )
            job = JobTask(function, task, injected=frozenset(signature.injected))
            self.registry.add(task)
            return job

        return register if function is None else register(function)

    # -- workflows -------------------------------------------------------------------------------------------------

    def workflow(
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        version: str | None = None,
        max_steps: int = 1000,
    ) -> Any:
        """Register a function as a workflow. `version` names its code in errors; not given: a fingerprint of it."""

        def register(function: Callable[..., Any]) -> workflows.WorkflowTask:
            return workflows.register(self.registry, function, name=name, version=version, max_steps=max_steps)

        return register if function is None else register(function)


def _runner(
    function: Callable[..., Any], name: str, signature: inject.Signature, batch: int, job: Callable[[], JobTask]
) -> Callable[[Any, Any], Awaitable[Any]]:
    """The function as the executor calls it: with what it asked for, and its arguments decoded."""
    job_name = signature.parameter(Job)
    tx_name = signature.parameter(Tx)
    asynchronous = inspect.iscoroutinefunction(function)
    if tx_name is not None and not asynchronous:
        raise TypeError(f"{name}: a plain function runs in a thread and cannot use `tx`; make it `async def`")

    if batch > 1:
        if job_name is None or signature.arguments:
            raise TypeError(f"{name}: a batch handler takes `jobs: list[Job], tx: Tx` and nothing else")

        async def run_batch(works: Any, tx: Any) -> Any:
            return await function(**{job_name: [Job(each) for each in works], str(tx_name): tx})

        return run_batch

    async def run(work: Any, tx: Any) -> Any:
        arguments = job().load(work.args)
        if job_name is not None:
            arguments[job_name] = Job(work)
        if tx_name is not None:
            arguments[tx_name] = tx
        if asynchronous:
            return await function(**arguments)
        return await asyncio.to_thread(function, **arguments)

    return run

"""The process of an isolated handler: `python -m onceward.work.child SOCKET PARENT`. It runs one call after another.

The worker kills the process at the timeout. What is limited here protects against mistakes; it is not a sandbox for
hostile code.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import functools
import inspect
import math
import os
import resource
import signal
import socket
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, NoReturn
from uuid import UUID

from onceward.telemetry.logs import configure_logging, running
from onceward.work.claimed import Claimed
from onceward.work.frames import pack, read
from onceward.work.job import Job
from onceward.work.job_task import JobTask
from onceward.work.leaks import leaked
from onceward.work.outcomes import Indeterminate, PayloadInvalid, Permanent, Retry, Snooze
from onceward.work.settle import describe, result_json

PR_SET_PDEATHSIG = 1
OOM_SCORE = "500"
"""The kernel ends this process before its worker when the machine runs out of memory."""


class NoDatabase:
    """Stands for the database of a job in a process of its own, which has none."""

    def __getattr__(self, _name: str) -> NoReturn:
        raise TypeError(
            "a job with process=True has no database: job.checkpoint, job.cursor "
            "and job.transaction are not available; return the result, and write it in an on_end hook"
        )


def main(descriptor: int, parent: int) -> None:
    """Import the function that the worker names, then run its calls until the worker closes the socket."""
    _end_with(parent)
    # systemd sends SIGTERM to all processes of a service: the worker decides when this one ends. A handler, not
    # SIG_IGN, which programs that the function starts would inherit.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: None)
    channel = socket.socket(fileno=descriptor)
    channel.set_inheritable(False)
    with channel, channel.makefile("rb") as calls:
        first = read(calls)
        if first is None:
            return
        sys.path[:] = first["path"]
        if first["log_level"] is not None:
            configure_logging(level=first["log_level"])
        try:
            job = find(first["module"], first["qualname"])
        except BaseException as error:
            channel.sendall(pack({"error": describe(error)}))
            return
        _limit(first["memory_mb"])
        channel.sendall(pack({}))
        _serve(calls, channel, job, first["cpu_s"])


def _serve(calls: BinaryIO, channel: socket.socket, job: JobTask[..., Any], cpu_s: float | None) -> None:
    while (call := read(calls)) is not None:
        if cpu_s is not None:
            limit = math.ceil(time.process_time() + cpu_s)
            resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        reply = run(job, call)
        channel.sendall(pack(reply))
        if reply.get("last"):
            return


def find(module: str, qualname: str) -> JobTask[..., Any]:
    """Import a job by the module and qualified name of its function."""
    try:
        found = functools.reduce(getattr, qualname.split("."), import_module(module))
    except AttributeError as error:
        raise TypeError(f"{module} has no {qualname} after its import: {error}") from error
    if not isinstance(found, JobTask):
        raise TypeError(f"{module}.{qualname} is not a job: use @app.job(process=True) as its outermost decorator")
    return found


def run(job: JobTask[..., Any], call: dict[str, Any]) -> dict[str, Any]:
    """Run the function once and return what the worker has to know of it."""
    work = _work(call)
    running.set(work)
    try:
        arguments = job.load(work.args)
        for name in job.injected:
            arguments[name] = Job(work)
        result = job.function(**arguments)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return {"result": result_json(result)}
    except BaseException as error:
        is_last = isinstance(error, MemoryError)
        if is_last:
            _limit(None)  # its description needs memory too
        return _failure(error) | {"last": is_last}


def _failure(error: BaseException) -> dict[str, Any]:
    error = error if isinstance(error, Exception) else leaked(error)
    reply: dict[str, Any] = {"error": describe(error)}
    match error:
        case Retry():
            return reply | {"raised": "retry", "after_s": error.after_s}
        case Snooze():
            return reply | {"raised": "snooze", "after_s": error.after_s}
        case PayloadInvalid():
            return reply | {"raised": "payload_invalid", "result": result_json(error.result)}
        case Permanent():
            return reply | {"raised": "permanent", "result": result_json(error.result)}
        case Indeterminate():
            return reply | {"raised": "indeterminate"}
        case _:
            return reply


def _work(call: dict[str, Any]) -> Claimed:
    organization = call["organization"]
    work = Claimed(
        0,
        call["id"],
        call["kind"],
        call["task"],
        None if organization is None else UUID(organization),
        call["attempts"],
        args=call["args"],
        caused_by=call["caused_by"],
        tags=call["tags"],
        context=call["context"],
    )
    work.db = NoDatabase()
    return work


def _limit(memory_mb: int | None) -> None:
    """Limit the address space to what the process has now and this much more, or not at all."""
    if sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = hard
        if memory_mb is not None:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            wanted = pages * resource.getpagesize() + (memory_mb << 20)
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _end_with(parent: int) -> None:
    """End this process when its worker ends, even inside a computation."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):  # a container may forbid it
            Path("/proc/self/oom_score_adj").write_text(OOM_SCORE)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # it ended before the kernel knew that this process depends on it
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

"""Run isolated handlers in processes of the worker: what crashes or hangs there is a failure of the job alone.

A process imports the function once and runs one call after another. It is killed when its call is cancelled or exceeds
its timeout, and replaced when it has ended for any reason. It ends with its worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from typing import Any, Protocol

import structlog

from onceward.background import spawn
from onceward.errors import OncewardError
from onceward.work.claimed import Claimed
from onceward.work.frames import pack, receive
from onceward.work.isolation import Isolation
from onceward.work.outcomes import Indeterminate, PayloadInvalid, Permanent, Retry, Snooze

IDLE_S = 60.0
"""A process that had nothing to run for this long is ended."""
MOST_CALLS = 1000
"""A process is replaced after this number of calls, which bounds what its function leaks."""
START_S = 60.0
"""How long a process may take to import the function."""


class ProcessCrashed(OncewardError):
    """The process of an isolated handler ended during a call: by a signal, a limit, or an exit."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.details: dict[str, Any] = {}  # without a stack, which would be the worker's own


class ProcessNotStarted(ProcessCrashed):
    """The process of an isolated handler could not import the function."""


class FailedInProcess(OncewardError):
    """The handler raised an exception in its process, which `details` describe."""

    details: dict[str, Any]


class ProcessSlot(Protocol):
    """A slot whose handler runs in a process."""

    def waits_for_process(self) -> None:
        """The handler waits for a process: meanwhile its timeout does not count."""
        ...

    def started_in_process(self) -> None:
        """A process runs the function: its timeout starts now."""
        ...


class Child:
    """One process and the socket to it."""

    def __init__(
        self, isolation: Isolation, process: asyncio.subprocess.Process, streams: tuple[asyncio.StreamReader, Any]
    ) -> None:
        self.isolation = isolation
        self._process = process
        self._reader, self._writer = streams
        self.exited = spawn(process.wait(), name="wait for a handler's process")
        self.calls = 0
        self.expiry: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, isolation: Isolation) -> Child:
        """Start a process. It imports the function after the first message."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-m",
                    "onceward.work.child",
                    str(theirs.fileno()),
                    str(os.getpid()),
                    stdin=asyncio.subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(),),
                    # A Ctrl-C is meant for the worker; and a kill ends what the function started.
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        return cls(isolation, process, await asyncio.open_unix_connection(sock=ours))

    async def exchange(self, message: dict[str, Any]) -> dict[str, Any]:
        """Send a message and return the reply. Raise ProcessCrashed if the process ends instead."""
        answer = spawn(receive(self._reader))
        try:
            self._writer.write(pack(message))
            # A process that the function forked may hold the socket open, so the end of ours is watched as well.
            await asyncio.wait({answer, self.exited}, return_when=asyncio.FIRST_COMPLETED)
            reply = await answer if answer.done() else None
        finally:
            answer.cancel()
        if reply is None:
            await asyncio.wait({self.exited}, timeout=1.0)
            self.kill()
            raise ProcessCrashed(f"the process of the handler {_ending(await self.exited, self.isolation)}")
        return reply

    def kill(self) -> None:
        """End the process and all that it started."""
        self._writer.close()
        if self.expiry is not None:
            self.expiry.cancel()
        if not self.exited.done():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)


class HandlerProcesses:
    """The processes of one worker: one for each call that runs, and idle ones that wait for the next."""

    def __init__(self, most: int | None = None) -> None:
        self._turns = asyncio.Semaphore(most or max(2, os.cpu_count() or 1))
        self._idle: dict[Isolation, list[Child]] = {}
        self._children: set[Child] = set()

    async def call(self, isolation: Isolation, work: Claimed, slot: ProcessSlot | None) -> Any:
        """Return what the function returns, or raise what it raises. A cancellation kills its process."""
        if slot is not None:
            slot.waits_for_process()
        async with self._turns:
            child = self._take_idle(isolation) or await self._start(isolation)
            if slot is not None:
                slot.started_in_process()
            try:
                reply = await child.exchange(_call(work))
            except BaseException:
                child.kill()
                raise
            self._keep(child, is_last=reply.get("last", False))
        return _result(reply, isolation)

    async def close(self) -> None:
        """End all processes."""
        children = list(self._children)
        for child in children:
            child.kill()
        await asyncio.gather(*(child.exited for child in children))

    async def _start(self, isolation: Isolation) -> Child:
        child = await Child.start(isolation)
        self._children.add(child)
        child.exited.add_done_callback(lambda _ended: self._children.discard(child))
        try:
            async with asyncio.timeout(START_S):
                reply = await child.exchange(
                    {
                        "path": sys.path,
                        "log_level": logging.getLevelName(logging.root.level) if structlog.is_configured() else None,
                        "module": isolation.module,
                        "qualname": isolation.qualname,
                        "memory_mb": isolation.memory_mb,
                        "cpu_s": isolation.cpu_s,
                    }
                )
        except TimeoutError:
            child.kill()
            raise ProcessNotStarted(f"{isolation.module} was not imported within {START_S:.0f} s") from None
        except BaseException:
            child.kill()
            raise
        if "error" in reply:
            child.kill()
            raise ProcessNotStarted(
                f"{isolation.module}.{isolation.qualname} cannot be imported in a process of its own: "
                f"{reply['error']['type']}: {reply['error']['message']}"
            )
        return child

    def _take_idle(self, isolation: Isolation) -> Child | None:
        idle = self._idle.get(isolation)
        while idle:
            child = idle.pop()
            if child.expiry is not None:
                child.expiry.cancel()
            if not child.exited.done():
                return child
            child.kill()
        return None

    def _keep(self, child: Child, *, is_last: bool) -> None:
        child.calls += 1
        if is_last or child.calls >= MOST_CALLS:
            child.kill()
            return
        self._idle.setdefault(child.isolation, []).append(child)
        child.expiry = asyncio.get_running_loop().call_later(IDLE_S, self._expire, child)

    def _expire(self, child: Child) -> None:
        self._idle[child.isolation].remove(child)
        child.kill()


def _call(work: Claimed) -> dict[str, Any]:
    return {
        "id": work.id,
        "kind": work.kind,
        "task": work.task,
        "organization": None if work.organization is None else str(work.organization),
        "attempts": work.attempts,
        "args": work.args,
        "caused_by": work.caused_by,
        "tags": work.tags,
        "context": work.context,
    }


def _result(reply: dict[str, Any], isolation: Isolation) -> Any:
    """Return the result of a reply, or raise the exception that stands for the one of the function."""
    result = reply.get("result")
    result = None if result is None else json.loads(result)
    described: dict[str, Any] | None = reply.get("error")
    if described is None:
        return result
    message: str = described["message"]
    if described["type"] == MemoryError.__name__ and not message:
        message = described["message"] = f"the handler needs more memory than memory_mb={isolation.memory_mb}"
    error: Exception
    match reply.get("raised"):
        case "retry":
            error = Retry(message, after=reply["after_s"])
        case "snooze":
            error = Snooze(reply["after_s"], message)
        case "payload_invalid":
            error = PayloadInvalid(message, result=result)
        case "permanent":
            error = Permanent(message, result=result)
        case "indeterminate":
            error = Indeterminate(message)
        case _:
            error = FailedInProcess(f"{described['type']}: {message}")
    error.details = described  # pyright: ignore[reportAttributeAccessIssue]
    raise error


def _ending(code: int, isolation: Isolation) -> str:
    """Say how a process ended."""
    if code >= 0:
        return f"ended itself with the exit code {code}"
    if code == -signal.SIGXCPU:
        return f"used more CPU time than cpu_s={isolation.cpu_s}"
    if code == -signal.SIGKILL:
        return "was killed (SIGKILL), which the kernel does when the machine runs out of memory"
    name = next((each.name for each in signal.Signals if each == -code), f"signal {-code}")
    return f"was killed by {name}"

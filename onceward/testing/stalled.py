"""The process that stands still, and how the test drives it.

The test writes the number of a gate to its standard input. The process runs the scenario, says `stalled GATE` when it
comes there, and stops itself with SIGSTOP, all its threads at once. After SIGCONT it goes on and says `finished`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import os
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, cast

import orjson

from onceward.db import Database
from onceward.work import gate

if TYPE_CHECKING:
    from onceward.testing.stall import StallScenario

LOOK_EVERY_S = 0.005
PR_SET_PDEATHSIG = 1


def load_target(target: str) -> Any:
    """Import `package.module:name`."""
    module, _, name = target.partition(":")
    if not name:
        raise ValueError(f"target {target!r} must be `package.module:name` of a StallScenario")
    try:
        return getattr(importlib.import_module(module), name)
    except AttributeError:
        raise ValueError(f"target {target!r}: module {module} has no {name!r}") from None


class StalledProcess:
    """The process, seen from the test. It runs the scenario as often as it is asked to."""

    def __init__(self, process: subprocess.Popen[bytes], application_name: str) -> None:
        self._process = process
        self.application_name = application_name

    @classmethod
    async def start(cls, target: str, url: str, *, application_name: str) -> StalledProcess:
        process = await asyncio.to_thread(
            subprocess.Popen,
            [sys.executable, "-c", f"from {__name__} import main; main()", target, url, application_name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(each or "." for each in sys.path)},
        )
        made = cls(process, application_name)
        try:
            await made._expect("ready")
        except BaseException:
            made.end()
            raise
        return made

    async def run_until(self, number: int) -> str:
        """Let it run to the gate with this number and stand still there; returns the gate's name."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()
        name = await self._expect("stalled")
        await self._until_stopped()
        return name

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def finish(self) -> None:
        """Wait until it has come to the end of its run."""
        await self._expect("finished")

    def end(self) -> None:
        """In whatever state it is."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    async def _expect(self, wanted: str) -> str:
        assert self._process.stdout is not None
        line: bytes = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise AssertionError("the process that was to stand still has died; its standard error says why")
        said, told = cast("tuple[str, str]", orjson.loads(line))
        if said == "failed":
            raise AssertionError(f"the run of the process that stood still has failed:\n{told}")
        if said != wanted:
            raise AssertionError(f"the process that was to stand still is {said}, not {wanted}: is the run the same?")
        return told

    async def _until_stopped(self) -> None:
        while True:
            pid, status = os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG)  # noqa: ASYNC222 - does not wait
            if pid and os.WIFSTOPPED(status):
                return
            if pid:
                raise AssertionError(f"the process that was to stand still has died with status {status}")
            await asyncio.sleep(LOOK_EVERY_S)


class _Test:
    """The test, seen from the process. Standard output is the way to it; whatever else is printed goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def say(self, what: str, told: str = "") -> None:
        self._out.write(orjson.dumps([what, told]) + b"\n")
        self._out.flush()


class _StandStill:
    """At the gate with this number."""

    def __init__(self, number: int, test: _Test) -> None:
        self._left = number
        self._test = test

    def __call__(self, name: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._test.say("stalled", name)
            os.kill(os.getpid(), signal.SIGSTOP)


async def _main(target: str, url: str, application_name: str) -> None:
    test = _Test()
    scenario: StallScenario[Any] = load_target(target)
    db = await Database.open(url, application_name=application_name)
    async with scenario.open(db) as host:
        test.say("ready")
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            gate.hook = _StandStill(int(line), test)
            try:
                await scenario.run(host)
            except Exception:
                test.say("failed", traceback.format_exc())
            else:
                test.say("finished")
            finally:
                gate.hook = None
    await db.close()


def main() -> None:
    """The process's own main function: target, address of the database, name among its sessions."""
    if sys.platform == "linux":
        # A stopped process does not notice that the test is gone; the kernel ends it with the test.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    asyncio.run(_main(*sys.argv[1:]))

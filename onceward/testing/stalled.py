"""The process that is frozen in a stall test, and the object with which the test controls it.

The test writes the number of a gate to the standard input of the process. The process runs the scenario, reports
`stalled GATE` at that gate, and stops all its threads with SIGSTOP. After SIGCONT it resumes and reports `finished`.
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

POLL_INTERVAL_S = 0.005
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
    """The test's handle of the process, which runs the scenario once per call of `run_until`."""

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
        started = cls(process, application_name)
        try:
            await started._expect("ready")
        except BaseException:
            started.end()
            raise
        return started

    async def run_until(self, number: int) -> str:
        """Let the process run to the gate with this number and freeze there. Return the name of the gate."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()
        name = await self._expect("stalled")
        await self._until_stopped()
        return name

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    async def finish(self) -> None:
        """Wait until the process has finished its run."""
        await self._expect("finished")

    def end(self) -> None:
        """Kill the process in any state."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()

    async def _expect(self, expected: str) -> str:
        assert self._process.stdout is not None
        line: bytes = await asyncio.to_thread(self._process.stdout.readline)
        if not line:
            raise AssertionError("the stalled process has died; see its standard error")
        report, detail = cast("tuple[str, str]", orjson.loads(line))
        if report == "failed":
            raise AssertionError(f"the run in the stalled process has failed:\n{detail}")
        if report != expected:
            raise AssertionError(
                f"the stalled process reports {report!r}, expected {expected!r}: is the scenario deterministic?"
            )
        return detail

    async def _until_stopped(self) -> None:
        while True:
            pid, status = os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG)  # noqa: ASYNC222 - does not wait
            if pid and os.WIFSTOPPED(status):
                return
            if pid:
                raise AssertionError(f"the stalled process has died with status {status}")
            await asyncio.sleep(POLL_INTERVAL_S)


class _Test:
    """The process's connection to the test: standard output. Other output of the process goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def send(self, report: str, detail: str = "") -> None:
        self._out.write(orjson.dumps([report, detail]) + b"\n")
        self._out.flush()


class _Freeze:
    """Freezes the process at the gate with this number."""

    def __init__(self, number: int, test: _Test) -> None:
        self._left = number
        self._test = test

    def __call__(self, name: str) -> None:
        self._left -= 1
        if self._left == 0:
            self._test.send("stalled", name)
            os.kill(os.getpid(), signal.SIGSTOP)


async def _main(target: str, url: str, application_name: str) -> None:
    test = _Test()
    scenario: StallScenario[Any] = load_target(target)
    db = await Database.open(url, application_name=application_name)
    async with scenario.open(db) as host:
        test.send("ready")
        while line := await asyncio.to_thread(sys.stdin.buffer.readline):
            gate.hook = _Freeze(int(line), test)
            try:
                await scenario.run(host)
            except Exception:
                test.send("failed", traceback.format_exc())
            else:
                test.send("finished")
            finally:
                gate.hook = None
    await db.close()


def main() -> None:
    """Run the stalled process. Arguments: target, database URL, application name."""
    if sys.platform == "linux":
        # A stopped process cannot notice that the test has ended, so the kernel kills it with the test.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    asyncio.run(_main(*sys.argv[1:]))

"""Processes that tests start end with them: `python -m tests.child MODULE ARGUMENTS` runs a module that dies with its parent.

The test ends its children itself; this is for the test that is killed, or that ends while a thread of it still starts one.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
PR_SET_PDEATHSIG = 1


def command(module: str, *arguments: str) -> list[str]:
    """How to run a module, with the repository's root as the directory or on the path."""
    return [sys.executable, "-m", "tests.child", module, *arguments]


def die_with_parent() -> None:
    """Also when stopped by SIGSTOP where the kernel can do it; elsewhere within half a second."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if os.getppid() != parent:  # the parent ended before the kernel knew that this process depends on it
        os._exit(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def end(process: subprocess.Popen[str]) -> None:
    """Whatever state it is in; a stopped one too."""
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


async def end_all(processes: list[asyncio.subprocess.Process]) -> None:
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.wait()


if __name__ == "__main__":
    die_with_parent()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)

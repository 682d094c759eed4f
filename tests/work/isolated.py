"""Jobs that run in processes of their own, which import this module: for test_isolation.py."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from datetime import date
from typing import Any

from onceward import Job, Onceward, Permanent, Retry, Snooze

app = Onceward("isolated")


class TooOld(Permanent):
    """A refusal of this app."""


@app.job(process=True, retry=[0.0])
def compute(job: Job, *, n: int, day: date) -> dict[str, Any]:
    return {"square": n * n, "year": day.year, "pid": os.getpid(), "key": job.key("pay"), "attempt": job.attempt}


@app.job(process=True, retry=[0.0])
async def compute_async(*, n: int) -> int:
    return n * n


@app.job(process=True, retry=[0.0], memory_mb=100, cpu_s=1)
def misbehave(job: Job, *, how: str) -> None:
    match how:
        case "segfault":
            ctypes.string_at(0)
        case "_exit":
            os._exit(3)
        case "exit":
            sys.exit(3)
        case "memory":
            bytearray(300 << 20)
        case "cpu":
            while True:
                pass
        case "value":
            raise ValueError("not this one")
        case "too old":
            raise TooOld("of 1999", result={"code": 7})
        case "retry" if job.attempt == 1:
            raise Retry("again", after=0)
        case "snooze" if not job.tags:
            raise Snooze(3600, "too early")
        case "database":
            job.transaction().__aenter__().send(None)
        case _:
            return


@app.job(process=True, retry=[], timeout=0.5)
def hang(*, pid_file: str) -> None:
    """Runs on in a process that it started, too."""
    child = subprocess.Popen(["sleep", "60"])
    with open(pid_file, "w") as file:
        file.write(f"{os.getpid()} {child.pid}")
    time.sleep(60)


@app.job(process=True, retry=[0.0], timeout=60)
def wait(*, pid_file: str) -> None:
    with open(pid_file, "w") as file:
        file.write(f"{os.getpid()}")
    time.sleep(60)


@app.job
async def good(*, n: int) -> int:
    return n


@app.job
def plain(*, n: int) -> int:
    return n + 1

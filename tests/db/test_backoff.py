"""Retries with growing pauses, and the exceptions of a failed database call, named once."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

import onceward
from onceward.db import Backoff, retry

ROOT = Path(onceward.__file__).parent
SPELLED_OUT = re.compile(r"\([^()]*(\*(BROKEN|OUTAGE|FAILED)[^()]*asyncpg\.|asyncpg\.[^()]*(\*BROKEN|OSError))[^()]*\)")


async def test_the_pause_doubles_up_to_the_limit_and_starts_again_after_a_success() -> None:
    backoff = Backoff(first_s=0.001, longest_s=0.003)
    seen: list[float] = []
    for _ in range(4):
        seen.append(backoff.pause_s)
        await backoff.pause()
    assert seen == [0.001, 0.002, 0.003, 0.003]
    backoff.reset()
    assert backoff.pause_s == 0.001


async def test_an_event_ends_the_pause_early() -> None:
    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(10):
        await Backoff(first_s=3600).pause(until=stop)


async def test_retry_returns_the_first_result_and_reports_each_failure() -> None:
    left = [OSError("one"), OSError("two")]
    reported: list[str] = []

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    backoff = Backoff(first_s=0.001)
    assert await retry(attempt, lambda error, _pause_s: reported.append(str(error)), backoff=backoff) == "done"
    assert reported == ["one", "two"]


async def test_retry_ends_when_the_caller_says_that_another_attempt_cannot_help() -> None:
    async def attempt() -> None:
        raise ValueError("wrong password")

    def give_up(error: Exception, _pause_s: float) -> None:
        raise error

    with pytest.raises(ValueError, match="wrong password"):
        await retry(attempt, give_up)


def test_no_module_spells_out_the_exceptions_of_a_failed_call() -> None:
    spelled = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in ROOT.rglob("*.py")
        if path != ROOT / "db" / "errors.py"
        for match in SPELLED_OUT.finditer(path.read_text(encoding="utf-8"))
    ]
    assert spelled == [], "use BROKEN, OUTAGE or FAILED of onceward.db"

"""A worker to start and stop in a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.work import claim_size, commit_sharing, slots
from tests.engines import Bench, started_benches


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    async with started_benches(lambda app: Bench(db, app)) as start:
        yield start


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let groups grow however slow this machine is: claim all that waits, and let no group become too old."""
    for name in ("AGE_S", "LONGEST_S", "SLOW_S"):
        monkeypatch.setattr(commit_sharing, name, 1000.0)
    monkeypatch.setattr(slots, "PATIENCE_S", 1000.0)
    for name in ("QUICK_S", "AHEAD_FOR_S"):
        monkeypatch.setattr(claim_size, name, 1000.0)

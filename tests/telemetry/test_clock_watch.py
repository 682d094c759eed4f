"""A process whose clock differs from the database's clock says so, once for each change."""

from __future__ import annotations

import time

from structlog.testing import capture_logs

from onceward.db import Database
from onceward.process.clock import ClockWatch
from onceward.process.metrics import CLOCK


async def test_a_wrong_clock_is_logged_once_and_its_correction_too(db: Database) -> None:
    off_s = 0.0
    watch = ClockWatch(db, clock=lambda: time.time() + off_s)
    logged: list[tuple[str, int]] = []
    for off_s in (0.0, 3600.0, 3600.5, -7200.0, 1.0, 0.0):
        with capture_logs() as logs:
            ahead_s = await watch.step()
        assert CLOCK._value.get() == ahead_s
        assert abs(ahead_s - off_s) < 2
        logged += [(entry["event"], round(entry["ahead_s"] / 3600)) for entry in logs]
    assert logged == [("clock.differs", 1), ("clock.differs", -2), ("clock.corrected", 0)]

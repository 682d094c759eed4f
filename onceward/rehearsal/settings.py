"""The settings of rehearsals: how long they may hold locks, and how much load they may add."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings


class RehearsalSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    rehearsal_lock_wait_ms: int = Field(
        default=200, ge=1, le=60_000, description="Milliseconds that a rehearsal waits for a lock before it gives up."
    )
    rehearsal_timeout_s: float = Field(
        default=5.0, gt=0, le=60, description="Seconds after which the rehearsal of one handler is rolled back."
    )
    rehearsal_per_minute: int = Field(
        default=2000, ge=1, le=1_000_000, description="Handlers that `onceward rehearse` starts per minute at most."
    )
    rehearsal_scan_mb: int = Field(
        default=64,
        ge=0,
        le=100_000,
        description="Megabytes of one table that a rehearsal reads to find a changed row which no key finds.",
    )
    rehearsal_busy_s: float = Field(
        default=30.0,
        gt=0,
        le=86_400,
        description="Rehearsals stop while due work has waited longer than these seconds.",
    )

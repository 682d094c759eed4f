"""The settings of the work feature: how workers take work, how often they retry it and how long its history is kept."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings, Words


class WorkSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    worker_concurrency: int = Field(
        default=64, ge=1, description="Work items that one worker process runs at the same time."
    )
    queues: Words = Field(default=(), description="Queues from which this worker takes work; empty means all.")
    unshared_queues: Words = Field(
        default=(), description="Queues whose handlers never share a commit with others (docs/work.md)."
    )
    poll_interval_ms: int = Field(
        default=1000,
        ge=10,
        description="Milliseconds after which an idle worker looks for due work even without a notification.",
    )
    max_attempts: int = Field(
        default=5,
        ge=1,
        description="Attempts at an event whose handler declares no retry policy, before it becomes a dead letter.",
    )
    job_max_attempts: int = Field(default=12, ge=1, description="Attempts at a job that declares no retry policy.")
    retention_days: int = Field(
        default=30,
        ge=1,
        description="Days to keep the bodies and attempts of finished work; dead letters are always kept.",
    )

"""The settings of the live feature: how many callers and queries a process serves, and how long changes are kept."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings


class LiveSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    live_max_connections: int = Field(
        default=20_000, ge=1, description="Maximum number of live connections per process."
    )
    live_max_connections_per_organization: int = Field(
        default=10_000, ge=1, description="Maximum number of live connections per process for one organization."
    )
    live_retention_s: float = Field(
        default=300.0,
        ge=10,
        description="Seconds to keep changes for nodes that lost their connection; after a longer loss, a node reads "
        "everything again.",
    )
    live_query_timeout_s: float = Field(default=10.0, gt=0, description="Maximum duration of a live query, in seconds.")

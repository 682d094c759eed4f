"""A short chaos run without a cluster: processes are killed and frozen, connections are cut, and nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

from tools.chaos.faults import LINK_FAULTS, NODE_FAULTS, plan
from tools.chaos.run import run
from tools.chaos.system import Shape

SEED = 3


async def test_killed_and_frozen_processes_and_cut_connections_lose_and_double_nothing(
    database_url: str, tmp_path: Path
) -> None:
    shape = Shape(cluster=False, database_url=database_url, web=1, workers=2)
    faults = plan(SEED, duration_s=6, nodes=3, cluster=False, only=(*NODE_FAULTS, *LINK_FAULTS))
    assert len(faults) >= 3
    outcome = await run(tmp_path, shape, faults, duration_s=6, rate=8, seed=SEED)
    assert outcome.problems == []
    assert len(outcome.history.acknowledged) >= 5
    assert len(outcome.injected) == len(faults)

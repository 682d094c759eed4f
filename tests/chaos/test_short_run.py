"""A short chaos run without a cluster: processes are killed and frozen, connections are cut, and nothing is lost or doubled."""

from __future__ import annotations

from pathlib import Path

from tools.chaos.faults import LINK_FAULTS, NODE_FAULTS, plan
from tools.chaos.run import run
from tools.chaos.system import Shape

SEED = 4
DURATION_S = 4.0


async def test_killed_and_frozen_processes_and_cut_connections_lose_and_double_nothing(
    database_url: str, tmp_path: Path
) -> None:
    shape = Shape(cluster=False, database_url=database_url, web=0, workers=0, combined=2)
    faults = plan(
        SEED, duration_s=DURATION_S, nodes=shape.nodes, cluster=False, only=(*NODE_FAULTS, *LINK_FAULTS, "kill_command")
    )
    assert len(faults) >= 2
    outcome = await run(tmp_path, shape, faults, duration_s=DURATION_S, rate=5, seed=SEED)
    assert outcome.problems == []
    assert len(outcome.history.acknowledged) >= 5
    assert len(outcome.injected) == len(faults)

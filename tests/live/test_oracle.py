"""What each client holds equals a fresh query, whatever happens to nodes, sessions and connections."""

from __future__ import annotations

import pytest

from tests.live.oracle import consult


@pytest.mark.timeout(300)
async def test_what_every_client_holds_equals_a_fresh_query_after_random_steps(
    database_url: str, thorough: bool
) -> None:
    oracle = await consult(database_url, steps=500 if thorough else 150, seed=20_240)
    assert oracle.checks > (20 if thorough else 5)

"""What operators see: which node serves what, and whether it is slow or stuck."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Onceward, Query
from onceward.db import Database
from onceward.live.report import NodeReport, read
from tests.live.conftest import Open, Start
from tests.live.test_queries import holds, shop_app


async def only(db: Database) -> NodeReport:
    async with db.acquire() as conn:
        [node] = await read(conn)
        return node


async def test_a_node_reports_its_queries_groups_and_subscribers(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    here, event = await site(shop_app()), uuid4()
    assert (await only(shop)).state == "ok"
    for _ in range(2):
        each = await client(here, organization)
        await holds(each, await each.subscribe("occupancy", event_id=str(event)), {"seats": 0, "sold": 0})
        await holds(each, await each.subscribe("everything"), [])
    await here.node.report()
    node = await only(shop)
    assert (node.state, node.connections, node.reading) == ("ok", 2, True)
    assert [(q["query"], q["groups"], q["subscribers"]) for q in node.queries] == [
        ("everything", 1, 2),
        ("occupancy", 1, 2),
    ]
    assert node.progress_s is not None


async def test_failing_late_stuck_and_silent_are_distinguishable(
    site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    app = Onceward("trouble")
    release = asyncio.Event()

    @app.query
    async def fails(q: Query) -> Any:
        return await q.fetchval("select 1 / 0")

    @app.query
    async def slow(q: Query) -> Any:
        await release.wait()

    here = await site(app)
    ada = await client(here, organization)
    id = await ada.subscribe("fails")
    await ada.until(lambda: id in ada.errors)
    await here.node.report()
    assert (await only(shop)).state == "failing"
    await ada.say("drop", id=id)
    await ada.subscribe("slow")
    hub = here.node.hub
    async with asyncio.timeout(10):
        while not any(group.running for group in hub.groups.values()):
            await asyncio.sleep(0.01)
    hub.groups = {key: group for key, group in hub.groups.items() if group.definition.name == "slow"}
    [group] = hub.groups.values()
    group.behind_since -= 5
    await here.node.report()
    assert (await only(shop)).state == "behind"
    assert here.node.feed.progress_at is not None
    await here.node.feed.stop()
    here.node.feed.progress_at -= 60
    here.node.hub.needed_since -= 60
    await here.node.report()
    assert (await only(shop)).state == "stuck"
    release.set()
    await shop.execute("update onceward.live_nodes set seen_at = seen_at - interval '1 minute'")
    assert (await only(shop)).state == "silent"


@pytest.mark.parametrize("rested_for_s", [None, 600.0])
async def test_a_feed_that_is_needed_again_is_not_stuck_before_its_first_read(
    site: Start, shop: Database, rested_for_s: float | None
) -> None:
    here = await site(Onceward("quiet"))
    await here.node.feed.stop()
    here.node.feed.progress_at = None if rested_for_s is None else time.monotonic() - rested_for_s
    here.node.hub.need_feed()
    await here.node.report()
    assert (await only(shop)).state == "ok"
    here.node.hub.needed_since -= 60
    await here.node.report()
    assert (await only(shop)).state == "stuck"


@pytest.mark.parametrize("command", [["live", "ls", "--json"], ["live", "ls"], ["live", "reset"]])
def test_the_command_line_lists_nodes_and_resets_them(command: list[str], database_url: str, tmp_path: Any) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from onceward.__main__ import main; main()", *command],
        env={**os.environ, "ONCEWARD_DATABASE_URL": database_url, "ONCEWARD_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    if "--json" in command:
        assert json.loads(done.stdout) == []
    else:
        assert "no node serves live queries" in done.stdout or "epoch 2" in done.stdout


@pytest.mark.slow
async def test_an_idle_connection_costs_at_most_20_kib(database_url: str) -> None:
    from benchmarks import live
    from benchmarks.measure import Size

    [measured] = await live.run(Size.QUICK, database_url, only="memory-idle")
    assert measured.value <= 20


async def test_a_query_that_says_when_it_is_stale_runs_again_then(
    site: Start, client: Open, organization: UUID
) -> None:
    app = Onceward("clock")
    runs: list[str] = []

    @app.query
    async def ticking(q: Query) -> int:
        q.stale_after(0.05)
        runs.append("ticking")
        return runs.count("ticking")

    @app.query
    async def until_then(q: Query) -> int:
        runs.append("until")
        if runs.count("until") == 1:
            q.stale_at(await q.fetchval("select onceward.now() + interval '0.2 seconds'"))
        return runs.count("until")

    here = await site(app)
    ada = await client(here, organization)
    ticks, once = await ada.subscribe("ticking"), await ada.subscribe("until_then")
    await ada.until(lambda: ada.results.get(ticks, 0) >= 3)
    await ada.until(lambda: ada.results.get(once) == 2)

"""Refused requests and the addresses in requests leave rows that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from onceward.outbox import endpoints
from onceward.testing import until
from onceward.trust.parts import expired_logins
from tests.coursegen.server import running

KNOWN = "select count(*) from onceward.endpoints where direct and deleted_at is null"
REFUSALS = "select count(*) from onceward.system_metrics where event_type = 'concurrency_limit_hit'"
OLD_REFUSALS = """
insert into onceward.system_metrics (event_type, severity, timestamp)
select event_type, severity, timestamp - interval '31 days' from onceward.system_metrics, generate_series(1, 3000)
"""


@pytest.mark.acceptance("004-H bounds")
async def test_refusals_and_addresses_of_requests_leave_rows_that_end(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "MOST_DIRECT", 2)
    async with running(database_url, tmp_path, roles={"web"}, waiting_per_user=3) as server:
        for n in (1, 2, 1):
            address = f"{server.hooks.url}?n={n}"
            assert (await server.generate(await server.add_course(), webhookUrl=address)).status == 200
        assert await server.db.fetchval(KNOWN) == 2, "one for each address"
        other = await server.add_course()
        refused = await server.generate(other, webhookUrl=f"{server.hooks.url}?n=3")
        assert (refused.status, "use one of these" in str(refused.body)) == (400, True)
        assert await server.db.fetchval("select status from coursegen.courses where id::text = $1", other) == "draft"

        assert (await server.generate(other)).status == 200
        one_more = await server.add_course()
        assert [(await server.generate(one_more)).status for _ in range(2)] == [429, 429]
        assert await until(lambda: server.db.fetchval(f"{REFUSALS} having count(*) = 2"), timeout_s=10)
        await server.db.execute(OLD_REFUSALS)
        assert server.process.context is not None
        await expired_logins(server.process.context).step()
        assert await server.db.fetchval(REFUSALS) == 2, "old ones are deleted, however many"

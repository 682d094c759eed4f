"""A worker answers probes and shows its metrics on a port of its own."""

from __future__ import annotations

import aiohttp

from onceward.web.server import HealthServer
from tests.web.operating import started


async def test_a_worker_with_a_health_port_answers_probes_and_shows_its_metrics(database_url: str) -> None:
    process = await started(database_url, roles={"worker"}, health_port=0)
    try:
        url = process.context.part(HealthServer).url
        async with aiohttp.ClientSession(url) as http:
            answers = {path: await (await http.get(path)).text() for path in ("/healthz", "/readyz", "/metrics")}
            assert (await http.get("/api/v1/jobs")).status == 404
        assert '"ready"' in answers["/readyz"]
        assert "onceward_work_finished_total" in answers["/metrics"]
    finally:
        await process.stop()


async def test_a_worker_opens_no_port_by_default(database_url: str) -> None:
    process = await started(database_url, roles={"worker"})
    try:
        assert not any(isinstance(part, HealthServer) for part in process.context._parts.values())
    finally:
        await process.stop()

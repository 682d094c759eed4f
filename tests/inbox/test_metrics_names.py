"""What `/metrics` tells to everybody who reaches it: counts by id, never what an organization calls its sources."""

from __future__ import annotations

from onceward import Event, Onceward, Tx
from onceward.inbox.upkeep import Upkeep
from onceward.telemetry.metrics import REGISTRY, render
from onceward.testing import until
from tests.inbox.conftest import call


def shop() -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def complete(event: Event, tx: Tx) -> str:
        return "handled"

    return app


async def test_metrics_name_sources_by_id_only(office) -> None:
    here = await office(shop())
    webhook_id = await here.source("divorce-lawyers", provider="stripe")
    await here.start_worker()
    reply = await here.post(name="divorce-lawyers")
    await here.status(reply.json["id"], "success")
    assert (await call(here.inbox, "/webhooks/divorce-lawyers", b"{}", {"stripe-signature": "t=1,v1=00"})).status == 401
    assert (await call(here.inbox, "/webhooks/divorce-lawyer", b"{}", {})).status == 404
    await here.db.execute(
        "insert into onceward.webhook_counts values ('replay', $1, 'stripe', 'key:divorce desk')", webhook_id
    )
    await Upkeep(here.db, here.inbox.catalog, here.engine.waker).count()

    async def counted() -> bool:
        replays = {"webhook_id": str(webhook_id), "operator": "key"}
        return REGISTRY.get_sample_value("onceward_webhook_replay_total", replays) == 1

    await until(counted)
    labels = {"webhook_id": str(webhook_id), "provider": "stripe", "reason": "bad_signature"}
    assert REGISTRY.get_sample_value("onceward_webhook_rejected_total", labels) == 1
    assert "divorce" not in render()[0].decode()

"""Handlers with `as_job=True` run once per event, also where the main handler acts for an organization."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.testing import drain
from onceward.trust import create_organization
from tests.inbox.conftest import Office, office

__all__ = ["office"]

MakeOffice = Callable[[Onceward], Awaitable[Office]]


@pytest.fixture
async def organization(db: Database) -> UUID:
    async with db.transaction(role="engine") as tx:
        return (await create_organization(tx, "acme", actor="test")).organization_id


def shop(organization: UUID, calls: list[str], *, followers: bool = True, main_takes_tx: bool = True) -> Onceward:
    app = Onceward("followers")

    if main_takes_tx:

        @app.on("stripe", "charge.succeeded")
        async def complete(event: Event, tx: Tx) -> None:
            await tx.act_for(organization)
            calls.append("main")
    else:

        @app.on("stripe", "charge.succeeded")
        async def call_service(event: Event) -> None:
            calls.append("main")

    if followers:

        @app.on("stripe", "charge.succeeded", as_job=True)
        async def tell_crm(event: Event) -> None:
            calls.append(f"outside {event.event_id}")

        @app.on("stripe", "charge.succeeded", as_job=True)
        async def count(event: Event, tx: Tx) -> None:
            await tx.act_for(organization)
            calls.append(f"inside {event.event_id}")

    return app


@pytest.mark.parametrize("mode", ["ack", "inline"])
async def test_followers_run_once_on_a_platform_wide_source_whose_handler_acts_for_an_organization(
    office: MakeOffice, organization: UUID, mode: str
) -> None:
    calls: list[str] = []
    here = await office(shop(organization, calls))
    await here.source(mode=mode)
    assert (await here.post(fields={"id": "evt_1"})).status == 200
    await drain(here.engine)
    assert sorted(calls) == ["inside evt_1", "main", "outside evt_1"]
    assert await here.db.fetchval("select count(*) from onceward.jobs") == 2
    assert await here.db.fetchval("select count(*) from onceward.work") == 0  # no dead letters


@pytest.mark.parametrize("main_takes_tx", [True, False])
async def test_followers_unknown_to_the_node_that_received_the_event_run_once(
    office: MakeOffice, organization: UUID, main_takes_tx: bool
) -> None:
    web = await office(shop(organization, [], followers=False, main_takes_tx=main_takes_tx))
    await web.source()
    assert (await web.post(fields={"id": "evt_1"})).status == 200
    assert await web.db.fetchval("select count(*) from onceward.jobs") == 0
    calls: list[str] = []
    worker = await office(shop(organization, calls, main_takes_tx=main_takes_tx))
    await drain(worker.engine)
    assert sorted(calls) == ["inside evt_1", "main", "outside evt_1"]
    assert await web.db.fetchval("select count(*) from onceward.work") == 0

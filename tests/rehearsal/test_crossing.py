"""A member of an organization sees no value of another one, even if the handler acts for several."""

from __future__ import annotations

from typing import Any

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.lines import headline, lines
from onceward.rehearsal.preview import for_member
from onceward.rehearsal.wire import dump, load
from onceward.trust import create_organization
from tests.rehearsal import kiosk
from tests.rehearsal.test_rehearser import rehearse

SECRET = "their-secret"


def make_app(other: str) -> Onceward:
    app = Onceward("crossing")

    @app.job(name="within")
    async def within(tx: Tx) -> str:
        await tx.audit("note", entity_type="note", entity_id="ours")
        return "ours"

    @app.job(name="across", outside=True)
    async def across(job: Job, *, fails: bool) -> str:
        async with job.transaction() as tx:
            engine: Engine = tx.engine
        async with engine.transaction(organization=other) as tx:  # pyright: ignore[reportArgumentType]
            await tx.audit("note", entity_type="note", entity_id=SECRET, changes={"text": SECRET})
        if fails:
            raise KeyError(SECRET)
        return SECRET

    @app.job(name="reads_all", outside=True)
    async def reads_all(job: Job) -> str:
        async with job.transaction() as tx:
            engine: Engine = tx.engine
        return await engine.db.fetchval(f"select '{SECRET}'")

    return app


def everything_shown(one: Rehearsal) -> str:
    return f"{one.as_json()} {headline(one)} {list(lines(one.effects))}"


async def test_a_handler_that_acts_for_others_shows_their_values_to_nobody_but_the_instance(db: Database) -> None:
    _, ours = await kiosk.prepare(db, kiosk.make_app())
    async with db.transaction(role="engine") as tx:
        theirs = (await create_organization(tx, "theirs", actor="test")).organization_id
    app = make_app(theirs)  # pyright: ignore[reportArgumentType]
    engine = Engine(db, app.registry)

    async def enqueued(name: str, **given: Any) -> int:
        async with engine.transaction(organization=ours) as tx:
            return await tx.fetchval("select onceward.enqueue($1, $2::jsonb)", name, given)

    jobs = [await enqueued("within"), await enqueued("across", fails=False), await enqueued("across", fails=True)]
    shown = [load(dump(one)) for one in await rehearse(engine, *jobs, await enqueued("reads_all"))]

    assert [(one.state, one.crosses) for one in shown] == [
        ("caused", False),
        ("caused", True),
        ("failed", True),
        ("nothing", True),
    ]
    assert all(SECRET in everything_shown(one) for one in shown[1:])
    members = [for_member(one) for one in shown]
    assert not any(SECRET in everything_shown(one) for one in members)
    within, across, failed, _ = members
    assert within.effects.audit[0].entity_id == "ours"
    assert headline(across) == "would cause 1 effect, 1 not shown, because it acts for several organizations"
    assert headline(failed).startswith("would fail: KeyError: (it acts for several organizations) (test_crossing.py:")

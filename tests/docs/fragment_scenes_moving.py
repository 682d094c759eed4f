"""One scene for each fragment of the pages for people who come from another program."""

from __future__ import annotations

from onceward.testing import assert_published, drain
from tests.docs.fragment_world import World, scene


@scene("docs/coming-from-celery.md", "# Celery")
@scene("docs/coming-from-rq.md", "# RQ")
@scene("docs/coming-from-dramatiq.md", "# Dramatiq")
@scene("docs/coming-from-temporal.md", "# Temporal")
async def code_of_another_program_is_only_shown(world: World) -> None:
    assert "label" in world.block.code  # it compiles, and nothing of ours is in it
    assert "onceward" not in world.block.code


@scene("docs/coming-from-celery.md", "# Onceward")
@scene("docs/coming-from-rq.md", "# Onceward")
@scene("docs/coming-from-dramatiq.md", "# Onceward")
async def the_same_task_as_a_job(world: World) -> None:
    label = world.job("label")
    names = await world.run(label=label)
    await world.engine.enqueue(names["pack"], order_id=1)
    await drain(world.engine)
    assert await world.db.fetchval("select packed from orders where id = 1")
    assert await world.db.fetchval("select count(*) from onceward.jobs where task = 'label'") == 1


@scene("docs/coming-from-temporal.md", "# Onceward")
async def the_same_workflow_with_recorded_steps(world: World) -> None:
    names = await world.run()
    started = await world.engine.start_workflow(names["ship"], order_id=1)
    await drain(world.engine)
    assert (await world.engine.wait(started)).outcome == "success"
    assert await world.db.fetchval("select packed from orders where id = 1")
    assert await world.db.fetchval("select count(*) from parcels where order_id = 1") == 1


@scene("docs/coming-from-svix.md", "tx.publish")
async def an_event_is_published_with_the_change(world: World) -> None:
    customer = await world.db.fetchval(
        "insert into onceward.organizations (slug, name) values ('acme', 'Acme') returning organization_id"
    )
    await world.run(customer=customer, order=1)
    await assert_published(world.engine, "order.paid", data={"order": 1}, count=1)

"""One scene for each fragment of the pages about running, calling and testing: services, work, workflows, testing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from onceward import Event, Tx, Workflow
from onceward.services import Accepted, ChatMessage, JsonSchema, Refused
from onceward.settings import Settings
from onceward.testing import TestInbox, assert_enqueued, assert_sent, crash_test, drain
from onceward.testing.simulators import Simulators
from tests.docs.fragment_scenes import Parcel
from tests.docs.fragment_world import World, scene


class CallingJob:
    """The part of a job that the fragments about services use."""

    organization: UUID | None = None

    def key(self, name: str) -> str:
        return f"job-1/{name}"


class Outline(BaseModel):
    title: str


class Payment(BaseModel):
    order: str
    email: str


@scene("docs/other-languages.md", "@app.job(external=True")
async def a_job_of_another_language_waits_in_its_own_queue(world: World) -> None:
    names = await world.run()
    job = await world.engine.enqueue(names["resize"], image="a.png")
    assert await world.db.fetchval("select queue from onceward.work where id = $1", job.id) == "external:resize"


@scene("docs/services.md", "create_refund")
async def a_refund_has_an_outcome(world: World) -> None:
    async with Simulators() as sims:
        world.app.services.configure(Settings(simulators={"stripe": sims.stripe.url}))
        names = await world.run(job=CallingJob(), Accepted=Accepted, Refused=Refused)
        await world.app.services.aclose()
    assert isinstance(names["outcome"], Refused)  # the service has no such payment
    assert names["reason"]


@scene("docs/services.md", "chat.stream(")
async def a_model_answers_whole_and_in_parts(world: World) -> None:
    async with Simulators() as sims:
        sims.openai.answer_with('{"title": "Fish"}', "Fish swim.")
        settings = Settings(simulators={"openai": sims.openai.base_url})
        world.app.services.configure(settings)
        names = await world.run(job=CallingJob(), JsonSchema=JsonSchema, ChatMessage=ChatMessage, Outline=Outline)
        await world.app.services.aclose()
    assert names["outline"] == Outline(title="Fish")
    assert names["text"].endswith(".")
    assert names["usage"]


@scene("docs/services.md", "async with Simulators()")
async def simulators_can_fail(world: World) -> None:
    @asynccontextmanager
    async def with_a_delivery() -> AsyncIterator[Simulators]:
        async with Simulators() as sims:
            sims.stripe.webhooks.send(f"{sims.customer.url}/hook", b"{}", lambda _: {})
            yield sims

    names = await world.run(Simulators=with_a_delivery, Settings=Settings)
    assert len(names["sims"].stripe.webhooks.deliveries) == 2


@scene("docs/testing.md", "test_a_payment_creates_an_order")
async def the_first_test_of_an_app_passes(world: World) -> None:
    @world.app.job
    async def pack(tx: Tx, *, order: str) -> None:
        """Do nothing."""

    @world.app.on("shop-payments", "payment.received")
    async def receive(event: Event[Payment], tx: Tx) -> None:
        await tx.enqueue(pack, order=event.data.order)
        await tx.send("order-received", to=event.data.email, key="received", data={})

    names = await world.run(
        drain=drain,
        assert_enqueued=assert_enqueued,
        assert_sent=assert_sent,
        pack=pack,
        PAYMENT={"type": "payment.received", "data": {"order": "o-1", "email": "ada@example.com"}},
    )
    async with TestInbox(world.engine, world.app) as inbox:
        await names["test_a_payment_creates_an_order"](world.engine, inbox)


def with_place_order(world: World) -> Any:
    """Return the job of the README that the page about testing uses."""
    pack = world.job("pack")

    @world.app.job
    async def place_order(tx: Tx, *, order: int, amount: int) -> None:
        await tx.execute("insert into orders (id, amount, packed) values ($1, $2, false)", order, amount)
        await tx.enqueue(pack, order=order)

    return place_order


@scene("docs/testing.md", "test_an_order_survives_every_crash")
async def the_crash_test_passes(world: World) -> None:
    await world.db.execute("truncate orders")
    names = await world.run(crash_test=crash_test, place_order=with_place_order(world))
    await names["test_an_order_survives_every_crash"](world.db)


@scene("docs/testing.md", "# shop/stalls.py")
async def the_scenario_of_a_stall_test_runs(world: World) -> None:
    await world.db.execute("truncate orders")
    names = await world.run(place_order=with_place_order(world))
    assert names["order"]
    await names["arrange"](world.engine)
    await drain(world.engine)
    assert [row["id"] for row in await names["observe"](world.engine)] == [1]
    await names["reset"](world.engine)
    assert await names["observe"](world.engine) == []


@scene("docs/testing.md", "test_an_order_survives_every_stall")
async def the_stall_test_names_its_scenario(world: World) -> None:
    """The tests below tests/stalls freeze processes; here it only matters that the call of the page fits the function."""
    import inspect

    from onceward.testing import stall_test

    calls: list[inspect.BoundArguments] = []

    async def record(*args: Any, **kwargs: Any) -> None:
        calls.append(inspect.signature(stall_test).bind(*args, **kwargs))

    names = await world.run(stall_test=record)
    await names["test_an_order_survives_every_stall"](world.database_url)
    assert calls[0].args[0] == "shop.stalls:order"


@scene("docs/work.md", "session_of(tx)")
async def a_job_uses_a_session(world: World) -> None:
    names = await world.run(Parcel=Parcel, label=world.job("label"))
    await world.engine.enqueue(names["ship"], order_id=1)
    await drain(world.engine)
    assert await world.db.fetchval("select order_id from parcels") == 1
    assert await world.db.fetchval("select count(*) from onceward.jobs where task = 'label'") == 1


@scene("docs/work.md", "@pack.on_end")
async def a_hook_sees_the_end_of_a_job(world: World) -> None:
    pack = world.job("pack")
    await world.run(pack=pack)
    job = await world.engine.enqueue(pack)
    await world.db.execute("insert into slots values ($1, false)", job.id)
    await drain(world.engine)
    assert await world.db.fetchval("select free from slots where job = $1", job.id)


@scene("docs/workflows.md", "wf.patched(")
async def a_patched_workflow_runs_the_new_step(world: World) -> None:
    mailed: list[int] = []

    async def mail_receipt(trip_id: int) -> None:
        mailed.append(trip_id)

    run: Callable[..., Any] = world.run

    @world.app.workflow
    async def book_trip(wf: Workflow, *, trip_id: int) -> None:
        await run(wf=wf, trip_id=trip_id, mail_receipt=mail_receipt)

    await world.engine.start_workflow(book_trip, trip_id=7)
    await drain(world.engine)
    assert mailed == [7]

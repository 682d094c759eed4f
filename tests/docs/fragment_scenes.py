"""One scene for each fragment of the pages about what an app causes: it executes the fragment, and looks at what it did."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from asyncpg import Record
from pydantic import BaseModel, SecretStr
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from onceward import Run
from onceward.capacity import open_pool
from onceward.feature import WORKER, Feature, Part, Traced
from onceward.ledger import open_account
from onceward.limits import Rate
from onceward.messages import (
    Attachment,
    DeliveryReport,
    TooManyMails,
    limit_public_mail,
    preference_link,
    revoke_preference_links,
)
from onceward.messages.message_queue import Sending
from onceward.outbox import catalogue
from onceward.settings import FeatureSettings, Settings
from onceward.testing import assert_broadcast, assert_enqueued, assert_published, assert_sent, drain
from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender
from tests.docs.fragment_world import World, scene

TOMORROW = datetime.now(UTC) + timedelta(days=1)


class Metadata(BaseModel):
    order: int = 1


class Charge(BaseModel):
    id: str
    metadata: Metadata
    receipt_email: str = "ada@example.com"


CHARGE = {"data.object.metadata": {"order": 1}, "data.object.receipt_email": "ada@example.com"}


@scene("README.md", 'await tx.send("receipt"')
async def a_charge_causes_everything_the_readme_names(world: World) -> None:
    pack = world.job("pack")
    await world.run(Charge=Charge, pack=pack)
    async with world.inbox("stripe") as inbox:
        answer = await inbox.trigger("charge.succeeded", source="stripe", **CHARGE)
        assert answer.status == 200
    await drain(world.engine, "events")
    assert await world.db.fetchval("select paid from orders where id = 1")
    await assert_enqueued(world.engine, pack, order=1)
    await assert_sent(world.engine, "receipt", count=1)
    await assert_published(world.engine, "order.paid", data={"order": 1})
    await assert_broadcast(world.engine, "orders/all", payload={"order": 1, "state": "paid"})


@scene("docs/capacity.md", "open_pool(tx")
async def capacity_is_claimed_extended_sold_and_released(world: World) -> None:
    school = await world.organization()
    async with world.engine.transaction(organization=school) as tx:
        await open_pool(tx, "parking:7", capacity=1)
    names = await world.run_in_tx(school)
    assert len(names["held"].ids) == 3
    assert (
        await world.db.fetchval(
            "select count(*) from onceward.capacity_claims where holder = 'checkout:88' and state in ('held', 'sold')"
        )
        == 0
    )


@scene("docs/features.md", "FEATURE = Feature(")
async def a_feature_is_declared(world: World) -> None:
    class ParcelSettings(FeatureSettings):
        """No fields: the page is about the declaration."""

    names = await world.run(
        Feature=Feature,
        Part=Part,
        Traced=Traced,
        WORKER=WORKER,
        ParcelSettings=ParcelSettings,
        Path=Path,
        __file__=__file__,
    )
    assert names["FEATURE"].name == "parcels"


@scene("docs/frameworks/django.md", "transaction.atomic")
async def django_enqueues(world: World) -> None:
    """Django has one configuration per process: examples/django_app runs these lines in a process of its own."""
    example = (world.root / "examples" / "django_app" / "orders.py").read_text()
    for line in ("cursor.execute(text, parameters)", "@transaction.atomic", "return enqueue(pack.call(order=order))"):
        assert line in world.block.code
        assert line in example


@scene("docs/frameworks/fastapi.md", "Mounted(app)")
async def a_fastapi_application_mounts_onceward(world: World) -> None:
    from httpx import ASGITransport, AsyncClient

    shop = ModuleType("shop")
    shop.__dict__.update(app=world.app, pack=world.job("pack"))
    sys.modules["shop"] = shop
    try:
        names = await world.run()
    finally:
        del sys.modules["shop"]
    api, mounted = names["api"], names["mounted"]
    mounted._settings = Settings(database_url=SecretStr(world.database_url), pool_max=6)
    async with (
        api.router.lifespan_context(api),
        AsyncClient(transport=ASGITransport(api), base_url="http://shop") as client,
    ):
        answer = await client.post("/orders/7")
    assert answer.status_code == 200
    assert await world.db.fetchval("select task from onceward.jobs where id = $1", answer.json()["job"]) == "pack"


@scene("docs/frameworks/psycopg.md", "psycopg.connect")
async def psycopg_enqueues_in_its_own_transaction(world: World) -> None:
    names = await world.run(pack=world.job("pack"), url=world.database_url)
    assert names["duplicate"] is False
    assert await world.db.fetchval("select count(*) from orders where id = 7") == 1
    assert await world.db.fetchval("select task from onceward.jobs where id = $1", names["job_id"]) == "pack"


class Base(DeclarativeBase):
    """The registry of the classes below."""


class Order(Base):
    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)


class Parcel(Base):
    __tablename__ = "parcels"
    id: Mapped[int] = mapped_column(primary_key=True)
    order_id: Mapped[int]


@scene("docs/frameworks/sqlalchemy.md", "with Session(engine)")
async def a_session_of_sqlalchemy_enqueues_and_publishes(world: World) -> None:
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    async with world.db.acquire() as conn:
        await catalogue.save(conn, [catalogue.EventType("order.placed")])
    theirs = create_engine(world.database_url.replace("postgresql://", "postgresql+psycopg://", 1))
    await world.run(engine=theirs, Session=Session, Order=Order, pack=world.job("pack"))
    theirs.dispose()
    assert await world.db.fetchval("select count(*) from orders where id = 7") == 1
    assert await world.db.fetchval("select count(*) from onceward.jobs where task = 'pack'") == 1
    await assert_published(world.engine, "order.placed", data={"order": 7})


@scene("docs/frameworks/sqlalchemy.md", "session_of(tx)")
async def a_session_in_our_transaction(world: World) -> None:
    await world.run(Order=Order, pack=world.job("pack"), customer="ada@example.com")
    assert await world.db.fetchval("select count(*) from orders where id = 7") == 1
    await assert_sent(world.engine, "receipt", to="ada@example.com", count=1)


@scene("docs/integrations/README.md", "Event[Charge]")
async def a_charge_is_validated_as_the_model_of_its_sender(world: World) -> None:
    await world.db.execute(
        "alter table orders add payment text, add paid_cents int; update orders set payment = 'pi_1' where id = 1"
    )
    await world.run()
    charge = {"data.object.payment_intent": "pi_1", "data.object.amount": 4200}
    async with world.inbox("stripe") as inbox:
        answer = await inbox.trigger("charge.succeeded", source="stripe", **charge)
        assert answer.status == 200
    await drain(world.engine, "events")
    assert await world.db.fetchval("select paid_cents from orders where id = 1") == 4200


@scene("docs/ledger.md", "open_account(tx")
async def a_sale_is_posted_and_reversed(world: World) -> None:
    school = await world.organization()
    async with world.engine.transaction(organization=school) as tx:
        await open_account(tx, "tax", currency="EUR", kind="liability")
    await world.run_in_tx(school)
    assert await world.db.fetchval("select count(*) from onceward.ledger_journals") == 2


@scene("docs/limits.md", "tx.reserve(job")
async def a_slot_is_reserved_with_the_job(world: World) -> None:
    names = await world.run(generate=world.job("generate"), order=1, user=7)
    assert await world.db.fetchval("select count(*) from onceward.limit_slots where work_id = $1", names["job"].id) == 2


@scene("docs/limits.md", "Rate(60")
async def a_rate_is_taken(world: World) -> None:
    names = await world.run(Rate=Rate, event=7, client="10.0.0.1")
    assert names["wait_s"] == 0


@scene("docs/live.md", "app.topic(")
async def a_message_goes_to_a_topic(world: World) -> None:
    await world.run_in_tx(cohort_id=7)
    await assert_broadcast(world.engine, "cohort/7/enrollments", payload={"enrolled": 12})


@scene("docs/live.md", "tx.version()")
async def a_write_has_a_version(world: World) -> None:
    school = await world.db.fetchval(
        "insert into onceward.organizations (slug, name) values ('school', 'School') returning organization_id"
    )
    names = await world.run(school=school)
    assert names["version"]


@scene("docs/messages.md", "tx.send_many")
async def messages_are_queued_and_cancelled(world: World) -> None:
    async with world.engine.transaction() as tx:
        await tx.send("receipt", to="+15005550006", key="user-42:goodbye", channel="sms", not_before=TOMORROW)
    readers = ["ada@example.com", "bob@example.com"]
    await world.run_in_tx(user="ada@example.com", checkout="c-1", tomorrow=TOMORROW, Sending=Sending, readers=readers)
    await assert_sent(world.engine, "order-confirmation", key="c-1:confirmation", count=1)
    await assert_sent(world.engine, "reminder", channel="sms", count=1)
    await assert_sent(world.engine, "newsletter", count=2)
    assert await world.db.fetchval("select status from onceward.messages where key = 'user-42:goodbye'") == "cancelled"


@scene("docs/messages.md", "expires_at=starts_at")
async def messages_have_deadlines(world: World) -> None:
    given = {"patient": "ada@example.com", "appointment": "a-1", "starts_at": TOMORROW, "timedelta": timedelta}
    await world.run_in_tx(**given, email="ada@example.com", token_id=7)
    rows = await world.db.fetch("select key, expires_at is not null as ends from onceward.messages order by key")
    assert [tuple(row) for row in rows] == [("a-1:1h", True), ("sign-in:7", True)]


@scene("docs/messages.md", "Attachment(path")
async def a_mail_carries_files(world: World) -> None:
    world.app.services.configure(Settings(data_dir=world.folder))
    await world.app.services.files.put("brand/logo.png", b"logo", content_type="image/png")
    await world.run_in_tx(pdf=b"%PDF", email="ada@example.com", id=7, Attachment=Attachment)
    await assert_sent(world.engine, "order-confirmation", key="order:7", count=1)


@scene("docs/messages.md", "preference_link(")
async def a_recipient_gets_a_link_that_is_revoked(world: World) -> None:
    names = {"preference_link": preference_link, "revoke_preference_links": revoke_preference_links}
    await world.run_in_tx(public_url="https://shop.example.org", **names)
    await assert_sent(world.engine, "newsletter", key="june", count=1)
    assert await world.db.fetchval("select revoked_at is not null from onceward.preference_links")


@scene("docs/messages.md", "limit_public_mail(")
async def a_form_without_a_login_sends_few_mails(world: World) -> None:
    form = SimpleNamespace(name="Ada https://example.com", email="ada@example.com")
    names = await world.run(form=form, engine=world.engine, client_of=lambda _: "192.0.2.1", request=None, order_id=1)
    assert names["name"] == "Ada"
    with pytest.raises(TooManyMails):
        for _ in range(10):
            await limit_public_mail(world.db, to="ada@example.com", client="192.0.2.1")


@scene("docs/messages.md", "@app.on_message")
async def a_delivery_report_reaches_its_hook(world: World) -> None:
    names = await world.run(DeliveryReport=DeliveryReport)
    await world.db.execute("update orders set message_key = 'order:1'")
    async with world.engine.transaction() as tx:
        await names["delivered"](tx, SimpleNamespace(key="order:1"))
    assert await world.db.fetchval("select confirmed_at from orders where id = 1")


@scene("docs/outbox.md", "app.event_type(")
async def a_handler_publishes(world: World) -> None:
    class OrderPaid(BaseModel):
        orderId: str
        amount: int

    await world.run(Charge=Charge, OrderPaid=OrderPaid)
    async with world.inbox("stripe") as inbox:
        await inbox.trigger("charge.succeeded", source="stripe", **CHARGE)
    await drain(world.engine, "events")
    await assert_published(world.engine, "order.paid", data={"orderId": "o1", "amount": 4200}, count=1)


@scene("docs/writing-an-integration.md", "SENDER = Sender(")
async def a_sender_is_data(world: World) -> None:
    names = await world.run(Sender=Sender, Hmac=Hmac, Events=Events)
    assert names["SENDER"].title == "CircleCI"


@scene("docs/schedules.md", "run.each_batch")
async def a_schedule_works_in_batches(world: World) -> None:
    await world.db.execute("insert into enrolments (id, extended) values (1, false), (2, true)")

    async def pages_of_enrolments(run: Run) -> AsyncIterator[list[Record]]:
        yield await run.fetch("select id from enrolments where not expired")

    names = await world.run(pages_of_enrolments=pages_of_enrolments)
    async with world.engine.transaction() as tx:
        rows = await tx.fetch("select id from enrolments")
        result = await names["expire_many"](rows, tx)
    assert set(result.skipped) == {2}
    assert await world.db.fetchval("select array_agg(id) from enrolments where expired") == [1]
    assert "expire_access" in world.app.schedules

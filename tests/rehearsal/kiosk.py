"""A small shop for the tests of rehearsals: an event and jobs that cause everything which a rehearsal shows."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import Any, Literal
from uuid import UUID, uuid4
from weakref import WeakKeyDictionary

from onceward import Engine, Event, Job, Onceward, Permanent, Snooze, Tx, capacity, ledger
from onceward.capacity import Want
from onceward.db import Database
from onceward.http import ServiceClient
from onceward.ledger import Entry
from onceward.trust import create_organization
from onceward.work import JobTask

TABLES = """
create schema kiosk;
create table kiosk.orders (id uuid primary key, organization_id uuid, number text not null unique, state text not null,
    amount int not null, at timestamptz not null default now());
create table kiosk.lines (id bigint generated always as identity primary key, order_id uuid not null references kiosk.orders,
    what text not null, quantity int not null);
create table kiosk.log (line text not null);
create table kiosk.seats (seat text primary key, taken_by text, deferred_to text references kiosk.seats deferrable initially deferred);
grant usage on schema kiosk to onceward_app;
grant select, insert, update, delete on all tables in schema kiosk to onceward_app;
insert into kiosk.seats select 'A' || n from generate_series(1, 5) n;
insert into kiosk.log values ('opened'), ('cleaned');
"""
PAID = "order.paid"
VISIT = "visit.noted"
ORDER = {"number": "K-7", "amount": 1200, "seat": "A1"}
committed: list[str] = []
"""What calls of `after_commit` have noted: a rehearsal must leave it empty."""


Mistake = Literal["no mail", "amount", "one more row", "exception", "random"]


def make_app(mistake: Mistake | None = None) -> Onceward:
    """Return the shop, perhaps with a mistake in the handler of visits."""
    app = Onceward("kiosk")
    app.topic("kiosk/{number}")
    app.templates(Path(__file__).parent / "templates")
    app.event_type("order.paid", sample={"number": "K-1"})

    @app.job
    async def pack(tx: Tx, *, number: str) -> str:
        await tx.execute("update kiosk.orders set state = 'packed' where number = $1", number)
        return "packed"

    @app.on("sql", PAID)
    async def paid(event: Event[Any], tx: Tx) -> dict[str, Any]:
        data = event.data
        order = uuid4()
        await tx.execute(
            "insert into kiosk.orders (id, organization_id, number, state, amount) values ($1, $2, $3, 'paid', $4)",
            order,
            tx.organization,
            data["number"],
            data["amount"],
        )
        await tx.execute("insert into kiosk.lines (order_id, what, quantity) values ($1, 'seat', 2)", order)
        await tx.execute("update kiosk.seats set taken_by = $2 where seat = $1", data["seat"], data["number"])
        await tx.execute("update kiosk.seats set taken_by = taken_by where seat = 'A5'")
        await tx.execute("delete from kiosk.log where line = 'cleaned'")
        await tx.enqueue(pack.unique(f"pack:{data['number']}").schedule_in(hours=2), number=data["number"])
        await tx.send(
            "kiosk-receipt",
            to={"email": "maria@example.com"},
            key=f"receipt:{data['number']}",
            data={"number": data["number"]},
            channel="email",
        )
        await tx.publish("order.paid", {"number": data["number"]}, key=data["number"])
        await tx.post([Entry("cash", "sales", data["amount"], "EUR")])
        await tx.broadcast(f"kiosk/{data['number']}", {"state": "paid"})
        await tx.audit("order.paid", entity_type="order", entity_id=data["number"], changes={"state": "paid"})
        await capacity.claim(tx, [Want("hall", 2)], holder=data["number"], until=None)
        tx.after_commit(lambda: committed.append(data["number"]))
        return {"order": data["number"]}

    @app.on("sql", VISIT)
    async def visited(event: Event[Any], tx: Tx) -> dict[str, Any]:
        """Handle a visit again as often as you like: every effect has a key."""
        number = event.data["number"]
        if mistake == "exception":
            raise KeyError("entrance")
        if mistake != "no mail":
            data = {"number": number}
            await tx.send("kiosk-receipt", to="guest:1", key=f"visit:{number}", data=data, channel="email")
        await tx.post([Entry("cash", "sales", 501 if mistake == "amount" else 500, "EUR")], key=f"visit:{number}")
        for _ in range(2 if mistake == "one more row" else 1):
            await tx.audit("visit.noted", entity_type="visit", entity_id=number, changes={"token": str(uuid4())})
        await tx.enqueue(pack.unique(f"visit:{number}", forever=True), number=number)
        return {"visit": number, "kiosk": UUID(int=7), "seats": ("A1", "A2")}

    @app.job(name="refund", outside=True)
    async def refund(job: Job, *, number: str) -> None:
        async with job.transaction() as tx:
            await tx.execute("update kiosk.orders set state = 'refunding' where number = $1", number)
        async with ServiceClient() as client:
            key = {"Idempotency-Key": job.key("refund")}
            await client.request("POST", "https://pay.example/v1/refunds?card=42", headers=key)

    @app.job(name="old_library", outside=True)
    def old_library() -> None:
        urllib.request.urlopen("http://127.0.0.1:9/never")

    @app.job(name="commits")
    async def commits(tx: Tx) -> None:
        await tx.execute("insert into kiosk.log values ('mine')")
        await tx.execute("commit")

    @app.job(name="breaks")
    async def breaks(tx: Tx, *, how: str) -> None:
        await tx.execute("insert into kiosk.log values ('mine')")
        if how == "permanent":
            raise Permanent("the hall is closed")
        if how == "snooze":
            raise Snooze(5)
        if how == "deferred":
            await tx.execute("update kiosk.seats set deferred_to = 'Z9' where seat = 'A1'")
        if how == "savepoint":
            async with tx.savepoint("kept"):
                await tx.execute("insert into kiosk.log values ('kept')")
            try:
                async with tx.savepoint("undone"):
                    await tx.execute("insert into kiosk.log values ('undone')")
                    raise KeyError("undo")
            except KeyError:
                await tx.execute("update kiosk.seats set taken_by = 'me' where seat = 'A2'")

    @app.job(name="alone")
    async def alone(job: Job) -> None:
        """Use the engine in every way that a job without `tx` can."""
        async with job.transaction() as tx:
            await tx.execute("insert into kiosk.log values ('one')")
            engine: Engine = tx.engine
        await engine.enqueue(pack, number="K-1")
        async with engine.transaction() as tx:
            await tx.execute("insert into kiosk.log values ('two')")
        await engine.db.execute("insert into kiosk.log values ('three')")

    JOBS[app] = {"pack": pack}
    return app


JOBS: WeakKeyDictionary[Onceward, dict[str, JobTask[..., Any]]] = WeakKeyDictionary()


def job_of(app: Onceward, name: str) -> JobTask[..., Any]:
    return JOBS[app][name]


async def prepare(db: Database, app: Onceward) -> tuple[Engine, UUID]:
    """Create the tables, an organization with its accounts and pool. Return the engine and the organization."""
    async with db.acquire() as conn:
        await conn.execute("reset role")
        await conn.execute(TABLES)
    engine = Engine(db, app.registry, event_types=app.event_types)
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, "kiosk", actor="operator:test")).organization_id
    async with engine.transaction(organization=organization) as tx:
        await ledger.open_account(tx, "cash", kind="asset", currency="EUR")
        await ledger.open_account(tx, "sales", kind="revenue", currency="EUR")
        await capacity.open_pool(tx, "hall", capacity=10)
    return engine, organization


async def arrive(
    db: Database, organization: UUID, payload: dict[str, Any] = ORDER, *, event_id: str = "evt_1", type: str = PAID
) -> int:
    """Store an event that waits for its handler."""
    seq = await db.fetchval(
        "insert into onceward.webhook_events (event_id, organization_id, provider, type, payload)"
        " values ($1, $2, 'kiosk', $3, $4) returning seq",
        event_id,
        organization,
        type,
        payload,
    )
    await db.execute(
        "update onceward.work set queue = 'events' where id = $1", seq
    )  # no worker has announced its tasks
    return seq

"""A small shop with something of everything: what the dashboard's tests and its screenshots look at."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from pydantic import SecretStr

from onceward import Event, Job, Onceward, Tx, Workflow
from onceward.db import Database
from onceward.inbox.sources import NewSource, add
from onceward.ledger import Entry, open_account
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.schedules import Run
from onceward.settings import load_settings
from onceward.trust import create_organization
from onceward.trust.organizations import set_member
from onceward.trust.secrets import secret_box
from onceward.trust.sessions import create_link, link_for


class CardTerminalOffline(Exception):
    """What goes wrong in this shop."""


@dataclass
class Weather:
    """What the outside is like at the moment; tests change it."""

    crm_works: bool = True
    seen: list[int] = field(default_factory=list[int])


def shop(weather: Weather) -> Onceward:
    app = Onceward("shop")

    @app.job(max_attempts=2, retry=[0.05])
    async def update_crm(job: Job, *, order: str) -> dict[str, Any]:
        weather.seen.append(job.id)
        if not weather.crm_works:
            raise CardTerminalOffline(f"503 from the CRM for order {order}: service unavailable")
        return {"contact": f"c-{order}"}

    @app.job
    async def render_ticket(job: Job, tx: Tx, *, order: str, seat: str) -> dict[str, str]:
        await tx.audit("ticket.issued", entity_type="ticket", entity_id=f"{order}-{seat}")
        return {"file": f"tickets/{order}-{seat}.pdf"}

    @app.job
    async def issue_tickets(job: Job, tx: Tx, *, order: str, seats: list[str]) -> None:
        for seat in seats:
            await tx.enqueue(render_ticket, order=order, seat=seat)

    @app.job
    async def slow_report(job: Job) -> None:
        await asyncio.sleep(0.2)

    async def greet(order: str) -> str:
        return f"welcome, {order}"

    async def ask_opinion(order: str) -> str:
        return "asked"

    @app.workflow
    async def after_sale(wf: Workflow, *, order: str) -> str:
        await wf.step(greet, order)
        await wf.sleep(86400)
        return await wf.step(ask_opinion, order)

    @app.on("generic", "order.paid")
    async def order_paid(event: Event[dict[str, Any]], tx: Tx) -> dict[str, Any]:
        order, seats = event.data["order"], event.data.get("seats", [])
        await tx.enqueue(issue_tickets, order=order, seats=seats)
        await tx.enqueue(update_crm, order=order)
        if tx.organization is not None:
            for code, kind in (("cash", "asset"), ("revenue", "revenue"), ("fees", "expense")):
                await open_account(tx, code, currency="EUR", kind=kind)  # type: ignore[arg-type]
            amount = event.data.get("amount", 4200)
            await tx.post(
                [
                    Entry(debit="cash", credit="revenue", amount=amount, currency="EUR"),
                    Entry(debit="fees", credit="cash", amount=amount // 20, currency="EUR"),
                ],
                memo=f"Order {order}",
            )
        await tx.start_workflow(after_sale, order=order)
        await tx.broadcast(f"orders/{order}", {"paid": True})
        return {"tickets": len(seats)}

    @app.cron("*/5 * * * *")
    async def expire_holds(run: Run) -> None:
        """Frees seats that nobody paid for."""

    @app.cron("0 2 * * *", tz="Europe/Berlin")
    async def nightly_books(run: Run) -> None:
        """Closes the day."""

    app.topic("orders/{id}")
    return app


@dataclass
class World:
    """A running shop, two organizations, and people who look at it."""

    runtime: Process
    weather: Weather
    acme: UUID
    bolt: UUID

    @property
    def url(self) -> str:
        assert self.runtime.web is not None
        return self.runtime.web.url

    async def login(self, email: str) -> str:
        """A link that logs this person in."""
        async with self.runtime.database.transaction(role="engine") as tx:
            return f"{self.url}/login?token={await link_for(tx, email, actor='test')}"

    async def pay(self, order: str, *, seats: int = 3, organization: UUID | None = None, source: str = "acme") -> int:
        """A paid order arrives: an event, as the inbox writes it."""
        payload = {
            "order": order,
            "seats": [f"A{n}" for n in range(1, seats + 1)],
            "amount": 4200,
            "api_key": "sk_live_hidden",
        }
        async with self.runtime.database.transaction(role="engine") as tx:
            webhook = await tx.fetchval("select webhook_id from onceward.sources where name = $1", source)
            seq: int = await tx.fetchval("select nextval('onceward.ids')")
            await tx.execute(
                "insert into onceward.webhook_events (seq, webhook_id, event_id, organization_id, provider, type, payload, raw,"
                " headers, origin) values ($1, $2, $3, $4, 'generic', 'order.paid', $5, $6, $7, 'http')",
                seq,
                webhook,
                f"evt_{order}",
                organization or self.acme,
                payload,
                orjson.dumps(payload),
                {"content-type": "application/json", "user-agent": "shop/1.4"},
            )
            await tx.execute(
                "insert into onceward.work (id, organization_id, kind, task, queue, sort_at)"
                " values ($1, $2, 'event', 'generic/order.paid', 'events', onceward.now())",
                seq,
                organization or self.acme,
            )
        assert self.runtime.engine is not None
        self.runtime.engine.waker.wake("events")
        return seq


async def open_shop(database_url: str | None, **settings: Any) -> World:
    """Start the shop on a database, with two organizations and their people."""
    weather = Weather()
    given = {} if database_url is None else {"database_url": SecretStr(database_url)}
    chosen = load_settings(FEATURES.settings, port=0, pool_max=10, poll_interval_ms=200, **given, **settings)
    runtime = Process(shop(weather), chosen, FEATURES)
    await runtime.start()
    async with runtime.database.transaction(role="engine") as tx:
        acme = (await create_organization(tx, "acme", name="Acme Tickets", actor="test")).organization_id
        bolt = (await create_organization(tx, "bolt", name="Bolt Arena", actor="test")).organization_id
        for organization, email, role in (
            (acme, "olga@acme.example", "owner"),
            (acme, "otto@acme.example", "operator"),
            (acme, "vera@acme.example", "viewer"),
            (bolt, "bert@bolt.example", "operator"),
        ):
            await set_member(tx, organization, email, role, actor="test")  # type: ignore[arg-type]
        root = await tx.fetchval(
            "insert into onceward.users (email, name, admin) values ('root@example.org', 'Ada Admin', true) returning user_id"
        )
        await create_link(tx, root, actor="test")
        for name, owner in (("acme", acme), ("bolt", bolt)):
            await add(
                tx,
                secret_box(chosen),
                NewSource(
                    name=name,
                    provider="generic",
                    secrets=("a-secret-of-the-tests-32-characters",),
                    options={"header": "x-signature", "type_field": "type", "id_field": "id"},
                    organization=owner,
                ),
                actor="test",
            )
    return World(runtime, weather, acme, bolt)


async def settled(db: Database, id: int, *, timeout_s: float = 20) -> str:
    """Wait until a piece of work has ended or is dead; its outcome."""
    async with asyncio.timeout(timeout_s):
        while True:
            row = await db.fetchrow("select dead_reason from onceward.work where id = $1", id)
            if row is not None and row["dead_reason"] is not None:
                return "dead_letter"
            if row is None:
                outcome = await db.fetchval(
                    "select outcome from onceward.attempts where work_id = $1 order by finished_at desc limit 1", id
                )
                if outcome is not None:
                    return str(outcome)
            await asyncio.sleep(0.02)

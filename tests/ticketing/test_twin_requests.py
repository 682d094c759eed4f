"""Twin requests to the ticket shop: at once they leave what one would. See `tests/twins.py`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest

from onceward.desk.actions import Load
from onceward.desk.form_changes import version
from onceward.schedules import pause
from onceward.testing import until
from onceward_apps.ticketing import app as ticketing
from onceward_apps.ticketing import checks
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.desk.coupons import limits_of
from onceward_apps.ticketing.desk.events import event_form, section_form
from onceward_apps.ticketing.desk.new_events import venue_form
from onceward_apps.ticketing.desk.orders import address_of
from onceward_apps.ticketing.desk.sale_setup import code_limits, type_form, window_form
from tests import twins
from tests.ticketing.test_http import PUBLIC, Shop, opened_shop
from tests.twins import TWINS, Case, Cases

DESK = "/dashboard/ticketing"
STAFF = "/api/v1/ticketing"
VALID = {
    "venues": "select count(*) from ticketing.venues",
    "events": "select count(*) from ticketing.events",
    "events on sale": "select count(*) from ticketing.events where status = 'on_sale'",
    "events cancelled": "select count(*) from ticketing.events where status = 'cancelled'",
    "sections": "select count(*) from ticketing.sections",
    "seats blocked": "select count(*) from ticketing.seats where status = 'blocked'",
    "coupons": "select count(*) from ticketing.coupons",
    "holds": "select count(*) from ticketing.seat_holds where status = 'active'",
    "places taken": "select count(*) from onceward.capacity_claims where state in ('held', 'sold')",
    "payable checkouts": "select count(*) from ticketing.checkouts where status in ('started', 'failed')",
    "payment pages": "select count(*) from onceward.payments where status in ('created', 'open') and superseded_at is null",
    "orders": "select count(*) from ticketing.checkouts where status = 'completed'",
    "tickets": "select count(*) from ticketing.tickets where status <> 'void'",
    "refunded": "select coalesce(sum(refunded_cents), 0) from ticketing.checkouts",
    "refunds": "select count(*) from onceward.payment_refunds",
    "payments": "select count(*) from onceward.payments where received > 0",
    "admitted": "select count(*) from ticketing.scans where outcome = 'admitted' and undone_at is null",
    "in the line": "select count(*) from ticketing.waitlist where status in ('waiting', 'offered')",
    "limited sections": "select count(*) from ticketing.sections where is_hidden or sale_until is not null",
    "ticket types": "select count(*) from ticketing.ticket_types",
    "types chosen": "select count(*) from ticketing.seat_holds where type_id is not null",
    "presale codes": "select count(*) from ticketing.access_codes",
    "questions": "select count(*) from ticketing.questions where ended_at is null",
    "transfers": "select count(*) from ticketing.transfers",
    "closed periods": "select count(*) from onceward.ledger_periods",
    "doors": "select count(*) from ticketing.doors where ended_at is null",
    "mails to buyers": "select count(*) from onceward.messages where template ~ '^(order|ticket|payment)-'",
    "published": "select count(*) from onceward.published",
}
EVERYTHING = {
    "checkouts": "select count(*) from ticketing.checkouts",
    "items": "select count(*) from ticketing.checkout_items",
    "tickets ever": "select count(*) from ticketing.tickets",
    "holds ever": "select count(*) from ticketing.seat_holds",
    "scans": "select count(*) from ticketing.scans",
    "audit": "select count(*) from onceward.audit_log where action <> 'organization.acted_for'",
    "repairs of refunds": "select count(*) from onceward.audit_log where action in ('refund_repeated', 'refund_settled')",
}


AUDIT_OF_WEBHOOKS = frozenset({"audit"})
"""Webhooks of the payment service about a failed refund arrive meanwhile, and are audited too."""


class Stage(twins.Stage):
    """A shop on a port, with what cases begin from."""

    valid = VALID
    everything = EVERYTHING

    def __init__(self, shop: Shop) -> None:
        super().__init__(shop.url, shop.runtime.database)
        self.shop = shop
        self.staff = {"authorization": f"Bearer {shop.key}"}

    async def event(self, **changes: Any) -> tuple[str, dict[str, str], list[str]]:
        """An event on sale: its id, its sections by name, the labels of its seats."""
        new = {**await self.new_event(), **changes}
        event = await self.shop.call(f"{STAFF}/events", new, staff=True)
        await self.shop.call(f"{STAFF}/events/{event['id']}/status", {"status": "on_sale"}, staff=True)
        shown = await self.shop.call(f"{PUBLIC}/events/{event['id']}")
        rows = [row for section in shown["sections"] for row in section["rows"]]
        seats = [f"{row['label']}{n + 1}" for row in rows for n in range(row["seats"])]
        return event["id"], {section["name"]: section["id"] for section in shown["sections"]}, seats

    async def pause_offers(self) -> bool:
        """Keep places that one case frees from being offered, and held, during another. False: no schedule is stored yet."""
        async with self.db.transaction(role="engine") as tx:
            return await pause(tx, "ticketing.offer_waitlist", by="test")

    async def form(self, load: Load, id: str) -> str:
        """The version of a form with the values of a row, as its page contains it."""
        organization = await self.db.fetchval("select organization_id from ticketing.venues limit 1")
        engine = self.shop.runtime.engine
        assert engine is not None
        async with engine.transaction(organization=organization) as tx:
            loaded = await load(tx, id)
        assert loaded is not None
        return version(loaded)

    async def new_event(self) -> dict[str, Any]:
        n = next(self.numbers)
        venue = await self.shop.call(f"{STAFF}/venues", {"name": f"Hall {n}"}, staff=True)
        starts = datetime.now(UTC) + timedelta(days=20)
        return {
            "venue_id": venue["id"],
            "name": f"Night {n}",
            "starts_at": starts.isoformat(),
            "ends_at": (starts + timedelta(hours=3)).isoformat(),
            "currency": "EUR",
            "sections": [
                {"name": "Stalls", "price_cents": 2500, "rows": {"A": 4}},
                {"name": "Lawn", "price_cents": 900, "places": 50},
                {"name": "Free", "price_cents": 0, "places": 50},
            ],
        }

    async def held(self, section: str = "Lawn", **changes: Any) -> tuple[str, str]:
        """An event and a basket that holds two places of it."""
        event_id, sections, _ = await self.event(**changes)
        basket = new_basket()
        places = {sections[section]: 2}
        await self.shop.call(f"{PUBLIC}/events/{event_id}/holds", {"places": places}, basket=basket)
        return event_id, basket

    async def checkout(self, section: str = "Lawn") -> Any:
        event_id, basket = await self.held(section)
        wanted = {"event_id": event_id, "email": f"buyer{next(self.numbers)}@example.org"}
        made = await self.shop.call(f"{PUBLIC}/checkouts", wanted, basket=basket)
        return {**made, "event_id": event_id}

    async def order(self, section: str = "Free") -> Any:
        """A completed order of two tickets, with `tickets`."""
        made = await self.checkout(section)
        await self.shop.call(f"{PUBLIC}/checkouts/{made['id']}/pay", {"token": made["token"]})
        db = self.shop.runtime.database
        if section != "Free":
            query = "select page from onceward.payments where subject_id = $1"
            self.shop.stripe.pay(await db.fetchval(query, str(made["id"])))
        done = "select status = 'completed' from ticketing.checkouts where id = $1"
        await until(lambda: db.fetchval(done, made["id"]))
        rows = await db.fetch("select id, ticket_code from ticketing.tickets where checkout_id = $1", made["id"])
        return {**made, "tickets": [dict(row) for row in rows]}


async def venue(stage: Stage) -> Case:
    name = f"Arena {next(stage.numbers)}"
    return Case(
        f"{STAFF}/venues", {"name": name}, [{"name": name, "address": f"{n} Quay"} for n in range(4)], stage.staff
    )


async def event(stage: Stage) -> Case:
    new = await stage.new_event()
    return Case(f"{STAFF}/events", new, [{**new, "tax_bps": n} for n in range(4)], stage.staff)


async def status(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return Case(f"{STAFF}/events/{event_id}/status", {"status": "closed"}, [{"status": "closed", "n": 1}], stage.staff)


async def cancel(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    reasons = [{"reason": f"storm {n}"} for n in range(4)]
    return Case(f"{STAFF}/events/{event_id}/cancel", {"reason": "storm"}, reasons, stage.staff)


async def block(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    body, other = {"labels": ["Stalls A1", "Stalls A2"]}, {"labels": ["Stalls A2", "Stalls A1"]}
    return Case(f"{STAFF}/events/{event_id}/block", body, [other], stage.staff)


async def unblock(stage: Stage) -> Case:
    case = await block(stage)
    assert await stage.send(case, case.body, method="POST") == 204
    return Case(case.path.replace("/block", "/unblock"), case.body, case.nearly, stage.staff)


async def coupon(stage: Stage) -> Case:
    code = f"CODE{next(stage.numbers)}"
    others = [{"code": code.lower(), "percent_bps": 100 * n} for n in range(1, 5)]
    return Case(f"{STAFF}/coupons", {"code": code, "percent_bps": 1000}, others, stage.staff)


async def refund(stage: Stage) -> Case:
    order = await stage.order("Lawn")
    tickets = [ticket["id"] for ticket in order["tickets"]]
    others = [{"reason": "ill", "tickets": [str(each) for each in tickets]}, {"reason": "ill again"}]
    return Case(f"{STAFF}/orders/{order['id']}/refund", {"reason": "ill"}, others, stage.staff)


async def failed_refund(stage: Stage) -> str:
    """A refund that the payment service could not make."""
    order = await stage.order("Lawn")
    stage.shop.stripe.books.next_refund_statuses.append("failed")
    await stage.shop.call(f"{STAFF}/orders/{order['id']}/refund", {"reason": "ill"}, staff=True)
    query = (
        "select r.id from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id"
        " where p.subject_id = $1 and r.status = 'failed'"
    )
    await until(lambda: stage.shop.runtime.database.fetchval(query, str(order["id"])))
    return str(await stage.shop.runtime.database.fetchval(query, str(order["id"])))


async def repeat_refund(stage: Stage) -> Case:
    path = f"{STAFF}/refunds/{await failed_refund(stage)}/repeat"
    return Case(path, {}, [{"n": 1}], stage.staff, uncounted=AUDIT_OF_WEBHOOKS)


async def settle_refund(stage: Stage) -> Case:
    path = f"{STAFF}/refunds/{await failed_refund(stage)}/settle"
    others = [{"note": f"bank transfer {n}"} for n in range(4)]
    return Case(path, {"note": "bank transfer"}, others, stage.staff, uncounted=AUDIT_OF_WEBHOOKS)


async def dispute_policy(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return Case(
        f"{STAFF}/events/{event_id}/dispute-policy", {"policy": "keep"}, [{"policy": "keep", "n": 1}], stage.staff
    )


async def void(stage: Stage) -> Case:
    order = await stage.order()
    path = f"{STAFF}/tickets/{order['tickets'][0]['id']}/void"
    return Case(path, {"reason": "lost"}, [{"reason": f"lost {n}"} for n in range(4)], stage.staff)


def on_the_desk(stage: Stage, action: str, ids: str, **given: str) -> Case:
    body = {"ids": ids, "step": "run", **given}
    return Case(f"{DESK}/{action}", body, [{**body, "n": "1"}], stage.staff, form=True)


async def close_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/close", event_id)


async def open_on_the_desk(stage: Stage) -> Case:
    event = await stage.shop.call(f"{STAFF}/events", await stage.new_event(), staff=True)
    return on_the_desk(stage, "events/do/open_sale", event["id"])


async def void_on_the_desk(stage: Stage) -> Case:
    order = await stage.order()
    return on_the_desk(stage, "tickets/do/void", str(order["tickets"][0]["id"]), reason="lost")


async def coupon_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "coupons/do/add_coupon", "", code=f"DESK{next(stage.numbers)}", percent="10")


async def edit(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return Case(f"{STAFF}/events/{event_id}", {"name": "Other"}, [{"name": "Other", "n": 1}], stage.staff)


DATES = {"starts_at": "2041-06-21T18:00:00Z", "ends_at": "2041-06-21T21:00:00Z"}


async def move(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    others = [{**DATES, "reason": f"storm {n}"} for n in range(4)]
    return Case(f"{STAFF}/events/{event_id}/move", {**DATES, "reason": "storm"}, others, stage.staff)


async def duplicate(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    body = {"starts_at": [DATES["starts_at"]]}
    return Case(f"{STAFF}/events/{event_id}/duplicate", body, [{**body, "n": 1}], stage.staff)


async def section(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    body = {"name": "Balcony", "price_cents": 100, "places": 5}
    others = [{**body, "price_cents": 100 * n} for n in range(1, 5)]
    return Case(f"{STAFF}/events/{event_id}/sections", body, others, stage.staff)


async def change_section(stage: Stage) -> Case:
    _, sections, _ = await stage.event()
    body = {"price_cents": 700, "places": 70}
    return Case(f"{STAFF}/sections/{sections['Lawn']}", body, [{**body, "n": 1}], stage.staff)


async def new_coupon(stage: Stage) -> str:
    new = {"code": f"LIMIT{next(stage.numbers)}", "percent_bps": 1000}
    return (await stage.shop.call(f"{STAFF}/coupons", new, staff=True))["id"]


async def change_coupon(stage: Stage) -> Case:
    body = {"most_uses": 7, "valid_until": None}
    return Case(f"{STAFF}/coupons/{await new_coupon(stage)}", body, [{**body, "n": 1}], stage.staff)


async def take_back(stage: Stage) -> Case:
    order = await stage.order("Lawn")
    moved = {**DATES, "reason": "storm", "refund_until": "2040-01-01T00:00:00Z"}
    await stage.shop.call(f"{STAFF}/events/{order['event_id']}/move", moved, staff=True)
    return Case(f"/orders/{order['id']}/refund", {"token": order["token"]}, [{"token": order["token"], "n": 1}])


async def edit_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    form = await stage.form(event_form, event_id)
    return on_the_desk(stage, "events/do/edit", event_id, name="Other", most_per_order="9", stamp=form)


async def move_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    dates = {"starts_at": "2041-06-21T18:00", "ends_at": "2041-06-21T21:00"}
    return on_the_desk(stage, "events/do/move", event_id, **dates, reason="storm")


async def duplicate_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/duplicate", event_id, starts_at="2041-06-21T18:00", times="2", every_days="7")


async def cancel_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/cancel", event_id, reason="storm")


async def section_on_the_desk(stage: Stage) -> Case:
    _, sections, _ = await stage.event()
    price = {"price": "7.50", "price.currency": "EUR"}
    stamp = await stage.form(section_form, sections["Lawn"])
    return on_the_desk(stage, "sections/do/change_section", sections["Lawn"], stamp=stamp, **price)


async def limits_on_the_desk(stage: Stage) -> Case:
    coupon_id = await new_coupon(stage)
    stamp = await stage.form(limits_of, coupon_id)
    return on_the_desk(stage, "coupons/do/change_coupon", coupon_id, most_uses="7", stamp=stamp)


async def resend_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "orders/do/resend", (await stage.order())["id"])


async def correct_on_the_desk(stage: Stage) -> Case:
    order = await stage.order()
    stamp = await stage.form(address_of, order["id"])
    return on_the_desk(stage, "orders/do/correct", order["id"], email="right@example.org", stamp=stamp)


async def refund_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "orders/do/refund", (await stage.order("Lawn"))["id"], reason="ill")


async def scan(stage: Stage) -> Case:
    order = await stage.order()
    body = {"event_id": order["event_id"], "presented": order["tickets"][0]["ticket_code"], "scan_id": str(uuid4())}
    return Case(
        f"{STAFF}/scan", body, [{**body, "scan_id": str(uuid4()), "gate": f"{n}"} for n in range(4)], stage.staff
    )


async def new_door(stage: Stage, event_id: str) -> Any:
    made = await stage.shop.call(f"{STAFF}/events/{event_id}/doors", {"name": "North"}, staff=True)
    return {**made, "headers": {"authorization": f"Bearer {made['url'].partition('#')[2]}"}}


async def scanned(stage: Stage) -> tuple[str, str]:
    """A ticket that was used: its event, and the id of its scan."""
    order, scan_id = await stage.order(), str(uuid4())
    body = {"event_id": order["event_id"], "presented": order["tickets"][0]["ticket_code"], "scan_id": scan_id}
    await stage.shop.call(f"{STAFF}/scan", body, staff=True)
    return order["event_id"], scan_id


async def open_door(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return Case(f"{STAFF}/events/{event_id}/doors", {"name": "North"}, [{"name": " North "}], stage.staff)


async def end_door(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return Case(f"{STAFF}/doors/{(await new_door(stage, event_id))['id']}/end", {}, [{"n": 1}], stage.staff)


async def undo_scan(stage: Stage) -> Case:
    event_id, scan_id = await scanned(stage)
    return Case(f"{STAFF}/events/{event_id}/scans/{scan_id}/undo", {}, [{"n": 1}], stage.staff)


async def scan_at_door(stage: Stage) -> Case:
    order = await stage.order()
    door = await new_door(stage, order["event_id"])
    one = {"presented": order["tickets"][0]["ticket_code"], "scan_id": str(uuid4())}
    others = [{"scans": [{**one, "scan_id": str(uuid4())}]} for _ in range(4)]
    return Case(f"{STAFF}/door/{door['id']}/scans", {"scans": [one]}, others, door["headers"], keyed=False)


async def undo_at_door(stage: Stage) -> Case:
    order = await stage.order()
    door = await new_door(stage, order["event_id"])
    one = {"ticket_id": str(order["tickets"][0]["id"]), "scan_id": str(uuid4())}
    enter = Case(f"{STAFF}/door/{door['id']}/scans", {"scans": [one]}, headers=door["headers"])
    assert await stage.send(enter, enter.body, method="POST") == 200
    body = {"scan_id": one["scan_id"]}
    return Case(f"{STAFF}/door/{door['id']}/undo", body, [{**body, "n": 1}], door["headers"], keyed=False)


async def set_seller(stage: Stage) -> Case:
    body = {"name": f"Seller {next(stage.numbers)}"}
    return Case(f"{STAFF}/seller", body, [{**body, "n": 1}], stage.staff)


async def set_billing(stage: Stage) -> Case:
    order = await stage.order("Lawn")
    body = {"token": order["token"], "company": "Acme"}
    return Case(f"/orders/{order['id']}/billing", body, [{**body, "n": 1}], keyed=False)


async def seller_on_the_desk(stage: Stage) -> Case:
    body = {"name": f"Seller {next(stage.numbers)}", "step": "run"}
    return Case(f"{DESK}/invoices/do/set_seller", body, [{**body, "n": "1"}], stage.staff, form=True)


async def company_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "orders/do/set_company", (await stage.order("Lawn"))["id"], company="Acme")


async def sold_out(stage: Stage) -> tuple[Any, dict[str, str]]:
    """An order of an event that is sold out and takes tickets back, and somebody who waits."""
    new = {"sections": [{"name": "Lawn", "price_cents": 900, "places": 2}]}
    event_id, sections, _ = await stage.event(**new)
    basket = new_basket()
    places = {"places": {sections["Lawn"]: 2}}
    await stage.shop.call(f"{PUBLIC}/events/{event_id}/holds", places, basket=basket)
    buyer = {"event_id": event_id, "email": "buyer@example.org"}
    made = await stage.shop.call(f"{PUBLIC}/checkouts", buyer, basket=basket)
    await stage.shop.pay(made)
    await stage.shop.call(f"{STAFF}/events/{event_id}", {"has_resale": True}, staff=True, method="PATCH")
    email = f"waits{next(stage.numbers)}@example.org"
    await stage.shop.call(f"{PUBLIC}/events/{event_id}/waitlist", {"email": email})
    row = await stage.db.fetchrow("select id from ticketing.waitlist where email = $1", email)
    tickets = """select t.id from ticketing.tickets t join ticketing.checkout_items i on i.id = t.item_id
                  where t.checkout_id = $1 order by i.position"""  # the shares of an order differ by a cent
    rows = await stage.db.fetch(tickets, UUID(made["id"]))
    return {**made, "event_id": event_id, "tickets": [str(each["id"]) for each in rows]}, {"id": str(row["id"])}


async def join_waitlist(stage: Stage) -> Case:
    order, _ = await sold_out(stage)
    body = {"email": f"joins{next(stage.numbers)}@example.org"}
    path = f"{PUBLIC}/events/{order['event_id']}/waitlist"
    return Case(path, body, [{**body, "seats": n} for n in (1, 2)], keyed=False)


async def leave_waitlist(stage: Stage) -> Case:
    _, entry = await sold_out(stage)
    link = "select data->>'url' from onceward.messages where key = $1"
    url = await stage.db.fetchval(link, f"waitlist:{entry['id']}:joined")
    body = {"token": url.partition("access=")[2]}
    return Case(f"/waitlist/{entry['id']}/leave", body, [{**body, "n": 1}], keyed=False)


async def resell(stage: Stage) -> Case:
    order, _ = await sold_out(stage)
    body = {"token": order["token"]}
    return Case(f"/orders/{order['id']}/tickets/{order['tickets'][0]}/resell", body, [{**body, "n": 1}], keyed=False)


async def door_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/open_door", event_id, name="North")


async def link_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    case = on_the_desk(stage, "doors/do/show_link", (await new_door(stage, event_id))["id"])
    case.several, case.keyed = "every look at the link is audited", False
    return case


async def end_door_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "doors/do/end_door", (await new_door(stage, event_id))["id"])


async def undo_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "entries/do/undo_scan", (await scanned(stage))[1])


async def hold(stage: Stage) -> Case:
    event_id, sections, seats = await stage.event(most_per_order=6)
    body = {"seats": seats[:2], "places": {sections["Lawn"]: 2}}
    other = {"seats": seats[1::-1], "places": {sections["Lawn"]: 2}}
    return Case(f"{PUBLIC}/events/{event_id}/holds", body, [other], {"x-basket": new_basket()})


async def release(stage: Stage) -> Case:
    event_id, basket = await stage.held()
    path = f"{PUBLIC}/events/{event_id}/holds"
    held = await stage.shop.call(path, basket=basket)
    return Case(f"{path}/release", {}, [{"holds": [each["id"] for each in held["holds"]]}], {"x-basket": basket})


async def start_checkout(stage: Stage) -> Case:
    event_id, basket = await stage.held()
    body = {"event_id": event_id, "email": "buyer@example.org"}
    others = [{**body, "email": f"buyer{n}@example.org"} for n in range(4)]
    return Case(f"{PUBLIC}/checkouts", body, others, {"x-basket": basket})


async def pay(stage: Stage) -> Case:
    made = await stage.checkout()
    body = {"token": made["token"], "provider": "stripe"}
    return Case(f"{PUBLIC}/checkouts/{made['id']}/pay", body, [{**body, "n": 1}], may_fail_with=frozenset({502}))


async def abandon(stage: Stage) -> Case:
    made = await stage.checkout()
    return Case(
        f"{PUBLIC}/checkouts/{made['id']}/abandon", {"token": made["token"]}, [{"token": made["token"], "n": 1}]
    )


async def resend(stage: Stage) -> Case:
    order = await stage.order()
    return Case(f"/orders/{order['id']}/resend", {"token": order["token"]}, [{"token": order["token"], "n": 1}])


async def transfer(stage: Stage) -> Case:
    order = await stage.order()
    path = f"/orders/{order['id']}/tickets/{order['tickets'][0]['id']}/transfer"
    body = {"token": order["token"], "email": "friend@example.org"}
    return Case(path, body, [{**body, "email": f"friend{n}@example.org"} for n in range(4)])


async def transfer_again(stage: Stage) -> Case:
    order = await stage.order()
    path = f"/orders/{order['id']}/tickets/{order['tickets'][0]['id']}/transfer"
    moved = await stage.shop.call(path, {"token": order["token"], "email": f"holder{next(stage.numbers)}@example.org"})
    id = moved["ticket_id"]
    url = await stage.db.fetchval(
        "select data->>'ticket_url' from onceward.messages where key = $1", f"ticket:{id}:transferred"
    )
    body = {"token": url.partition("access=")[2], "email": f"next{next(stage.numbers)}@example.org"}
    return Case(f"/tickets/{id}/transfer", body, [{**body, "email": f"next{n}@example.org"} for n in range(4)])


async def revoke_links(stage: Stage) -> Case:
    order = await stage.order()
    body = {"link_version": 1}
    return Case(f"{STAFF}/orders/{order['id']}/revoke-links", body, [{**body, "n": n} for n in range(2)], stage.staff)


async def one_section(stage: Stage) -> str:
    return (await stage.event())[1]["Lawn"]


async def add_type(stage: Stage) -> Case:
    body = {"name": "Student", "price_cents": 500}
    others = [{**body, "price_cents": 100 * n} for n in range(1, 5)]
    return Case(f"{STAFF}/sections/{await one_section(stage)}/types", body, others, stage.staff)


async def ticket_type(stage: Stage) -> str:
    new = {"name": "Student", "price_cents": 500}
    return (await stage.shop.call(f"{STAFF}/sections/{await one_section(stage)}/types", new, staff=True))["id"]


async def change_type(stage: Stage) -> Case:
    body = {"price_cents": 700}
    return Case(f"{STAFF}/ticket-types/{await ticket_type(stage)}", body, [{**body, "n": 1}], stage.staff)


async def add_code(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    body = {"code": "EARLY-BIRD"}
    others = [{"code": "early-bird"}, {**body, "most_tickets": 5}]
    return Case(f"{STAFF}/events/{event_id}/presale-codes", body, others, stage.staff)


async def presale_code(stage: Stage) -> str:
    event_id, *_ = await stage.event()
    new = {"code": "EARLY-BIRD"}
    return (await stage.shop.call(f"{STAFF}/events/{event_id}/presale-codes", new, staff=True))["id"]


async def change_code(stage: Stage) -> Case:
    body = {"most_tickets": 7, "valid_until": None}
    return Case(f"{STAFF}/presale-codes/{await presale_code(stage)}", body, [{**body, "n": 1}], stage.staff)


async def add_question(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    body = {"title": "Meal"}
    return Case(f"{STAFF}/events/{event_id}/questions", body, [{**body, "is_required": True}], stage.staff)


async def question(stage: Stage) -> str:
    event_id, *_ = await stage.event()
    return (await stage.shop.call(f"{STAFF}/events/{event_id}/questions", {"title": "Meal"}, staff=True))["id"]


async def end_question(stage: Stage) -> Case:
    return Case(f"{STAFF}/questions/{await question(stage)}/end", {}, [{"n": 1}], stage.staff)


async def set_window(stage: Stage) -> Case:
    body = {"is_hidden": True}
    return Case(f"{STAFF}/sections/{await one_section(stage)}/window", body, [{**body, "n": 1}], stage.staff)


async def choose_types(stage: Stage) -> Case:
    event_id, sections, _ = await stage.event()
    new = {"name": "Student", "price_cents": 500}
    made = await stage.shop.call(f"{STAFF}/sections/{sections['Lawn']}/types", new, staff=True)
    basket, path = new_basket(), f"{PUBLIC}/events/{event_id}/holds"
    held = await stage.shop.call(path, {"places": {sections["Lawn"]: 1}}, basket=basket)
    body = {"types": {held["holds"][0]["id"]: made["id"]}}
    return Case(f"{path}/types", body, [{**body, "n": 1}], {"x-basket": basket})


async def sell_at_office(stage: Stage) -> Case:
    event_id, _, seats = await stage.event()
    body = {"how": "cash", "seats": seats[:2]}
    return Case(f"{STAFF}/events/{event_id}/box-office", body, [{**body, "name": "Thandi"}], stage.staff)


async def reserved(stage: Stage) -> Any:
    """An order that waits for a bank transfer."""
    event_id, _, seats = await stage.event()
    body = {"how": "transfer", "seats": seats[:1]}
    return await stage.shop.call(f"{STAFF}/events/{event_id}/box-office", body, staff=True)


async def take_cash(stage: Stage) -> Case:
    return Case(f"{STAFF}/orders/{(await reserved(stage))['id']}/cash", {}, [{"n": 1}], stage.staff)


async def record_transfers(stage: Stage) -> Case:
    order = await reserved(stage)
    one = {"line": f"line {next(stage.numbers)}", "amount_cents": order["total_cents"], "currency": "EUR"}
    body = {"lines": [{**one, "memo": order["transfer_reference"]}]}
    return Case(
        f"{STAFF}/transfers", body, [{"lines": [{**one, "memo": f"x {order['transfer_reference']}"}]}], stage.staff
    )


async def unmatched(stage: Stage) -> tuple[str, Any]:
    order = await reserved(stage)
    one = {"line": f"line {next(stage.numbers)}", "amount_cents": order["total_cents"], "currency": "EUR"}
    [row] = await stage.shop.call(f"{STAFF}/transfers", {"lines": [one]}, staff=True)
    return row["id"], order


async def assign_transfer(stage: Stage) -> Case:
    transfer_id, order = await unmatched(stage)
    body = {"checkout_id": order["id"]}
    return Case(f"{STAFF}/transfers/{transfer_id}/assign", body, [{**body, "n": 1}], stage.staff)


async def dismiss_transfer(stage: Stage) -> Case:
    transfer_id, _ = await unmatched(stage)
    return Case(f"{STAFF}/transfers/{transfer_id}/dismiss", {"reason": "rent"}, [{"reason": "x"}], stage.staff)


async def set_shop(stage: Stage) -> Case:
    body = {"about": f"Shop {next(stage.numbers)}"}
    return Case(f"{STAFF}/shop", body, [{**body, "n": 1}], stage.staff)


async def type_on_the_desk(stage: Stage) -> Case:
    price = {"price": "5.00", "price.currency": "EUR"}
    return on_the_desk(stage, "sections/do/add_type", await one_section(stage), name="Student", **price)


async def change_type_on_the_desk(stage: Stage) -> Case:
    type_id, price = await ticket_type(stage), {"price": "7.00", "price.currency": "EUR"}
    stamp = await stage.form(type_form, type_id)
    return on_the_desk(stage, "types/do/change_type", type_id, stamp=stamp, **price)


async def code_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/add_code", event_id, code="EARLY-BIRD")


async def change_code_on_the_desk(stage: Stage) -> Case:
    code_id = await presale_code(stage)
    stamp = await stage.form(code_limits, code_id)
    return on_the_desk(stage, "codes/do/change_code", code_id, most_tickets="7", stamp=stamp)


async def question_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/add_question", event_id, title="Meal", about="order")


async def end_question_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "questions/do/end_question", await question(stage))


async def window_on_the_desk(stage: Stage) -> Case:
    section_id = await one_section(stage)
    stamp = await stage.form(window_form, section_id)
    return on_the_desk(stage, "sections/do/set_window", section_id, sale_until="2041-06-21T18:00", stamp=stamp)


async def sell_on_the_desk(stage: Stage) -> Case:
    event_id, _, seats = await stage.event()
    return on_the_desk(stage, "events/do/sell", event_id, how="cash", seats=seats[0])


async def cash_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "orders/do/take_cash", (await reserved(stage))["id"])


async def transfers_on_the_desk(stage: Stage) -> Case:
    order = await reserved(stage)
    line = f"l{next(stage.numbers)};25.63;EUR;{order['transfer_reference']}"
    return on_the_desk(stage, "transfers/do/record", "", lines=line)


async def assign_on_the_desk(stage: Stage) -> Case:
    transfer_id, order = await unmatched(stage)
    return on_the_desk(stage, "transfers/do/assign", transfer_id, order=order["id"])


async def dismiss_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "transfers/do/dismiss", (await unmatched(stage))[0], reason="rent")


async def shop_on_the_desk(stage: Stage) -> Case:
    about = f"Desk {next(stage.numbers)}"
    return on_the_desk(stage, "events/do/set_shop", "", about=about, transfer_days="7")


async def close_period(stage: Stage) -> Case:
    until = datetime.now(UTC) - timedelta(days=1) + timedelta(seconds=next(stage.numbers))
    body = {"until": until.isoformat()}
    return Case(f"{STAFF}/accounting/periods", body, [{**body, "note": "x"}], stage.staff)


async def close_on_the_books_desk(stage: Stage) -> Case:
    until = datetime.now(UTC) - timedelta(hours=12) + timedelta(minutes=next(stage.numbers))
    return on_the_desk(stage, "settlements/do/close_books", "", until=f"{until:%Y-%m-%dT%H:%M}")


async def venue_id(stage: Stage) -> str:
    return (await stage.shop.call(f"{STAFF}/venues", {"name": f"Hall {next(stage.numbers)}"}, staff=True))["id"]


async def change_venue(stage: Stage) -> Case:
    body = {"name": f"Hall {next(stage.numbers)}", "address": "2 Quay"}
    return Case(f"{STAFF}/venues/{await venue_id(stage)}", body, [{**body, "n": 1}], stage.staff)


async def venue_on_the_desk(stage: Stage) -> Case:
    return on_the_desk(stage, "venues/do/add_venue", "", name=f"Desk {next(stage.numbers)}", timezone="UTC")


async def change_venue_on_the_desk(stage: Stage) -> Case:
    id = await venue_id(stage)
    name, stamp = f"Desk {next(stage.numbers)}", await stage.form(venue_form, id)
    return on_the_desk(stage, "venues/do/change_venue", id, name=name, timezone="UTC", stamp=stamp)


PRICE = {"price": "5.00", "price.currency": "EUR"}


async def event_on_the_desk(stage: Stage) -> Case:
    name = f"Desk {next(stage.numbers)}"
    await stage.shop.call(f"{STAFF}/venues", {"name": name}, staff=True)
    given = {"name": "Night", "venue": name, "section": "Stalls", "rows": "A-B: 4", "tax_percent": "0", **PRICE}
    dates = {"starts_at": "2041-06-21T18:00", "ends_at": "2041-06-21T21:00", "fee_paid_by": "buyer"}
    return on_the_desk(stage, "events/do/add_event", "", **given, **dates)


async def section_added_on_the_desk(stage: Stage) -> Case:
    event_id, *_ = await stage.event()
    return on_the_desk(stage, "events/do/add_section", event_id, section="Balcony", places="5", **PRICE)


async def block_on_the_desk(stage: Stage) -> Case:
    event_id, _, seats = await stage.event()
    return on_the_desk(stage, "events/do/block", event_id, seats=seats[0])


async def unblock_on_the_desk(stage: Stage) -> Case:
    case = await unblock(stage)
    return on_the_desk(stage, "events/do/unblock", case.path.split("/")[-2], seats="Stalls A1")


async def transfer_on_the_desk(stage: Stage) -> Case:
    order = await stage.order()
    return on_the_desk(stage, "tickets/do/transfer", str(order["tickets"][0]["id"]), email="friend@example.org")


CASES: Cases[Stage] = {
    f"PUT {STAFF}/venues/{{venue_id}}": change_venue,
    f"POST {DESK}/venues/do/add_venue": venue_on_the_desk,
    f"POST {DESK}/venues/do/change_venue": change_venue_on_the_desk,
    f"POST {DESK}/events/do/add_event": event_on_the_desk,
    f"POST {DESK}/events/do/add_section": section_added_on_the_desk,
    f"POST {DESK}/events/do/block": block_on_the_desk,
    f"POST {DESK}/events/do/unblock": unblock_on_the_desk,
    f"POST {DESK}/tickets/do/transfer": transfer_on_the_desk,
    f"POST {STAFF}/accounting/periods": close_period,
    f"POST {DESK}/settlements/do/close_books": close_on_the_books_desk,
    f"POST {STAFF}/sections/{{section_id}}/types": add_type,
    f"PUT {STAFF}/ticket-types/{{type_id}}": change_type,
    f"POST {STAFF}/events/{{event_id}}/presale-codes": add_code,
    f"PUT {STAFF}/presale-codes/{{code_id}}": change_code,
    f"POST {STAFF}/events/{{event_id}}/questions": add_question,
    f"POST {STAFF}/questions/{{question_id}}/end": end_question,
    f"PUT {STAFF}/sections/{{section_id}}/window": set_window,
    f"POST {PUBLIC}/events/{{event_id}}/holds/types": choose_types,
    f"POST {STAFF}/events/{{event_id}}/box-office": sell_at_office,
    f"POST {STAFF}/orders/{{checkout_id}}/cash": take_cash,
    f"POST {STAFF}/transfers": record_transfers,
    f"POST {STAFF}/transfers/{{transfer_id}}/assign": assign_transfer,
    f"POST {STAFF}/transfers/{{transfer_id}}/dismiss": dismiss_transfer,
    f"PUT {STAFF}/shop": set_shop,
    f"POST {DESK}/sections/do/add_type": type_on_the_desk,
    f"POST {DESK}/types/do/change_type": change_type_on_the_desk,
    f"POST {DESK}/events/do/add_code": code_on_the_desk,
    f"POST {DESK}/codes/do/change_code": change_code_on_the_desk,
    f"POST {DESK}/events/do/add_question": question_on_the_desk,
    f"POST {DESK}/questions/do/end_question": end_question_on_the_desk,
    f"POST {DESK}/sections/do/set_window": window_on_the_desk,
    f"POST {DESK}/events/do/sell": sell_on_the_desk,
    f"POST {DESK}/orders/do/take_cash": cash_on_the_desk,
    f"POST {DESK}/transfers/do/record": transfers_on_the_desk,
    f"POST {DESK}/transfers/do/assign": assign_on_the_desk,
    f"POST {DESK}/transfers/do/dismiss": dismiss_on_the_desk,
    f"POST {DESK}/events/do/set_shop": shop_on_the_desk,
    f"POST {STAFF}/venues": venue,
    f"POST {STAFF}/events": event,
    f"POST {STAFF}/events/{{event_id}}/status": status,
    f"POST {DESK}/events/do/open_sale": open_on_the_desk,
    f"POST {DESK}/events/do/close": close_on_the_desk,
    f"POST {DESK}/tickets/do/void": void_on_the_desk,
    f"POST {DESK}/events/do/edit": edit_on_the_desk,
    f"POST {DESK}/events/do/move": move_on_the_desk,
    f"POST {DESK}/events/do/duplicate": duplicate_on_the_desk,
    f"POST {DESK}/events/do/cancel": cancel_on_the_desk,
    f"POST {DESK}/sections/do/change_section": section_on_the_desk,
    f"POST {DESK}/coupons/do/change_coupon": limits_on_the_desk,
    f"POST {DESK}/orders/do/resend": resend_on_the_desk,
    f"POST {DESK}/orders/do/correct": correct_on_the_desk,
    f"POST {DESK}/orders/do/refund": refund_on_the_desk,
    f"PATCH {STAFF}/events/{{event_id}}": edit,
    f"POST {STAFF}/events/{{event_id}}/move": move,
    f"POST {STAFF}/events/{{event_id}}/duplicate": duplicate,
    f"POST {STAFF}/events/{{event_id}}/sections": section,
    f"PATCH {STAFF}/sections/{{section_id}}": change_section,
    f"PATCH {STAFF}/coupons/{{coupon_id}}": change_coupon,
    "POST /orders/{checkout_id}/refund": take_back,
    f"POST {DESK}/coupons/do/add_coupon": coupon_on_the_desk,
    f"POST {STAFF}/events/{{event_id}}/cancel": cancel,
    f"POST {STAFF}/events/{{event_id}}/block": block,
    f"POST {STAFF}/events/{{event_id}}/unblock": unblock,
    f"POST {STAFF}/coupons": coupon,
    f"POST {STAFF}/orders/{{checkout_id}}/refund": refund,
    f"POST {STAFF}/refunds/{{refund_id}}/repeat": repeat_refund,
    f"POST {STAFF}/refunds/{{refund_id}}/settle": settle_refund,
    f"POST {STAFF}/events/{{event_id}}/dispute-policy": dispute_policy,
    f"POST {STAFF}/tickets/{{ticket_id}}/void": void,
    f"POST {STAFF}/scan": scan,
    f"POST {STAFF}/events/{{event_id}}/doors": open_door,
    f"POST {STAFF}/doors/{{door_id}}/end": end_door,
    f"POST {STAFF}/events/{{event_id}}/scans/{{scan_id}}/undo": undo_scan,
    f"POST {STAFF}/door/{{door_id}}/scans": scan_at_door,
    f"POST {STAFF}/door/{{door_id}}/undo": undo_at_door,
    f"POST {DESK}/events/do/open_door": door_on_the_desk,
    f"PUT {STAFF}/seller": set_seller,
    f"POST {PUBLIC}/events/{{event_id}}/waitlist": join_waitlist,
    "POST /waitlist/{entry_id}/leave": leave_waitlist,
    "POST /orders/{checkout_id}/tickets/{ticket_id}/resell": resell,
    "POST /orders/{checkout_id}/billing": set_billing,
    f"POST {DESK}/invoices/do/set_seller": seller_on_the_desk,
    f"POST {DESK}/orders/do/set_company": company_on_the_desk,
    f"POST {DESK}/doors/do/show_link": link_on_the_desk,
    f"POST {DESK}/doors/do/end_door": end_door_on_the_desk,
    f"POST {DESK}/entries/do/undo_scan": undo_on_the_desk,
    f"POST {PUBLIC}/events/{{event_id}}/holds": hold,
    f"POST {PUBLIC}/events/{{event_id}}/holds/release": release,
    f"POST {PUBLIC}/checkouts": start_checkout,
    f"POST {PUBLIC}/checkouts/{{checkout_id}}/pay": pay,
    f"POST {PUBLIC}/checkouts/{{checkout_id}}/abandon": abandon,
    "POST /orders/{checkout_id}/resend": resend,
    "POST /orders/{checkout_id}/tickets/{ticket_id}/transfer": transfer,
    "POST /tickets/{ticket_id}/transfer": transfer_again,
    f"POST {STAFF}/orders/{{checkout_id}}/revoke-links": revoke_links,
}


PARTS = 4


def some_of(part: int) -> Cases[Stage]:
    """Every fourth case, so that no test takes long."""
    return {name: case for n, (name, case) in enumerate(CASES.items()) if n % PARTS == part}


def test_every_route_has_a_case() -> None:
    assert twins.routes_of(CASES) == twins.written_routes(ticketing)


@pytest.fixture
async def stage(database_url: str, tmp_path: Path) -> AsyncIterator[Stage]:
    async with opened_shop(database_url, tmp_path, holds_per_minute=0) as shop:
        stage = Stage(shop)
        await until(stage.pause_offers)
        yield stage


@pytest.mark.timeout(180)
@pytest.mark.parametrize("part", range(PARTS))
async def test_identical_and_nearly_identical_requests_at_once_leave_what_one_would(stage: Stage, part: int) -> None:
    await twins.expect_twins_to_leave_one(stage, some_of(part), checks.CHECKS)


async def test_two_payment_services_asked_at_once_leave_one_open_page_at_most(stage: Stage) -> None:
    """Each page closes the one of the other service: a buyer who asks both may have to ask again."""
    case = await pay(stage)
    await asyncio.gather(
        *(stage.send(case, {**case.body, "provider": name}, method="POST") for name in ("stripe", "paypal") * 2)
    )
    pages = "select count(*) from onceward.payments where status in ('created', 'open') and superseded_at is null"
    assert await stage.shop.runtime.database.fetchval(pages) <= 1
    assert await stage.send(case, case.body, method="POST") == 200


async def test_a_scan_repeated_while_it_is_under_way_gets_the_same_answer(stage: Stage) -> None:
    """A scanner that retries over a bad network must not hear that its own admission was somebody else's."""
    case = await scan(stage)
    answers = await asyncio.gather(*(stage.shop.call(case.path, case.body, staff=True) for _ in range(TWINS)))
    assert {answer["outcome"] for answer in answers} == {"admitted"}


async def test_an_event_that_does_not_exist_is_not_found(stage: Stage) -> None:
    unknown = uuid4()
    async with aiohttp.ClientSession(stage.shop.url, headers={"authorization": f"Bearer {stage.shop.key}"}) as http:
        for path in (
            f"{STAFF}/events/{unknown}/orders",
            f"{STAFF}/events/{unknown}/funnel",
            f"{STAFF}/events/{unknown}/occupancy",
            f"{STAFF}/events/{unknown}/cancellation",
            f"{PUBLIC}/events/{unknown}",
            f"{PUBLIC}/events/{unknown}/holds",
        ):
            async with http.get(path) as response:
                assert response.status == 404, path
        async with http.post(f"{PUBLIC}/events/{unknown}/holds/release", json={}) as response:
            assert response.status == 404

"""Two organizations with something of everything, each made through its own credentials on a running process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import jwt as pyjwt
import orjson

from onceward.db import Database
from onceward.inbox.sources import NewSource, add
from onceward.messages import senders
from onceward.outbox.routes.portal import COOKIE as PORTAL_COOKIE
from onceward.process.process import Process
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.organizations import set_member
from onceward.trust.secrets import secret_box
from onceward.trust.session_cookie import SESSION
from onceward.trust.sessions import link_for
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from tests.ticketing.office import SECRET, charge
from tests.trust.crosswise import coursegen
from tests.trust.crosswise.rows import fill_tables

JWT_SECRET = "j" * 64
PUBLIC = "/api/v1/ticketing/public"

TICKET_PAYMENT = """
with account as (select id from onceward.payment_account('tickets-stripe', 'stripe', 'payments-stripe'))
insert into onceward.payments (organization_id, account_id, subject_type, subject_id, status, amount, currency, title, expires_at,
                               close_at, ask_at)
select c.organization_id, account.id, 'checkout', c.id::text, 'open', c.total_cents, c.currency, $2, c.expires_at, c.expires_at,
       c.expires_at
  from ticketing.checkouts c cross join account where c.id = $1 returning id
"""
FAILED_REFUND = """
insert into onceward.payment_refunds (organization_id, payment_id, amount, currency, reason, status, failure, requested_by)
select c.organization_id, c.payment_id, 1, c.currency, $2, 'failed', $2, $2
  from ticketing.checkouts c where c.id = $1 returning id
"""

PAID_VISIT = """
insert into onceward.payments (organization_id, account_id, subject_type, subject_id, status, amount, currency, title, expires_at,
    received, charge, decision, paid_at)
select $1, a.id, 'appointment', $2, 'paid', 100, 'USD', $3, now(), 100, 'pi_visit_' || $3, 'accepted', now()
  from onceward.payment_account('clinic', 'stripe', 'clinic-stripe') a returning id
"""
COURSE_ROWS = {
    "chat_message": "insert into learning.chat_messages (organization_id, cohort_id, user_id, message)"
    " select $1, $2, $3, $5 where $4::uuid is not null returning id",
    "seats": "insert into learning.seat_blocks (organization_id, cohort_id, company, contact_email, token_hash)"
    " select $1, $2, $5, $5 || '@example.org', sha256(convert_to($5, 'UTF8')) where $3::uuid <> $4::uuid returning id",
    "discount": "insert into learning.discount_codes (organization_id, code, percent) select $1,"
    " upper(left(md5($5), 12)), 10 where $2::uuid <> $3::uuid and $4::uuid is not null returning id",
    "work": "insert into learning.submissions (organization_id, enrollment_id, item_id, text, status, handed_in_at)"
    " select $1, $4, i.id, $5, 'HANDED_IN', now() from learning.content_items i where i.cohort_id = $2 and $3::uuid is not null"
    " limit 1 returning id",
    "waiting": "insert into learning.waitlist_entries (organization_id, cohort_id, user_id, ended_reason)"
    " select $1, $2, $3, $5 where $4::uuid is not null returning id",
    "course_refund": "with account as (select id from onceward.payment_account('learning', 'stripe', 'learning-stripe')),"
    " paid as (insert into onceward.payments (organization_id, account_id, subject_type, subject_id, status, amount, currency,"
    " title, expires_at, received, charge, decision, paid_at) select $1, account.id, 'enrolment', $4::uuid::text, 'paid', 5000,"
    " 'EUR', $5, now(), 5000, 'pi_' || $5, 'accepted', now() from account where $2::uuid <> $3::uuid returning id)"
    " insert into onceward.payment_refunds (organization_id, payment_id, status, amount, currency, reason, requested_by,"
    " failure) select $1, id, 'failed', 5000, 'EUR', $5, $5, $5 from paid returning id",
    "certificate": "insert into learning.certificates (organization_id, cohort_id, user_id, enrollment_id, credential_id,"
    " url, document, snapshot) values ($1, $2, $3, $4, 'OW-' || $5, '', '%PDF-1', jsonb_build_object('studentName', $5,"
    " 'cohortName', $5, 'organizationName', $5, 'completionPercentage', 100, 'attendancePercentage', null)) returning id",
}


@dataclass
class Org:
    """`private` is in everything that nobody else may see, `public` in what a seat map shows to everybody."""

    id: UUID
    slug: str
    private: str
    public: str
    key: str
    ids: dict[str, str] = field(default_factory=dict)
    """By the names that the table of routes uses."""
    session: str = ""
    csrf: str = ""

    def token(self, sub: str | None = None) -> str:
        """The JWT of an end user of the organization, who may have the id of another organization's user."""
        claims = {"sub": sub or f"user of {self.slug}", "exp": 2**33, "organization_id": str(self.id)}
        return pyjwt.encode(claims, JWT_SECRET, "HS256")


class World:
    """A running process with organization a, whose things are looked for, and b, who looks."""

    def __init__(self, runtime: Process, http: aiohttp.ClientSession) -> None:
        self.runtime = runtime
        self.db: Database = runtime.database
        self.http = http
        self.a: Org
        self.b: Org

    @property
    def url(self) -> str:
        assert self.runtime.web is not None
        return self.runtime.web.url

    async def build(self) -> None:
        async with self.db.transaction(role="engine") as tx:
            new = NewSource(name="payments-stripe", provider="stripe", secrets=(SECRET,), mode="inline")
            await add(tx, secret_box(self.runtime.settings), new, actor="test")
        # Numbers of a are so large that they can be nothing else in any answer.
        self.b = await self._organization("bolt", "quokka")
        await self.db.execute("set role none; select setval('onceward.ids', 7000000000000); reset role")
        self.a = await self._organization("acme", "zebra")
        # The number of assigned ids is not secret, and must not look like one of the ids.
        await self.db.execute("set role none; select setval('onceward.ids', 7000000100000); reset role")

    async def own(self, org: Org, method: str, path: str, **options: Any) -> Any:
        """What an organization does for itself must work."""
        headers = {"Authorization": f"Bearer {org.key}", **options.pop("headers", {})}
        async with self.http.request(
            method, self.url + path, headers=headers, allow_redirects=False, **options
        ) as reply:
            text = await reply.read()
            assert reply.status < 400, (method, path, reply.status, text)
            return orjson.loads(text) if text[:1] in (b"{", b"[") else reply

    async def _organization(self, slug: str, animal: str) -> Org:
        settings = self.runtime.settings
        async with self.db.transaction(role="engine") as tx:
            made = await create_organization(tx, slug, name=f"public-{animal}", actor="test")
            key = await create_key(tx, name="root", organization=made.organization_id, scopes=["owner"], actor="test")
            user = await set_member(tx, made.organization_id, f"private-{animal}@example.org", "owner", actor="test")
            link = await link_for(tx, f"private-{animal}@example.org", actor="test")
            source = NewSource(
                name=f"private-{animal}", provider="stripe", secrets=(SECRET,), organization=made.organization_id
            )
            added = await add(tx, secret_box(settings), source, actor="test")
        org = Org(made.organization_id, slug, f"private-{animal}", f"public-{animal}", key.text)
        org.ids |= {"slug": slug, "organization": str(org.id), "user": str(user), "source": source.name}
        async with self.http.post(f"{self.url}/login", data={"token": link}, allow_redirects=False) as reply:
            org.session = reply.cookies[SESSION].value
        async with self.http.get(f"{self.url}/api/v1/me", cookies={SESSION: org.session}) as reply:
            org.csrf = (await reply.json())["csrf_token"]
        await self._outbound(org)
        await self._tickets(org)
        await self._engagement(org)
        await coursegen.fill(self.db, org.id, org.private, org.ids, JWT_SECRET)
        await self._clinic(org)
        await self._courses(org)
        await fill_tables(self.db, org.id, added.webhook_id, org.private, org.ids)
        return org

    async def _outbound(self, org: Org) -> None:
        key = await self.own(org, "POST", "/api/v1/keys", json={"name": org.private, "scopes": ["viewer"]})
        org.ids["key"] = key["key"]["prefix"]
        endpoint = await self.own(
            org,
            "POST",
            "/api/v1/endpoints",
            json={
                "url": f"http://127.0.0.1:9009/{org.private}",
                "events": ["*"],
                "description": org.private,
                "ed25519": True,
            },
        )
        org.ids["endpoint"] = endpoint["endpoint"]["endpoint_id"]
        data = {
            "ticket_id": str(uuid4()),
            "event_id": str(uuid4()),
            "organization_id": str(org.id),
            "gate": org.private,
        }
        published = await self.own(
            org,
            "POST",
            "/api/v1/publish",
            json={"type": "ticket.scanned", "data": {**data, "scanned_at": datetime.now(UTC).isoformat()}},
            headers={"Idempotency-Key": f"{org.private}:scanned"},
        )
        org.ids |= {"message_id": published["message_id"], "published": str(published["id"])}
        [delivery] = await self.own(org, "GET", "/api/v1/deliveries")
        org.ids["delivery"] = str(delivery["id"])
        since = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
        resend = await self.own(org, "POST", "/api/v1/deliveries/replay", json={"since": since})
        org.ids["resend"] = str(resend["id"])
        portal = await self.own(org, "POST", "/api/v1/endpoints/portal", json={})
        org.ids |= {"portal": portal["url"].rpartition("token=")[2], "portal_id": portal["id"]}
        page = await self.http.get(
            f"{self.url}/portal/endpoints/{org.ids['endpoint']}", cookies={PORTAL_COOKIE: org.ids["portal"]}
        )
        org.ids["portal_csrf"] = (await page.text()).partition('name="csrf" value="')[2].partition('"')[0]
        told = {"type": org.private, "recipients": [org.private], "channels": ["dashboard"]}
        notified = await self.own(
            org, "POST", "/api/v1/notifications", json={**told, "message": {"title": org.private, "body": org.private}}
        )
        org.ids["notification"] = str(notified["id"])

    async def _engagement(self, org: Org) -> None:
        org.ids["engaged"] = str(uuid4())
        profile = {
            "whatsapp_jid": f"+55119{10_000_000 + len(org.private)}",
            "last_activity_at": (datetime.now(UTC) - timedelta(days=20)).isoformat(),
        }
        await self.own(org, "PUT", f"/api/v1/engagement/users/{org.ids['engaged']}", json=profile)

    async def _clinic(self, org: Org) -> None:
        org.ids["number"] = f"+1555{len(org.private):06}"
        async with self.db.transaction(role="engine") as tx:
            await senders.assign(tx, org.id, "twilio", org.ids["number"], actor="test")
        clinic = "/api/v1/clinic"
        await self.own(org, "PUT", clinic, json={"name": org.public})
        for name in ("patient", "leaver"):
            org.ids[name] = (await self.own(org, "POST", f"{clinic}/patients", json={"name": org.private}))["id"]
        for hour, name in enumerate(("appointment", "visit", "paid_visit"), 10):
            visit = {"patient_id": org.ids["patient"], "starts_at": f"2031-06-21T{hour}:00:00Z", "price": 100}
            if name == "visit":
                visit["doctor"] = org.private
            row = await self.own(org, "POST", f"{clinic}/appointments", json=visit)
            org.ids[name] = row["id"]
            if name == "visit":
                org.ids["doctor"] = row["doctor_id"]
        await self.db.execute(PAID_VISIT, org.id, org.ids["paid_visit"], org.private)
        for name in ("inbound", "question"):
            inbound = await self.db.fetchval(
                "insert into clinic.inbound_messages (organization_id, channel, provider_id, kind, text, needs_answer)"
                " values ($1, 'sms', $2, 'text', $3, true) returning id",
                org.id,
                f"{name}_{org.private}",
                org.private,
            )
            org.ids[name] = str(inbound)

    async def _tickets(self, org: Org) -> None:
        venue = await self.own(org, "POST", "/api/v1/ticketing/venues", json={"name": org.public})
        begin = datetime.now(UTC) + timedelta(days=30)
        event = await self.own(
            org,
            "POST",
            "/api/v1/ticketing/events",
            json={
                "venue_id": venue["id"],
                "name": org.public,
                "starts_at": begin.isoformat(),
                "ends_at": (begin + timedelta(hours=2)).isoformat(),
                "currency": "EUR",
                "sections": [{"name": org.public, "price_cents": 1000, "rows": {"A": 8}}],
            },
        )
        event_id = event["id"]
        await self.own(org, "POST", f"/api/v1/ticketing/events/{event_id}/status", json={"status": "on_sale"})
        new = {"code": org.private.upper(), "percent_bps": 100}
        org.ids["coupon"] = (await self.own(org, "POST", "/api/v1/ticketing/coupons", json=new))["id"]
        shown = await self.own(org, "GET", f"{PUBLIC}/events/{event_id}")
        org.ids["section"] = shown["sections"][0]["id"]
        row = shown["sections"][0]["rows"][0]
        seats = [f"{row['label']}{n + 1}" for n in range(row["seats"])]
        org.ids |= {"venue": venue["id"], "event": event_id, "seat": seats[5], "free": seats[6]}
        org.ids["label"] = seats[7]
        sold = await self._checkout(org, event_id, seats[0:2])
        started = await self._checkout(org, event_id, seats[2:3])
        held = await self.own(org, "POST", f"{PUBLIC}/events/{event_id}/holds", json={"seats": [seats[5]]})
        org.ids |= {"basket": held["basket"], "hold": held["holds"][0]["id"]}
        org.ids |= {"checkout": sold["id"], "order_token": sold["token"]}
        org.ids |= {"started": started["id"], "started_token": started["token"]}
        row = await self.db.fetchrow("select * from ticketing.checkouts where id = $1", UUID(sold["id"]))
        paid = await self.db.fetchval(TICKET_PAYMENT, UUID(sold["id"]), org.private)
        body = orjson.dumps(charge(row, paid))
        signed = get_provider("stripe").sign(SourceConfig(provider="stripe", secrets=(SECRET,)), body, time.time())
        async with self.http.post(f"{self.url}/webhooks/payments/stripe", data=body, headers=signed) as reply:
            assert reply.status == 200, await reply.text()
        of_order = "select * from ticketing.tickets where checkout_id = $1 order by id"
        ticket, given = await self.db.fetch(of_order, UUID(sold["id"]))
        to = {"token": sold["token"], "email": f"{org.private}@example.org", "name": org.private}
        moved = await self.own(org, "POST", f"/orders/{sold['id']}/tickets/{given['id']}/transfer", json=to)
        mail = "select data->>'ticket_url' from onceward.messages where key = $1"
        link = await self.db.fetchval(mail, f"ticket:{moved['ticket_id']}:transferred")
        org.ids |= {"held": moved["ticket_id"], "holder_token": link.partition("access=")[2]}
        org.ids |= {"ticket": str(ticket["id"]), "code": ticket["ticket_code"]}
        door = await self.own(org, "POST", f"/api/v1/ticketing/events/{event_id}/doors", json={"name": org.private})
        org.ids |= {"door": door["id"], "door_token": door["url"].partition("#")[2]}
        for name in ("failed_refund", "unpaid_refund"):
            org.ids[name] = str(await self.db.fetchval(FAILED_REFUND, UUID(sold["id"]), org.private))

    async def _courses(self, org: Org) -> None:
        begin = datetime.now(UTC) + timedelta(days=30)
        dates = {"starts_at": begin.isoformat(), "ends_at": (begin + timedelta(days=30)).isoformat()}
        new = {**dates, "max_capacity": 5, "price": 0, "currency": "EUR"}
        path = "/api/v1/learning/cohorts"
        draft = await self.own(org, "POST", path, json={**new, "name": org.private})
        cohort = (await self.own(org, "POST", path, json={**new, "name": org.public}))["id"]
        item = await self.own(
            org, "POST", f"{path}/{cohort}/items", json={"kind": "lesson", "title": org.private, "is_prep": True}
        )
        session = {"title": org.public, "starts_at": dates["starts_at"], "ends_at": dates["ends_at"]}
        session = await self.own(org, "POST", f"{path}/{cohort}/sessions", json=session)
        await self.own(org, "POST", f"{path}/{cohort}/status", json={"status": "OPEN"})
        person = {"email": f"student-{org.private}@example.org", "name": org.private}
        enrolled = await self.own(org, "POST", f"{path}/{cohort}/enrollments", json={**person, "reason": "a test"})
        for status in ("CONFIRMED", "IN_PROGRESS"):
            await self.own(org, "POST", f"{path}/{cohort}/status", json={"status": status})
        enrollment, student = UUID(enrolled["enrollment_id"]), UUID(enrolled["user_id"])
        claims = {"sub": str(student), "exp": 2**33, "organization_id": str(org.id)}
        org.ids |= {"cohort": cohort, "draft": draft["id"], "item": item["id"], "session": session["id"]}
        org.ids |= {"enrollment": str(enrollment), "student": str(student), "credential": f"OW-{org.private}"}
        org.ids["school"] = str(org.id)
        org.ids["student_jwt"] = pyjwt.encode(claims, JWT_SECRET, "HS256")
        # The key that signs links is made at its first use.
        as_student = {"Authorization": f"Bearer {org.ids['student_jwt']}"}
        await self.own(org, "GET", f"/learn/home/{enrollment}", headers=as_student)
        for name, statement in COURSE_ROWS.items():
            row = await self.db.fetchval(statement, org.id, UUID(cohort), student, enrollment, org.private)
            org.ids[name] = str(row)

    async def _checkout(self, org: Org, event_id: str, seats: list[str]) -> Any:
        held = await self.own(org, "POST", f"{PUBLIC}/events/{event_id}/holds", json={"seats": seats})
        buyer = {"event_id": event_id, "email": f"{org.private}@example.org", "name": org.private}
        headers = {"x-basket": held["basket"], "Authorization": f"Bearer {org.token()}"}
        return await self.own(org, "POST", f"{PUBLIC}/checkouts", json=buyer, headers=headers)

"""What tests of the clinic do again and again: patients, appointments, webhooks of four providers, a clock."""

from __future__ import annotations

import time
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.http import ServiceClient
from onceward.integrations.daily import Daily, DailySimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.stripe.client import Stripe
from onceward.integrations.twilio import Twilio, TwilioSimulator
from onceward.integrations.twilio.channel import SmsChannel
from onceward.integrations.whatsapp import WhatsApp, WhatsAppSimulator
from onceward.integrations.whatsapp.channel import WhatsAppChannel
from onceward.messages import Sender, SenderKind, SendingOptions, senders
from onceward.schedules import RunReport, Scheduler, run_here, run_now
from onceward.testing import FrozenClock, TestInbox, drain
from onceward_apps.clinic import bookings, payments

NOON = datetime(2020, 11, 16, 12, 0, tzinfo=UTC)
PHONE = "+6591234567"
PHONE_NUMBER_ID = "100200300"
ACTOR = "test"


class Practice:
    """One clinic in Singapore, on a clock that stands still until it is moved."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry, event_types=app.event_types)
        self.clock = FrozenClock(db, NOON)
        self.inbox = TestInbox(self.engine, app)
        self.stripe = StripeSimulator()
        self.whatsapp = WhatsAppSimulator()
        self.twilio = TwilioSimulator()
        self.daily = DailySimulator()
        self.organization: UUID
        self._delivered: set[str] = set()

    async def open(self) -> Practice:
        for each in (self.stripe, self.whatsapp, self.twilio, self.daily):
            await each.start()
        await self._connect(
            stripe=self.stripe.url, whatsapp=self.whatsapp.url, twilio=self.twilio.url, daily=self.daily.url
        )
        self.organization = await self.add_organization("harbour")
        await Scheduler(self.db, self.app.schedules.values()).register()
        await self.clock.__aenter__()
        await self.inbox.__aenter__()
        async with self.acting() as tx:
            await bookings.save_clinic(
                tx, name="Harbour", timezone="Asia/Singapore", locale="en", country_code="65", actor=ACTOR
            )
        return self

    async def join(self, urls: dict[str, str]) -> Practice:
        """Work in the practice that another process has opened, with that process's simulated providers."""
        await self._connect(**urls)
        return self

    async def _connect(self, *, stripe: str, whatsapp: str, twilio: str, daily: str) -> None:
        """Use the providers at these addresses."""
        self._client = ServiceClient()
        services = self.app.services
        sms = Twilio(
            self._client, self.twilio.account_sid, self.twilio.auth_token, sender="+6580000000", base_url=twilio
        )
        chat = WhatsApp(self._client, self.whatsapp.phone_number_id, "token", base_url=whatsapp)
        services.use("stripe", Stripe(self._client, "sk_test_1", base_url=stripe))
        services.use("daily", Daily(self._client, "key", base_url=daily))
        services.use("twilio", sms)
        services.use("whatsapp", chat)
        channels = [WhatsAppChannel(chat, now=lambda: self.clock.at), SmsChannel(sms, sender="+6580000000")]
        self.sender = Sender(self.db, channels, self.engine.templates, options=SendingOptions(default_locale="en"))
        self.sender.install(self.app.registry)
        await self.engine.start()

    async def leave(self) -> None:
        """Close what `join` has opened."""
        await self.engine.stop()
        await self.sender.aclose()
        await self._client.aclose()
        await self.app.services.aclose()

    async def close(self) -> None:
        await self.inbox.__aexit__(None, None, None)
        await self.leave()
        for each in (self.stripe, self.whatsapp, self.twilio, self.daily):
            await each.stop()

    async def add_organization(self, slug: str) -> UUID:
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id", slug
        )

    async def assign_sender(self, kind: SenderKind, identifier: str, organization: UUID | None = None) -> None:
        async with self.db.transaction(role="engine") as tx:
            await senders.assign(tx, organization or self.organization, kind, identifier, actor="test")

    def acting(self, organization: UUID | None = None) -> AbstractAsyncContextManager[Tx]:
        return self.engine.transaction(organization=organization or self.organization)

    # -- patients and appointments -------------------------------------------------------------------------------------

    async def patient(self, name: str = "Ann Tan", *, organization: UUID | None = None, **fields: Any) -> UUID:
        data = bookings.PatientData(name=name, **(fields or {"whatsapp": PHONE}))
        async with self.acting(organization) as tx:
            return (await bookings.save_patient(tx, None, data, actor=ACTOR))["id"]

    async def appointment(
        self,
        patient: UUID | None = None,
        *,
        hours: float = 48,
        price: int = 0,
        room: bool = False,
        organization: UUID | None = None,
    ) -> UUID:
        patient = patient or await self.patient(organization=organization)
        async with self.acting(organization) as tx:
            row = await bookings.create(
                tx, patient, self.clock.at + timedelta(hours=hours), price=price, currency="SGD", actor=ACTOR
            )
            if room:
                await bookings.request_room(tx, row["id"])
        return row["id"]

    async def row(self, appointment: UUID) -> Any:
        return await self.db.fetchrow("select * from clinic.appointments where id = $1", appointment)

    async def status(self, appointment: UUID) -> tuple[str, str]:
        row = await self.row(appointment)
        return row["status"], row["payment_status"]

    # -- webhooks ------------------------------------------------------------------------------------------------------

    async def sources(self, *, organization: UUID | None = None) -> None:
        """Add the four sources: of the clinic, or of another organization."""
        owner = organization or self.organization
        await self.inbox.add_source("clinic-stripe", provider="stripe", organization=owner)
        await self.inbox.add_source(
            "clinic-whatsapp", provider="whatsapp", organization=owner, options={"verify_token": "token"}
        )
        await self.inbox.add_source(
            "clinic-twilio", provider="twilio", organization=owner, public_url="https://clinic.example"
        )
        await self.inbox.add_source("daily", provider="daily", organization=owner)

    async def handled(self, event_id: str) -> Any:
        """Handle what is due, and return what the event caused."""
        await drain(self.engine)
        result = await self.db.fetchval(
            "select a.result from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
            " where e.event_id = $1 and a.outcome = 'success' limit 1",
            event_id,
        )
        return result and (result["effect"] if "effect" in result else result["payments"])

    async def link(self, appointment: UUID, *, organization: UUID | None = None) -> str:
        """Send the patient a payment link, follow it, and return the id of Stripe's page."""
        organization = organization or self.organization
        async with self.acting(organization) as tx:
            await payments.request_link(tx, appointment)
            payment = (await tx.payments.of("appointment", appointment))[-1]
        found = await self.app.payments.visit(self.engine, payment.id, organization=organization)
        assert found.state == "page", found
        assert found.url is not None
        return found.url.rsplit("/", 1)[-1]

    async def pay(self, appointment: UUID, *, organization: UUID | None = None) -> str:
        """Let the patient pay on the page behind the link, and return Stripe's id of the payment."""
        intent = self.stripe.pay(await self.link(appointment, organization=organization))["payment_intent"]
        await self.deliver_stripe()
        return intent

    async def deliver_stripe(self, *, again: bool = False) -> None:
        """Post what Stripe has reported, and do the work, until nothing is left; with `again` all of it once more."""
        if again:
            self._delivered.clear()
        for _ in range(20):
            posted = await self.post_stripe(again=again)
            if not await drain(self.engine) and not posted:
                return

    async def post_stripe(self, *, again: bool = False) -> int:
        """Post what Stripe has reported since the last time, and return how much it was."""
        fresh = [each for each in self.stripe.books.events.values() if each["id"] not in self._delivered]
        for event in fresh:
            self._delivered.add(event["id"])
            posted = {**event, "id": f"{event['id']}_again"} if again else event
            assert (await self.inbox.post(posted, source="clinic-stripe")).status == 200
        return len(fresh)

    async def payments(self) -> list[Any]:
        return await self.db.fetch("select * from onceward.payments order by created_at, id")

    async def refunds(self) -> list[tuple[int, str, str]]:
        rows = await self.db.fetch("select * from onceward.payment_refunds order by created_at, id")
        return [(row["amount"], row["status"], row["reason"]) for row in rows]

    async def stripe_event(
        self, type: str, found: dict[str, Any], *, event_id: str | None = None, created: int | None = None
    ) -> Any:
        event_id = event_id or f"evt_{uuid4().hex}"
        payload = {"id": event_id, "object": "event", "type": type, "created": created, "data": {"object": found}}
        reply = await self.inbox.post(payload, source="clinic-stripe")
        assert reply.status == 200, reply
        return await self.handled(event_id)

    async def write(self, text: str, *, sender: str = PHONE, wamid: str | None = None, **message: Any) -> Any:
        """Deliver a WhatsApp message, and return what it caused."""
        wamid = wamid or f"wamid.{uuid4().hex}"
        content = {"from": sender.lstrip("+"), "id": wamid, "timestamp": str(int(time.time()))}
        content |= {"type": "text", "text": {"body": text}}
        await self.deliver([{**content, **message}])
        return await self.handled(wamid)

    async def deliver(self, messages: list[Any], statuses: list[Any] | None = None) -> Any:
        value = {
            "metadata": {"display_phone_number": "1", "phone_number_id": PHONE_NUMBER_ID},
            "messages": messages,
            "statuses": statuses or [],
        }
        change = {"field": "messages", "value": value}
        payload = {"object": "whatsapp_business_account", "entry": [{"id": "1", "changes": [change]}]}
        reply = await self.inbox.post(payload, source="clinic-whatsapp")
        assert reply.status == 200, reply
        return reply

    async def text(self, body: str, *, sender: str = PHONE, sid: str | None = None) -> Any:
        """Deliver a text message over Twilio, and return what it caused."""
        sid = sid or f"SM{uuid4().hex}"
        fields = {"MessageSid": sid, "SmsStatus": "received", "From": sender, "To": "+6580000000", "Body": body}
        reply = await self.inbox.post(fields, source="clinic-twilio")
        assert reply.status == 204, reply
        return await self.handled(f"{sid}:received")

    async def video(self, type: str, payload: dict[str, Any], *, id: str | None = None) -> Any:
        """Deliver an event of Daily, and return what it caused."""
        id = id or f"daily-{uuid4().hex}"
        body = {"version": "1.0.0", "type": type, "id": id, "payload": payload, "event_ts": 1.5}
        reply = await self.inbox.post(body, source="daily")
        assert reply.status == 200, reply
        return await self.handled(id)

    async def start(self, name: str) -> None:
        """Let a run of a schedule be due, which `drain` then does."""
        await self.clock.advance(microseconds=1)
        async with self.engine.transaction() as tx:
            await tx.become_engine()
            await run_now(tx, self.app.schedules[name], by="test")

    async def run(self, name: str) -> RunReport:
        await self.clock.advance(microseconds=1)  # two runs of a schedule are never due at the same moment
        report = await run_here(self.db, self.app.schedules[name], open_tx=self.engine.open_tx, by="test")
        assert report.status == "success", report
        return report

    async def drain(self) -> None:
        await drain(self.engine)

    async def messages(self) -> list[Any]:
        return await self.db.fetch("select * from clinic.message_states order by message_id")

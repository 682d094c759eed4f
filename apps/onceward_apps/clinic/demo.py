"""A simulation for the demo: a clinic with simulated Stripe, WhatsApp and Daily, a laboratory, and patients who come
and go.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls no
external service. Besides the normal path (booked, paid, confirmed, met, recorded) it shows failures: a card that is
declined, a second payment that is refunded, a cancellation with its refund, a message that waits for an answer, a
recording that fails, and a webhook of the laboratory that fails until an operator repairs the patient's data
and replays it.
"""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson
import structlog

from onceward import Context, Engine
from onceward.background import Loop, Tasks
from onceward.http import ServiceClient
from onceward.inbox import sources
from onceward.integrations.daily import DailySimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.whatsapp import WhatsAppSimulator
from onceward.testing import until
from onceward.trust import create_organization, put_secret
from onceward.web import WebServer
from onceward.webhooks import SourceConfig, get_provider
from onceward_apps.clinic import bookings, payments
from onceward_apps.clinic.app import APPOINTMENT, STRIPE, app
from onceward_apps.clinic.daily_handlers import SOURCE as DAILY
from onceward_apps.clinic.demo_lab import SOURCE as LAB
from onceward_apps.clinic.demo_lab import TYPE as RESULT_READY
from onceward_apps.clinic.message_handlers import WHATSAPP

log = structlog.get_logger(__name__)

SLUG = "harbour-clinic"
PAUSE_S = 12.0
PRICE = 8000
FATES = (
    ("pays and meets", 6),
    ("is declined, then pays", 2),
    ("pays twice", 1),
    ("pays and cancels", 2),
    ("asks", 2),
    ("recording fails", 1),
    ("result fails", 1),
)
NAMES = ("Ann Tan", "Ben Lim", "Chen Wei", "Devi Nair", "Eva Rossi", "Farid Aziz", "Grace Ong", "Hugo Silva")


class ClinicDemo:
    """A part of the process. Without a `crowd` the only patients are calls of `visit`."""

    def __init__(
        self,
        context: Context,
        *,
        crowd: bool = True,
        outgoing: WhatsAppSimulator | None = None,
        stripe: StripeSimulator | None = None,
    ) -> None:
        """`outgoing` receives what the clinic sends, `stripe` takes the payments: demos of one process share them."""
        self._context = context
        self._outgoing = outgoing
        self._crowd = crowd
        self._owns_stripe = stripe is None
        self.stripe = stripe or StripeSimulator()
        self.whatsapp = WhatsAppSimulator(phone_number_id="500600700")
        self.daily = DailySimulator()
        self.dice = random.Random()
        self.organization: UUID | None = None
        self._secret = f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"
        self._seen: set[str] = set()
        self._client = ServiceClient()
        self._tasks = Tasks("demo clinic")
        self._loops = (Loop("demo clinic relay", self._relay), Loop("demo patients", self._patients))
        self._is_open = False

    @property
    def engine(self) -> Engine:
        return self._context.engine

    @property
    def base_url(self) -> str:
        return self._context.part(WebServer).url

    async def open_services(self) -> None:
        """Start the simulated services and call them from now on. The second call changes nothing."""
        if self._is_open:
            return
        self._is_open = True
        await self.whatsapp.start()
        await self.daily.start()
        if self._owns_stripe:
            await self.stripe.start()
            settings = app.services.settings
            app.services.configure(settings.model_copy(update={"public_url": settings.public_url or self.base_url}))
            app.services.simulate("stripe", self.stripe.url)
        if self._outgoing is None:
            app.services.simulate("whatsapp", self.whatsapp.url)
        app.services.simulate("daily", self.daily.url)

    async def start(self) -> None:
        await self.open_services()
        await self.set_up()
        self._seen = set(self.stripe.books.events)
        await self._loops[0].start()
        log.info("demo.clinic_opened", page=f"{self.base_url}/dashboard/clinic")
        if self._crowd:
            await self._loops[1].start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._tasks.stop()
        await self.whatsapp.stop()
        await self.daily.stop()
        if self._owns_stripe:
            await self.stripe.stop()
        await self._client.aclose()

    async def set_up(self) -> None:
        """Create the clinic and its webhook sources, unless they exist."""
        hmac = base64.b64encode(secrets.token_bytes(32)).decode()
        async with self.engine.db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = $1", SLUG)
            if existing is None:
                existing = (await create_organization(tx, SLUG, name="Harbour Clinic", actor="demo")).organization_id
            self.organization = existing
            for known in await sources.list_sources(tx):
                if known.name in (WHATSAPP, DAILY, STRIPE, LAB) and known.origin == "stored":
                    await sources.delete(tx, known.name, actor="demo")
            options: dict[str, Any] = {"verify_token": "demo"}
            for new in (
                sources.NewSource(
                    name=WHATSAPP,
                    provider="whatsapp",
                    secrets=(self.whatsapp.app_secret,),
                    organization=existing,
                    options=options,
                ),
                sources.NewSource(name=DAILY, provider="daily", secrets=(hmac,), organization=existing),
                sources.NewSource(name=STRIPE, provider="stripe", secrets=(self._secret,), organization=existing),
                sources.NewSource(name=LAB, provider="standard", secrets=(self._secret,), organization=existing),
            ):
                await sources.add(tx, self._context.box, new, actor="demo")
        self.whatsapp.send_webhooks_to(f"{self.base_url}/webhooks/{WHATSAPP}")
        self.daily.send_webhooks_to(f"{self.base_url}/webhooks/{DAILY}", secret=hmac)
        account = self._outgoing or self.whatsapp
        async with self.engine.db.transaction(role="engine", organization=existing) as tx:
            await put_secret(tx, self._context.box, "whatsapp.access_token", "demo-token")
            await put_secret(tx, self._context.box, "whatsapp.phone_number_id", account.phone_number_id)
        async with self.engine.transaction(organization=existing) as tx:
            await bookings.save_clinic(
                tx, name="Harbour Clinic", timezone="Asia/Singapore", locale="en", country_code="65", actor="demo"
            )

    async def _patients(self) -> None:
        names, weights = zip(*FATES, strict=True)
        while True:
            self._tasks.start(self._visit(self.dice.choices(names, weights)[0]))
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.7, 1.3))

    async def _visit(self, fate: str) -> None:
        try:
            await self.visit(fate)
        except Exception:
            log.exception("demo.patient_failed", fate=fate)

    async def visit(self, fate: str) -> UUID:
        """Let a patient book for the next minutes, and do what `fate` names. Return the appointment."""
        number = f"+659{self.dice.randrange(1_000_000, 9_999_999)}"
        name = self.dice.choice(NAMES)
        async with self.engine.transaction(organization=self.organization) as tx:
            data = bookings.PatientData(name=name, whatsapp=number)
            patient = await bookings.save_patient(tx, None, data, actor="demo")
            # Who cancels in time gets the price back.
            starts_at = datetime.now(UTC) + (timedelta(days=2) if fate == "pays and cancels" else timedelta(minutes=2))
            row = await bookings.create(tx, patient["id"], starts_at, price=PRICE, currency="SGD", actor="demo")
            room = await bookings.request_room(tx, row["id"])
            await payments.request_link(tx, row["id"])
        log.info("demo.appointment_booked", appointment_id=str(row["id"]), fate=fate)
        if fate == "asks":
            self.whatsapp.receive_text(number, "Can I bring my child?")
            return row["id"]
        await self._pay(row["id"], fate)
        await self._pause(1, 3)
        match fate:
            case "pays and cancels":
                self.whatsapp.receive_text(number, "cancel")
            case "result fails":
                await self._send_result()
            case _:
                self.whatsapp.receive_text(number, "confirm")
                await until(lambda: self._has_status(row["id"], "confirmed"), timeout_s=60)
                await self._meet(room, name, fate)
        return row["id"]

    async def _pay(self, appointment: UUID, fate: str) -> None:
        """Pay on the page behind the link, as soon as the link was sent."""
        session = await until(lambda: self._session(appointment), timeout_s=60)
        await self._pause(1, 3)
        if fate == "is declined, then pays":
            self.stripe.decline(session)
            await self._pause(2, 4)
        self.stripe.pay(session)
        if fate == "pays twice":
            self.stripe.pay_again(session)

    async def _has_status(self, appointment: UUID, status: str) -> bool:
        async with self.engine.transaction(organization=self.organization) as tx:
            return (await bookings.appointment(tx, appointment))["status"] == status

    async def _session(self, appointment: UUID) -> str | None:
        """Follow the link as the patient does, and return the id of Stripe's page."""
        assert self.organization is not None
        async with self.engine.transaction(organization=self.organization) as tx:
            [payment] = await tx.payments.of(APPOINTMENT, appointment)
        found = await app.payments.visit(self.engine, payment.id, organization=self.organization)
        return None if found.state != "page" or found.url is None else found.url.rsplit("/", 1)[-1]

    async def _send_result(self) -> None:
        """Send a result of the laboratory for a reference that no patient has yet."""
        reference = f"MRN-{self.dice.randrange(10_000, 99_999)}"
        await self._post(LAB, "standard", {"type": RESULT_READY, "data": {"id": uuid4().hex, "reference": reference}})

    async def _relay(self) -> None:
        """Send Stripe's events to our source: the account of the demo has one more endpoint."""
        while True:
            for event_id, event in list(self.stripe.books.events.items()):
                if event_id not in self._seen:
                    self._seen.add(event_id)
                    await self._post(STRIPE, "stripe", event)
            await asyncio.sleep(0.2)

    async def _post(self, source: str, kind: str, body: dict[str, Any]) -> None:
        """Send a signed webhook to this process, as the provider does."""
        provider = get_provider(kind)
        content = orjson.dumps(body)
        headers = provider.sign(SourceConfig(provider=kind, secrets=(self._secret,)), content, time.time())
        response = await self._client.request(
            "POST", f"{self.base_url}/webhooks/{source}", headers=headers, body=content
        )
        if not response.ok:
            log.warning("demo.webhook_refused", source=source, status=response.status)

    async def _pause(self, least_s: float, most_s: float) -> None:
        await asyncio.sleep(self.dice.uniform(least_s, most_s) if self._crowd else 0)

    async def _meet(self, room: str, name: str, fate: str) -> None:
        pause = 5.0 if self._crowd else 0.0
        host = self.daily.join(room, user_name="Dr. Koh", owner=True)
        guest = self.daily.join(room, user_name=name)
        recording = self.daily.start_recording(room)
        await asyncio.sleep(pause)
        if fate == "recording fails":
            self.daily.fail_recording(recording, "the disk of the demo is full")
        self.daily.leave(guest)
        self.daily.leave(host)
        if fate != "recording fails":
            self.daily.finish_recording(recording, duration_s=45)

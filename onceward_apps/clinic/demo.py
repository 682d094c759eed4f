"""A simulation for the demo: a clinic with simulated Stripe, WhatsApp, Twilio and Daily, and patients who come and go.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls no external
service. Besides the normal path (booked, confirmed, met, recorded) it shows a cancellation, a message that waits for an
answer, and a recording that fails.
"""

from __future__ import annotations

import asyncio
import base64
import random
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from onceward import Engine
from onceward.context import Context
from onceward.db import end
from onceward.http import ServiceClient
from onceward.inbox import sources
from onceward.services import Daily
from onceward.testing.simulators import DailySimulator, WhatsAppSimulator
from onceward.trust import create_organization, put_secret
from onceward.web import WebServer
from onceward_apps.clinic import booking
from onceward_apps.clinic.app import app
from onceward_apps.clinic.daily_handlers import SOURCE as DAILY
from onceward_apps.clinic.message_handlers import WHATSAPP

log = structlog.get_logger(__name__)

SLUG = "harbour-clinic"
PAUSE_S = 15.0
NAMES = ("Ann Tan", "Ben Lim", "Chen Wei", "Devi Nair", "Eva Rossi", "Farid Aziz", "Grace Ong", "Hugo Silva")


class ClinicDemo:
    """A part of the process. Without a `crowd` the only patients are calls of `visit`."""

    def __init__(self, context: Context, *, crowd: bool = True, outgoing: WhatsAppSimulator | None = None) -> None:
        """`outgoing` receives what the clinic sends. A process has one address of WhatsApp, which demos share."""
        self._context = context
        self._outgoing = outgoing
        self._crowd = crowd
        self.whatsapp = WhatsAppSimulator(phone_number_id="500600700")
        self.daily = DailySimulator()
        self.dice = random.Random()
        self.organization: UUID | None = None
        self._client: ServiceClient | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def engine(self) -> Engine:
        return self._context.engine

    async def start(self) -> None:
        await self.whatsapp.start()
        await self.daily.start()
        self._client = ServiceClient()
        if self._outgoing is None:
            settings = app.services.settings.model_copy(update={"whatsapp_url": self.whatsapp.url})
            app.services.configure(settings)
        app.services.use("daily", Daily(self._client, "demo-key", base_url=self.daily.url))
        await self.set_up()
        log.info("demo.clinic_opened", page=f"{self._context.part(WebServer).url}/dashboard/clinic")
        if self._crowd:
            self._go(self._patients())

    async def stop(self) -> None:
        await end(*self._tasks)
        await self.whatsapp.stop()
        await self.daily.stop()
        if self._client is not None:
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
                if known.name in (WHATSAPP, DAILY) and known.origin == "stored":
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
            ):
                await sources.add(tx, self._context.box, new, actor="demo")
        url = self._context.part(WebServer).url
        self.whatsapp.send_webhooks_to(f"{url}/webhooks/{WHATSAPP}")
        self.daily.send_webhooks_to(f"{url}/webhooks/{DAILY}", secret=hmac)
        account = self._outgoing or self.whatsapp
        async with self.engine.db.transaction(role="engine", organization=existing) as tx:
            await put_secret(tx, self._context.box, "whatsapp.access_token", "demo-token")
            await put_secret(tx, self._context.box, "whatsapp.phone_number_id", account.phone_number_id)
        async with self.engine.transaction(organization=existing) as tx:
            await booking.save_clinic(
                tx, name="Harbour Clinic", timezone="Asia/Singapore", locale="en", country_code="65", actor="demo"
            )

    async def _patients(self) -> None:
        while True:
            self._go(self.visit(self.dice.choice(("meets", "meets", "cancels", "asks", "recording fails"))))
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.7, 1.3))

    def _go(self, what: Any) -> None:
        task = asyncio.create_task(what)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def visit(self, fate: str) -> UUID:
        """Let a patient book for the next minutes, and do what `fate` names. Return the appointment."""
        number = f"+659{self.dice.randrange(1_000_000, 9_999_999)}"
        name = self.dice.choice(NAMES)
        async with self.engine.transaction(organization=self.organization) as tx:
            data = booking.PatientData(name=name, whatsapp=number)
            patient = await booking.save_patient(tx, None, data, actor="demo")
            starts_at = datetime.now(UTC) + timedelta(minutes=2)
            row = await booking.create(tx, patient["id"], starts_at, price=0, currency="SGD", actor="demo")
            room = await booking.request_room(tx, row["id"])
        log.info("demo.appointment_booked", appointment_id=str(row["id"]), fate=fate)
        await asyncio.sleep(self.dice.uniform(1, 3) if self._crowd else 0)
        match fate:
            case "cancels":
                self.whatsapp.receive_text(number, "cancel")
            case "asks":
                self.whatsapp.receive_text(number, "Can I bring my child?")
            case _:
                self.whatsapp.receive_text(number, "confirm")
                await self._meet(room, name, fate)
        return row["id"]

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

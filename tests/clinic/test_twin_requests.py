"""Twin requests to the clinic: at once they leave what one would. See `tests/twins.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.desk.form_changes import version
from onceward.http import ServiceClient
from onceward.integrations.daily import Daily, DailySimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.work.settings import WorkSettings
from onceward_apps.clinic import app as clinic_app
from onceward_apps.clinic import checks
from onceward_apps.clinic.desk_actions import PatientForm, TimeForm
from onceward_apps.clinic.store import conversations, people
from tests import twins
from tests.clinic.test_http import URL, Site
from tests.twins import Case, Cases

DESK = "/dashboard/clinic"
PRICE = 8000
VALID = {
    "clinics": "select count(*) from clinic.clinics",
    "patients": "select count(*) from clinic.patients",
    "doctors": "select count(*) from clinic.doctors",
    "patients with a reference": "select count(*) from clinic.patients where reference is not null",
    "appointments": "select count(*) from clinic.appointments where status <> 'cancelled'",
    "appointments confirmed": "select count(*) from clinic.appointments where status = 'confirmed'",
    "appointments missed": "select count(*) from clinic.appointments where status = 'no_show'",
    "payment pages": "select coalesce(sum(payment_links), 0) from clinic.appointments",
    "payments": "select count(*) from onceward.payments",
    "refunds": "select count(*) from onceward.payment_refunds",
    "refunded": "select coalesce(sum(refunded), 0) from onceward.payments",
    "rooms": "select count(*) from clinic.rooms",
    "unanswered": "select count(*) from clinic.inbound_messages where needs_answer and answered_at is null",
    "messages to patients": f"select count(*) from onceward.messages where {twins.NO_NOTICE}",
    "published": "select count(*) from onceward.published",
}
EVERYTHING = {
    "appointments ever": "select count(*) from clinic.appointments",
    "history": "select count(*) from clinic.appointment_history",
    "contacts": "select count(*) from clinic.contacts",
    "outgoing": "select count(*) from clinic.outgoing",
    "audit": "select count(*) from onceward.audit_log where action <> 'organization.acted_for'",
}


class Stage(twins.Stage):
    """A clinic on a port, with what cases begin from."""

    valid = VALID
    everything = EVERYTHING

    def __init__(
        self, site: Site, key: str, organization: UUID, stripe: StripeSimulator, daily: DailySimulator
    ) -> None:
        assert site.process.web is not None
        super().__init__(site.process.web.url, site.db)
        self.site = site
        self.organization = organization
        self.stripe = stripe
        self.daily = daily
        self.staff = {"authorization": f"Bearer {key}"}

    def outside(self) -> dict[str, int]:
        books = self.stripe.books
        return {
            "payment pages at the service": len(books.sessions),
            "refunds at the service": len(books.refunds),
            "rooms at the service": len(self.daily.rooms),
        }

    async def patient(self, **fields: Any) -> str:
        body = {"name": f"Ann {next(self.numbers)}", "whatsapp": f"+659123{next(self.numbers):04d}", **fields}
        return (await self.site.ok("POST", f"{URL}/patients", json=body))["id"]

    async def appointment(self, **fields: Any) -> str:
        starts = datetime.now(UTC) + timedelta(days=2)
        visit = {"patient_id": await self.patient(), "starts_at": starts.isoformat(), "price": PRICE, "currency": "SGD"}
        return (await self.site.ok("POST", f"{URL}/appointments", json={**visit, **fields}))["id"]

    async def paid(self) -> str:
        """An appointment that the patient has paid on the page of the payment service."""
        id = await self.appointment()
        await self.site.ok("POST", f"{URL}/appointments/{id}/payment-link")
        engine = self.site.process.engine
        assert engine is not None
        async with engine.transaction(organization=self.organization) as tx:
            [payment] = await tx.payments.of("appointment", id)
        found = await clinic_app.payments.visit(engine, payment.id, organization=self.organization)
        assert found.url is not None
        self.stripe.pay(found.url.rsplit("/", 1)[-1])
        async with engine.transaction(organization=self.organization) as tx:
            await tx.payments.ask(payment.id)
        paid = "select payment_status = 'paid' from clinic.appointments where id = $1"
        await until(lambda: self.db.fetchval(paid, UUID(id)))
        return id

    async def question(self) -> int:
        """A message that waits for an answer."""
        assert self.site.process.engine is not None
        async with self.site.process.engine.transaction(organization=self.organization) as tx:
            contact = await people.contact(tx, f"+659555{next(self.numbers):04d}")
            id = await conversations.receive(tx, "whatsapp", f"wamid.{uuid4().hex}", "text", "May I come later?")
            assert id is not None
            known = {"contact_id": contact["id"], "patient_id": None, "appointment_id": None}
            await conversations.decide(tx, id, **known, outcome="question", needs_answer=True)
        return id


async def clinic(stage: Stage) -> Case:
    await stage.site.ok("PUT", URL, json={"name": "Harbour"})
    body = {"name": f"Harbour {next(stage.numbers)}", "country_code": "65"}
    return Case(URL, body, [{**body, "locale": "en"}], stage.staff)


async def patient(stage: Stage) -> Case:
    body = {"name": "Ann Tan", "reference": f"P-{next(stage.numbers)}"}
    return Case(f"{URL}/patients", body, [{**body, "name": f"Ann Tan {n}"} for n in range(4)], stage.staff)


async def patient_without_reference(stage: Stage) -> Case:
    body = {"name": "Ann Tan"}
    return Case(f"{URL}/patients", body, [], stage.staff, several="two patients may have the same name")


async def change_patient(stage: Stage) -> Case:
    body = {"name": "Ann Lim", "reference": f"P-{next(stage.numbers)}"}
    return Case(f"{URL}/patients/{await stage.patient()}", body, [{**body, "locale": "en"}], stage.staff)


async def edit_on_the_desk(stage: Stage) -> Case:
    body = {"ids": await stage.patient(name="Ann Tan"), "step": "run", "name": "Ann Lim"}
    row = await stage.db.fetchrow("select * from clinic.patients where id = $1", UUID(body["ids"]))
    form = PatientForm.model_validate({name: row[name] for name in PatientForm.model_fields})
    return Case(f"{DESK}/patients/do/edit", {**body, "stamp": version(form)}, [], stage.staff, form=True)


async def taken_reference(stage: Stage) -> Case:
    """Two patients get one reference at once: the second is refused with a reason."""
    name = f"P-{next(stage.numbers)}"
    bodies = [
        {"ids": await stage.patient(name="Ann"), "step": "run", "name": "Ann", "reference": name} for _ in range(2)
    ]
    for body in bodies:
        row = await stage.db.fetchrow("select * from clinic.patients where id = $1", UUID(body["ids"]))
        form = PatientForm.model_validate({name: row[name] for name in PatientForm.model_fields})
        body["stamp"] = version(form)
    return Case(f"{DESK}/patients/do/edit", bodies[0], bodies[1:], stage.staff, form=True)


async def appointment(stage: Stage) -> Case:
    starts = (datetime.now(UTC) + timedelta(days=3)).replace(microsecond=0)
    body = {"patient_id": await stage.patient(), "starts_at": starts.isoformat(), "price": PRICE}
    others = [{**body, "duration_minutes": 45}, {**body, "price": 9000}, {**body, "id": str(uuid4())}]
    return Case(f"{URL}/appointments", body, others, stage.staff)


async def appointment_with_id(stage: Stage) -> Case:
    case = await appointment(stage)
    body = {**case.body, "id": str(uuid4())}
    return Case(case.path, body, [{**body, "duration_minutes": 45}], stage.staff)


async def reschedule(stage: Stage) -> Case:
    starts = (datetime.now(UTC) + timedelta(days=4)).replace(microsecond=0)
    body = {"starts_at": starts.isoformat()}
    other = {"starts_at": starts.astimezone(timezone(timedelta(hours=8))).isoformat(), "duration_minutes": 30}
    return Case(f"{URL}/appointments/{await stage.appointment()}/reschedule", body, [other], stage.staff)


async def confirm(stage: Stage) -> Case:
    return Case(f"{URL}/appointments/{await stage.appointment()}/confirm", {}, [{"n": 1}], stage.staff)


async def no_show(stage: Stage) -> Case:
    return Case(f"{URL}/appointments/{await stage.appointment()}/no-show", {}, [{"n": 1}], stage.staff)


async def cancel(stage: Stage) -> Case:
    path = f"{URL}/appointments/{await stage.paid()}/cancel"
    return Case(path, {"reason": "storm"}, [{"reason": f"storm {n}"} for n in range(4)], stage.staff)


async def payment_link(stage: Stage) -> Case:
    return Case(f"{URL}/appointments/{await stage.appointment()}/payment-link", {}, [{"n": 1}], stage.staff)


async def room(stage: Stage) -> Case:
    return Case(f"{URL}/appointments/{await stage.appointment()}/room", {}, [{"n": 1}], stage.staff)


async def refund(stage: Stage) -> Case:
    path = f"{URL}/appointments/{await stage.paid()}/refund"
    return Case(path, {"reason": "ill"}, [{"reason": f"ill {n}"} for n in range(4)], stage.staff)


async def partial_refund(stage: Stage) -> Case:
    path = f"{URL}/appointments/{await stage.paid()}/refund"
    return Case(path, {"amount": 1000, "reason": "late"}, [{"amount": 1000, "reason": " late "}], stage.staff)


async def answer(stage: Stage) -> Case:
    path = f"{URL}/messages/{await stage.question()}/answer"
    return Case(path, {"text": "Yes"}, [{"text": f"Yes {n}"} for n in range(4)], stage.staff)


async def answer_on_the_desk(stage: Stage) -> Case:
    body = {"ids": str(await stage.question()), "step": "run", "text": "Yes"}
    return Case(
        f"{DESK}/inbox/do/answer", body, [{**body, "text": f"Yes {n}"} for n in range(4)], stage.staff, form=True
    )


async def close_on_the_desk(stage: Stage) -> Case:
    body = {"ids": str(await stage.question()), "step": "run"}
    return Case(f"{DESK}/inbox/do/close", body, [{**body, "n": "1"}], stage.staff, form=True)


async def move_on_the_desk(stage: Stage) -> Case:
    id = await stage.appointment()
    starts = await stage.db.fetchval("select starts_at from clinic.appointments where id = $1", UUID(id))
    stamp = version(TimeForm(starts_at=starts, duration_minutes=30))
    body = {"ids": id, "step": "run", "stamp": stamp, "starts_at": "2031-05-01T09:00", "duration_minutes": "30"}
    return Case(f"{DESK}/appointments/do/move", body, [], stage.staff, form=True)


async def add_patient_on_the_desk(stage: Stage) -> Case:
    body = {"step": "run", "name": "Ann Tan", "reference": f"P-{next(stage.numbers)}"}
    return Case(f"{DESK}/patients/do/add_patient", body, [{**body, "name": "Ann T."}], stage.staff, form=True)


async def add_doctor_on_the_desk(stage: Stage) -> Case:
    body = {"step": "run", "name": f"Dr Lee {next(stage.numbers)}"}
    return Case(f"{DESK}/doctors/do/add_doctor", body, [{**body, "n": "1"}], stage.staff, form=True)


async def book_on_the_desk(stage: Stage) -> Case:
    body = {"ids": await stage.patient(), "step": "run", "starts_at": "2031-05-02T09:00", "duration_minutes": "30"}
    return Case(f"{DESK}/patients/do/book", body, [{**body, "duration_minutes": "45"}], stage.staff, form=True)


async def restore_on_the_desk(stage: Stage) -> Case:
    id = await stage.appointment()
    await stage.site.ok("POST", f"{URL}/appointments/{id}/cancel", json={"reason": "storm"})
    body = {"ids": id, "step": "run"}
    return Case(f"{DESK}/appointments/do/restore", body, [{**body, "n": "1"}], stage.staff, form=True)


def button(name: str, *, paid: bool = False, begun: bool = False, **given: str) -> Any:
    """The case of an action of the desk on an appointment, which has begun an hour ago or is in the future."""

    async def press(stage: Stage) -> Case:
        body = {"ids": await (stage.paid() if paid else stage.appointment()), "step": "run", **given}
        if begun:
            change = "update clinic.appointments set starts_at = onceward.now() - interval '1 hour' where id = $1"
            await stage.db.execute(change, UUID(body["ids"]))
        return Case(f"{DESK}/appointments/do/{name}", body, [{**body, "n": "1"}], stage.staff, form=True)

    return press


CASES: Cases[Stage] = {
    f"PUT {URL}": clinic,
    f"POST {URL}/patients": patient,
    f"POST {URL}/patients (without a reference)": patient_without_reference,
    f"PUT {URL}/patients/{{patient_id}}": change_patient,
    f"POST {URL}/appointments": appointment,
    f"POST {URL}/appointments (with an id)": appointment_with_id,
    f"POST {URL}/appointments/{{appointment_id}}/reschedule": reschedule,
    f"POST {URL}/appointments/{{appointment_id}}/confirm": confirm,
    f"POST {URL}/appointments/{{appointment_id}}/no-show": no_show,
    f"POST {URL}/appointments/{{appointment_id}}/cancel": cancel,
    f"POST {URL}/appointments/{{appointment_id}}/payment-link": payment_link,
    f"POST {URL}/appointments/{{appointment_id}}/room": room,
    f"POST {URL}/appointments/{{appointment_id}}/refund": refund,
    f"POST {URL}/appointments/{{appointment_id}}/refund (of a part)": partial_refund,
    f"POST {URL}/messages/{{message_id}}/answer": answer,
    f"POST {DESK}/appointments/do/confirm": button("confirm"),
    f"POST {DESK}/appointments/do/no_show": button("no_show", begun=True),
    f"POST {DESK}/appointments/do/cancel": button("cancel", paid=True, reason="ill"),
    f"POST {DESK}/appointments/do/create_room": button("create_room"),
    f"POST {DESK}/appointments/do/send_link": button("send_link"),
    f"POST {DESK}/appointments/do/refund": button("refund", paid=True, reason="ill"),
    f"POST {DESK}/appointments/do/move": move_on_the_desk,
    f"POST {DESK}/appointments/do/restore": restore_on_the_desk,
    f"POST {DESK}/appointments/do/write": button("write", text="Please come fasting."),
    f"POST {DESK}/patients/do/book": book_on_the_desk,
    f"POST {DESK}/patients/do/add_patient": add_patient_on_the_desk,
    f"POST {DESK}/doctors/do/add_doctor": add_doctor_on_the_desk,
    f"POST {DESK}/patients/do/edit": edit_on_the_desk,
    f"POST {DESK}/patients/do/edit (a taken reference)": taken_reference,
    f"POST {DESK}/inbox/do/answer": answer_on_the_desk,
    f"POST {DESK}/inbox/do/close": close_on_the_desk,
}


@pytest.fixture
async def stage(database_url: str, tmp_path: Path, app: Onceward) -> AsyncIterator[Stage]:
    stripe, daily, client = StripeSimulator(retry_delays_s=()), DailySimulator(), ServiceClient()
    await stripe.start()
    await daily.start()
    settings = Settings(
        database_url=SecretStr(database_url),
        data_dir=tmp_path,
        port=0,
        pool_max=8,
        shutdown_grace_s=1,
        simulators={"stripe": stripe.url},
    ).using(WorkSettings(poll_interval_ms=100), TrustSettings(secret_key=SecretStr("k" * 32)))
    whole = Onceward("practice")
    whole.include(app)
    process = Process(whole, settings, FEATURES)
    await process.start()
    app.services.use("daily", Daily(client, "key", base_url=daily.url))
    try:
        async with process.database.transaction(role="engine") as tx:
            made = await create_organization(tx, "harbour", name="Harbour", actor="test")
            key = await create_key(tx, name="k", organization=made.organization_id, scopes=["owner"], actor="test")
        async with aiohttp.ClientSession() as http:
            yield Stage(Site(process, http, key.text), key.text, made.organization_id, stripe, daily)
    finally:
        await process.stop()
        await client.aclose()
        await stripe.stop()
        await daily.stop()


def test_every_route_has_a_case(app: Onceward) -> None:
    assert twins.routes_of(CASES) == twins.written_routes(app)


@pytest.mark.timeout(180)
async def test_identical_and_nearly_identical_requests_at_once_leave_what_one_would(stage: Stage) -> None:
    await twins.expect_twins_to_leave_one(stage, CASES, checks.CHECKS)

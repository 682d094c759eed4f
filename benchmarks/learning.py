"""Measure the learning platform: webhook to enrolment, the query of the admin dashboard, the cancellation of a cohort.

`enrolment-p95` is the time from the arrival of a paid checkout to the committed enrolment, at 50 payments per second.
`dashboard` is the time of the admin query with many enrolments; its plan must not read the table of enrolments in full.
`cancel` is the time to refund every student of a cohort, in percent of what 10 refunds per second allow.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles
from typing import Any
from uuid import UUID, uuid4

from pydantic import SecretStr

from benchmarks.measure import Measurement, Size, compare
from onceward import Engine, Onceward
from onceward.db import Database, migrate
from onceward.integrations.stripe import StripeSimulator
from onceward.money import Money
from onceward.payments.service import PAYMENT_ID
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import TestInbox
from onceward.trust import SecretBox, create_organization
from onceward.trust.settings import TrustSettings
from onceward_apps.learning import app
from onceward_apps.learning.app import ACCOUNT, ENROLMENT
from onceward_apps.learning.cohorts import NewCohort, create_cohort, set_status
from onceward_apps.learning.store import checkouts, views

CASES = ("enrolment-p95", "dashboard", "cancel")

FILL = """
with people as (
    insert into learning.users (organization_id, email, name)
    select $1, 'bench' || n || '-' || gen_random_uuid() || '@example.org', 'Bench' from generate_series(1, $3::int) n
    returning id
)
insert into learning.enrollments (organization_id, user_id, cohort_id, amount_paid, currency, access_expires_at,
    enrolled_at, status)
select $1, id, $2, 49900, 'EUR', onceward.now(), onceward.now() - interval '90 days' * random(),
       case when row_number() over () % 5 = 0 then 'ACTIVE' else 'EXPIRED' end
  from people
"""
STUDENT = """
with person as (
    insert into learning.users (organization_id, email) values ($1, 'bench-' || gen_random_uuid() || '@example.org')
 returning id
), enrolled as (
    insert into learning.enrollments (organization_id, user_id, cohort_id, amount_paid, currency, access_expires_at)
    select $1, id, $2, 49900, 'EUR', onceward.now() + interval '60 days' from person returning id
)
insert into onceward.payments
       (organization_id, account_id, subject_type, subject_id, status, amount, currency, title, expires_at, received,
           charge,
        decision, paid_at)
select $1, a.id, 'enrolment', e.id::text, 'paid', 49900, 'EUR', 'Bench', onceward.now(), 49900, $3, 'accepted',
       onceward.now()
  from enrolled e, onceward.payment_account('learning', 'stripe', 'learning-stripe') a
"""


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases: milliseconds for the first two, percent of the ideal time for the third (100 is ideal)."""
    db = await Database.open(url, min_size=2, max_size=8)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.plus(app.features()).migrations)
        school = _School(db, url)
        await school.open()
        results: list[Measurement] = []
        if only in (None, "enrolment-p95"):
            results.append(await school.enrolments(size.pick(1000, 250, 5)))
        if only in (None, "dashboard"):
            results.append(await school.dashboard(size.pick(100_000, 20_000, 50), size.turns()))
        if only in (None, "cancel"):
            results.append(await school.cancel(size.pick(1000, 60, 3)))
        return results
    finally:
        await db.close()


KEY = "a key of the bench which is long enough"


class _School:
    def __init__(self, db: Database, url: str) -> None:
        self._db = db
        self._url = url
        self._engine = Engine(db, app.registry, event_types=app.event_types, box=SecretBox([KEY]))
        self._organization: UUID

    async def open(self) -> None:
        async with self._db.transaction(role="engine") as tx:
            self._organization = (await create_organization(tx, "bench", name="Bench", actor="bench")).organization_id

    async def _cohort(self, capacity: int) -> UUID:
        now = datetime.now(UTC)
        async with self._engine.transaction(organization=self._organization) as tx:
            new = NewCohort(
                name="Bench",
                starts_at=now + timedelta(days=30),
                ends_at=now + timedelta(days=60),
                max_capacity=capacity,
                price=49900,
                currency="EUR",
            )
            cohort = await create_cohort(tx, new, actor="bench")
            await set_status(tx, cohort["id"], "OPEN", actor="bench")
        return cohort["id"]

    async def enrolments(self, payments: int) -> Measurement:
        """Post signed webhooks at 50 per second, each handled in its request, and take the 95th percentile."""
        cohort = await self._cohort(payments)
        people = await self._db.fetch(
            "insert into learning.users (organization_id, email)"
            " select $1, 'payer' || n || '@example.org' from generate_series(1, $2::int) n returning id",
            self._organization,
            payments,
        )
        opened = [await self._open_page(cohort, person["id"]) for person in people]
        taken: list[float] = []

        async def pay(inbox: TestInbox, payment: UUID) -> None:
            began = time.perf_counter()
            answer = await inbox.post(_paid(payment), source="learning-stripe")
            taken.append((time.perf_counter() - began) * 1000)
            assert answer.json["status"] == "SUCCESS", answer

        async def ours() -> float:
            async with TestInbox(self._engine, app) as inbox:
                await inbox.add_source("learning-stripe", provider="stripe", mode="inline")
                began, tasks = time.perf_counter(), list[asyncio.Task[None]]()
                for n, payment in enumerate(opened):
                    await asyncio.sleep(max(0.0, began + n / 50 - time.perf_counter()))
                    tasks.append(asyncio.create_task(pay(inbox, payment)))
                await asyncio.gather(*tasks)
            return quantiles(taken, n=20)[-1]

        return await compare("learning", "enrolment-p95", ours, unit="ms", turns=1, smaller_is_better=True)

    async def _open_page(self, cohort: UUID, user: UUID) -> UUID:
        """Start a checkout, and return its payment. Nobody visits the page."""
        async with self._engine.transaction(organization=self._organization) as tx:
            checkout = await checkouts.add(
                tx, checkout_id=uuid4(), user_id=user, cohort_id=cohort, invite_id=None, claim_id=None, browser=""
            )
            page = await tx.payments.open(
                ENROLMENT,
                checkout["id"],
                amount=Money(49900, "EUR"),
                title="Bench",
                account=ACCOUNT,
                success_url="https://x.example",
            )
        return page.payment_id

    async def dashboard(self, enrollments: int, turns: int) -> Measurement:
        await self._db.execute(FILL, self._organization, await self._cohort(enrollments), enrollments)
        await self._db.execute("vacuum analyze learning.enrollments")
        midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        async with self._engine.transaction(organization=self._organization) as tx:
            plan = await tx.fetch("explain " + views.TOTALS, self._organization, midnight)
        text = "\n".join(row[0] for row in plan)
        if enrollments > 10_000:
            assert "Seq Scan on enrollments" not in text, text

        async def ours() -> float:
            async with self._engine.transaction(organization=self._organization) as tx:
                began = time.perf_counter()
                await views.totals(tx, self._organization, midnight)
                await views.revenue(tx, self._organization, midnight)
                await views.activities(tx, self._organization)
                return (time.perf_counter() - began) * 1000

        return await compare("learning", "dashboard", ours, unit="ms", turns=turns, smaller_is_better=True)

    async def cancel(self, students: int) -> Measurement:
        cohort = await self._cohort(students)
        async with StripeSimulator(retry_delays_s=()) as stripe:
            for _ in range(students):
                session = stripe.books.new_session(SESSION, pages_url=stripe.url)
                stripe.pay(session["id"])
                intent = stripe.books.sessions[session["id"]]["payment_intent"]
                await self._db.execute(STUDENT, self._organization, cohort, intent)
            with tempfile.TemporaryDirectory() as folder:
                taken_s = await self._cancelled(cohort, students, stripe, Path(folder))

        async def ours() -> float:
            return 100 * taken_s / (students / 10)

        return await compare("learning", "cancel", ours, unit="%", turns=1, smaller_is_better=True)

    async def _cancelled(self, cohort: UUID, students: int, stripe: StripeSimulator, folder: Path) -> float:
        """Cancel the cohort in a running process, and return the seconds until every refund was requested."""
        settings = Settings(
            database_url=SecretStr(self._url),
            data_dir=folder,
            port=0,
            simulators={"stripe": stripe.url},
        ).using(TrustSettings(secret_key=SecretStr(KEY)))
        whole = Onceward("bench")
        whole.include(app)
        process = Process(whole, settings, FEATURES)
        await process.start()
        assert process.engine is not None
        try:
            began = time.perf_counter()
            async with process.engine.transaction(organization=self._organization) as tx:
                await set_status(tx, cohort, "CANCELLED", actor="bench", reason="bench")
            asked = "select count(*) from onceward.payment_refunds where status in ('pending', 'done', 'failed')"
            while await self._db.fetchval(asked) < students:
                await asyncio.sleep(0.05)
            return time.perf_counter() - began
        finally:
            await process.stop()


PRODUCT = {"currency": "eur", "unit_amount": "49900", "product_data": {"name": "x"}}
SESSION: dict[str, Any] = {
    "line_items": {"0": {"quantity": "1", "price_data": PRODUCT}},
    "mode": "payment",
    "success_url": "https://x.example",
}


def _paid(payment: UUID) -> dict[str, Any]:
    """A paid checkout as Stripe reports it."""
    session = {
        "id": f"cs_{uuid4().hex}",
        "object": "checkout.session",
        "status": "complete",
        "payment_status": "paid",
        "payment_intent": f"pi_{uuid4().hex}",
        "amount_total": 49900,
        "currency": "eur",
        "metadata": {PAYMENT_ID: str(payment)},
    }
    event = {"id": f"evt_{uuid4().hex}", "object": "event", "type": "checkout.session.completed"}
    return event | {"created": int(time.time()), "data": {"object": session}}

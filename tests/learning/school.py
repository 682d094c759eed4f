"""What tests of the learning platform do again and again, in few words."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine
from onceward.db import Database
from onceward.integrations.stripe import StripeSimulator
from onceward.messages.settings import MessagesSettings
from onceward.payments.checks import CHECKS as PAYMENT_CHECKS
from onceward.payments.due import enqueue_due
from onceward.schedules import run_here
from onceward.settings import Settings
from onceward.testing import TestInbox, drain
from onceward.testing.webhook_inbox import BOX
from onceward_apps.learning import checkout, users
from onceward_apps.learning.app import app
from onceward_apps.learning.checks import CHECKS
from onceward_apps.learning.cohorts import NewCohort, create_cohort, set_status
from onceward_apps.learning.model import CohortStatus
from onceward_apps.learning.refund_requests import refund_enrollment

SOURCE = "learning-stripe"
PRICE = 49900


def zone_of_morning(now: datetime) -> str:
    """Return a time zone in which it is ten o'clock now, for what happens at a certain hour of a cohort's day."""
    ahead = 10 - now.astimezone(UTC).hour
    ahead += 24 if ahead < -12 else 0
    return f"Etc/GMT{-ahead:+d}" if ahead else "UTC"  # the names of these zones count westward


class School:
    """An engine, a receiver of webhooks, a simulated Stripe, and one organization."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.engine = Engine(db, app.registry, event_types=app.event_types, box=BOX)
        self.inbox = TestInbox(self.engine, app)
        self.stripe = StripeSimulator(retry_delays_s=())
        self.organization = uuid4()
        self._delivered: set[str] = set()

    @classmethod
    async def open(cls, db: Database, folder: Path, *, source: bool = True) -> School:
        made = cls(db)
        await made.stripe.start()
        await made._connect(folder, made.stripe.url)
        made.organization = await made.add_organization("school")
        if source:
            await made.inbox.add_source(SOURCE, provider="stripe")
        return made

    @classmethod
    async def join(cls, db: Database, folder: Path, stripe_url: str) -> School:
        """Work in the school that another process has opened, with that process's simulated Stripe."""
        made = cls(db)
        await made._connect(folder, stripe_url)
        made.organization = await db.fetchval(
            "select organization_id from onceward.organizations where slug = 'school'"
        )
        return made

    async def _connect(self, folder: Path, stripe_url: str) -> None:
        app.services.configure(
            Settings(
                data_dir=folder,
                public_url="https://learn.example",
                simulators={"stripe": stripe_url},
            ).using(MessagesSettings(admin_emails=("ops@example.org",)))
        )
        await self.engine.start()
        await self.inbox.__aenter__()

    async def leave(self) -> None:
        """Close what `join` has opened."""
        await self.inbox.__aexit__(None, None, None)
        await self.engine.stop()
        await app.services.aclose()

    async def close(self) -> None:
        await self.leave()
        await self.stripe.stop()

    # -- people and cohorts ------------------------------------------------------------------------------------------

    async def add_organization(self, slug: str) -> UUID:
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id", slug
        )

    def transaction(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def cohort(
        self,
        *,
        capacity: int = 10,
        price: int = PRICE,
        starts_in_days: float = 30,
        status: CohortStatus = "OPEN",
        name: str = "Data Engineering",
        **more: Any,
    ) -> UUID:
        """A cohort of four weeks. Its status is OPEN unless another one is named."""
        async with self.transaction() as tx:
            now = await tx.fetchval("select onceward.now()")
            new = NewCohort(
                name=name,
                starts_at=now + timedelta(days=starts_in_days),
                ends_at=now + timedelta(days=starts_in_days + 28),
                max_capacity=capacity,
                price=price,
                currency="EUR",
                **more,
            )
            cohort = await create_cohort(tx, new, actor="test")
            for step in ("OPEN", "CONFIRMED", "IN_PROGRESS", "COMPLETED"):
                if cohort["status"] == status:
                    break
                cohort = await set_status(tx, cohort["id"], step, actor="test")
        return cohort["id"]

    async def student(self, name: str | None = None) -> UUID:
        name = name or uuid4().hex[:8]
        async with self.transaction() as tx:
            return (await users.register(tx, email=f"{name.lower()}@example.org", name=name))["id"]

    async def set_status(self, cohort: UUID, status: CohortStatus, *, reason: str | None = None) -> None:
        async with self.transaction() as tx:
            await set_status(tx, cohort, status, actor="test", reason=reason)

    # -- payments ----------------------------------------------------------------------------------------------------

    async def start(
        self,
        cohort: UUID,
        student: UUID,
        *,
        invite: str | None = None,
        instalments: bool = False,
        is_known: bool = True,
        browser: str = "",
    ) -> str:
        """Start a checkout and return the id of its Stripe session."""
        started = await checkout.start_checkout(
            self.engine,
            self.organization,
            cohort_id=cohort,
            user_id=student,
            invite_token=invite,
            instalments=instalments,
            is_known=is_known,
            browser=browser,
        )
        return started.url.rsplit("/", 1)[-1]

    async def enrol(self, cohort: UUID, student: UUID | None = None, *, invite: str | None = None) -> UUID:
        """Start a checkout, pay, deliver the webhook. Returns the enrolment."""
        student = student or await self.student()
        session = await self.start(cohort, student, invite=invite)
        self.stripe.pay(session)
        await self.deliver()
        enrollment = await self.enrolled(session)
        assert enrollment is not None, "the payment did not enrol"
        return enrollment

    async def enrolled(self, session: str) -> UUID | None:
        """The enrolment that a payment page bought."""
        return await self.db.fetchval(
            "select e.id from onceward.payment_names n join onceward.payments p on p.id = n.payment_id"
            " and p.decision = 'accepted' join learning.enrollments e on e.id::text = p.subject_id where n.name = $1",
            session,
        )

    async def pay_as_stranger(self, cohort: UUID, student: UUID) -> str:
        """Pay for a person without being signed in: nothing says whether they are enrolled. Returns the session."""
        session = await self.start(cohort, student, is_known=False)
        self.stripe.pay(session)
        return session

    async def refund(self, enrollment: UUID, *, reason: str = "x", deliver: bool = True) -> list[UUID]:
        """Refund a student as an operator does."""
        async with self.transaction() as tx:
            refunds = await refund_enrollment(tx, enrollment, reason=reason, actor="ops")
        if deliver:
            await self.deliver()
        return refunds

    async def lapse(self) -> None:
        """Let the engine ask about everything that is due, and everything that waits be due, as time does."""
        await enqueue_due(self.db, self.engine.waker)
        await self.db.execute(
            "update onceward.work set sort_at = now() where kind <> 'message' and lease is null and dead_at is null"
        )
        await self.deliver()

    async def lose_holds(self) -> None:
        """Let the time of all held places end, while their payment pages stay open."""
        await self.db.execute(
            "update onceward.capacity_claims set expires_at = now() - interval '1 second' where state = 'held'"
        )

    def events(self, *types: str, fresh: bool = True) -> list[dict[str, Any]]:
        """The events that Stripe has sent so far, oldest first; with `fresh` those that `deliver` has not posted."""
        return [
            event
            for event in self.stripe.books.events.values()
            if (not types or event["type"] in types) and not (fresh and event["id"] in self._delivered)
        ]

    async def deliver(self, *types: str, run: bool = True, order: Callable[[Any], Any] | None = None) -> None:
        """Post the new events of Stripe and run the work, until neither has anything new."""
        for _ in range(20):
            fresh = self.events(*types)
            for event in sorted(fresh, key=order) if order else fresh:
                await self.post(event)
            ran = await drain(self.engine) if run else 0
            if not fresh and not ran:
                return

    async def post(self, event: dict[str, Any]) -> None:
        self._delivered.add(event["id"])
        answer = await self.inbox.post(event, source=SOURCE)
        assert answer.status == 200, answer

    async def send(self, type: str, thing: dict[str, Any], *, event_id: str | None = None, run: bool = True) -> Any:
        """Post an event that the simulator does not make. Returns the result of its handler."""
        event_id = event_id or f"evt_{uuid4().hex}"
        created = int((await self.db.fetchval("select onceward.now()")).timestamp())
        await self.post(
            {"id": event_id, "object": "event", "type": type, "created": created, "data": {"object": thing}}
        )
        if run:
            await drain(self.engine)
        return await self.result(event_id)

    async def result(self, event_id: str) -> Any:
        return await self.db.fetchval(
            "select a.result from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
            " where e.event_id = $1 order by a.finished_at desc limit 1",
            event_id,
        )

    async def results(self) -> list[Any]:
        """The results of all events. The event that brings money has the app's, the others those of the engine."""
        rows = await self.db.fetch(
            "select a.result from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq order by e.seq"
        )
        return [row["result"] for row in rows]

    # -- looking -----------------------------------------------------------------------------------------------------

    async def status(self, enrollment: UUID) -> str:
        return await self.db.fetchval("select status from learning.enrollments where id = $1", enrollment)

    async def row(self, table: str, **where: Any) -> Any:
        [(column, value)] = where.items()
        return await self.db.fetchrow(f"select * from learning.{table} where {column} = $1", value)

    async def payments(self, condition: str = "true", *args: Any) -> int:
        """The number of payments that fulfil a condition."""
        return await self.db.fetchval(f"select count(*) from onceward.payments where {condition}", *args)

    async def payment(self, session: str) -> Any:
        """The payment of a page."""
        return await self.db.fetchrow(
            "select p.* from onceward.payment_names n join onceward.payments p on p.id = n.payment_id where n.name = $1",
            session,
        )

    async def refund_state(self, refund: UUID) -> tuple[str, int]:
        row = await self.db.fetchrow("select status, attempt from onceward.payment_refunds where id = $1", refund)
        assert row is not None
        return row["status"], row["attempt"]

    async def count(self, table: str, condition: str = "true", *args: Any) -> int:
        return await self.db.fetchval(f"select count(*) from learning.{table} where {condition}", *args)

    async def free(self, cohort: UUID) -> int:
        row = await self.db.fetchrow("select * from onceward.capacity_pools where key = $1", f"cohort:{cohort}")
        return row["capacity"] - row["held"] - row["sold"]

    async def notices(self) -> list[str]:
        return [row["type"] for row in await self.db.fetch("select type from onceward.notices order by id")]

    async def mails(self) -> list[tuple[str, str]]:
        rows = await self.db.fetch("select template, key from onceward.messages order by id")
        return [(row["template"], row["key"]) for row in rows]

    async def schedule(self, name: str) -> None:
        """Run a schedule now, with the jobs that it causes."""
        report = await run_here(self.db, app.schedules[name], open_tx=self.engine.open_tx, by="test")
        assert (report.status, report.failed) == ("success", 0), report
        await drain(self.engine)

    async def later(self, **units: float) -> None:
        """Move the business clock on."""
        shift = timedelta(**units).total_seconds()
        await self.db.execute(
            "create or replace function onceward.now() returns timestamptz language sql stable parallel safe"
            f" as $$select now() + interval '{shift} seconds'$$"
        )

    async def verify(self) -> None:
        """Every invariant of the app and of its payments holds."""
        for check in (*CHECKS, *PAYMENT_CHECKS):
            async with self.db.acquire() as conn:
                assert await check.run(conn) == [], check.name

"""A simulation for the demo: a school with cohorts, and students who buy, book, study, chat, fail to pay and answer
surveys.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls no
external service. A restart uses the organization and cohorts that exist already.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from typing import Any
from uuid import UUID, uuid4

import orjson
import structlog

from onceward import Context, Engine, Tx
from onceward.background import Loop, Tasks
from onceward.http import ServiceClient
from onceward.inbox import sources
from onceward.integrations.calcom import CalComSimulator
from onceward.integrations.formbricks import FormbricksSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.trust import create_organization
from onceward.web import WebServer
from onceward.webhooks import SourceConfig, get_provider
from onceward_apps.learning import chat, link_tokens, users, waitlist
from onceward_apps.learning.app import LearningSettings, app
from onceward_apps.learning.checkout import start_checkout
from onceward_apps.learning.cohorts import set_status
from onceward_apps.learning.demo_cohorts import (
    COURSE,
    CROWD,
    DONE,
    DOOMED,
    NAMES,
    RUNNING,
    SMALL,
    open_cohorts,
    teach_visitors,
)
from onceward_apps.learning.errors import LearningError
from onceward_apps.learning.refund_requests import refund_enrollment
from onceward_apps.learning.store import demo as rows
from onceward_apps.learning.store import views
from onceward_apps.learning.surveys import EXIT_FIELDS, INTAKE_FIELDS

log = structlog.get_logger(__name__)

SLUG = "lakeside"
PAUSE_S = 4.0
LOOK_S = 3.0
"""How often the school looks whether a visitor has enrolled or finished, and whether every course has places."""
FULL_PERCENT = 80.0
FATES = (
    ("buys", 10),
    ("wants the small course", 4),
    ("is declined", 2),
    ("webhook repeated", 2),
    ("is refunded", 2),
    ("chats", 6),
    ("studies", 5),
    ("attends", 3),
    ("misses a session", 1),
    ("graduates", 2),
    ("is unhappy", 1),
)
LINES = ("Hello everybody!", "Did the last exercise work for you?", "Yes, after the second try.", "See you tonight.")
RATINGS = ("overallSatisfaction", "instructorRating", "contentRating", "rating")
SURVEYS = {"intake": "demo-intake", "exit": "demo-exit", "feedback": "demo-feedback"}


class LearningDemo:
    """A part of the process. Without a `crowd` the only students are calls of `visit`."""

    def __init__(self, context: Context, *, crowd: bool = True, stripe: StripeSimulator | None = None) -> None:
        self._context = context
        self._crowd = crowd
        self._owns_stripe = stripe is None
        self.stripe = stripe or StripeSimulator(retry_delays_s=(0.5, 2.0, 10.0))
        self.calcom = CalComSimulator()
        questions = {"intake": INTAKE_FIELDS, "exit": EXIT_FIELDS, "feedback": ("rating", "comment")}
        pages = {survey: questions[kind] for kind, survey in SURVEYS.items()}
        self.formbricks = FormbricksSimulator(surveys=pages, ratings=RATINGS)
        self.dice = random.Random()
        self.organization = UUID(int=0)
        self.cohorts: dict[str, UUID] = {}
        self._secret = f"whsec_{secrets.token_urlsafe(24)}"
        self._signed = f"whsec_{secrets.token_hex(16)}AAAA"
        self._seen: set[str] = set()
        self._tasks = Tasks("demo learning")
        self._loops = (
            Loop("demo learning relay", self._relay),
            Loop("demo teachers", self._teachers),
            Loop("demo students", self._students),
        )
        self._client: ServiceClient | None = None

    @property
    def engine(self) -> Engine:
        return self._context.engine

    @property
    def base_url(self) -> str:
        return self._context.part(WebServer).url

    async def open_services(self) -> None:
        """Start the simulated services and call them from now on. The second call changes nothing."""
        if self._client is not None:
            return
        self._client = ServiceClient()
        if self._owns_stripe:
            await self.stripe.start()
        for simulator in (self.calcom, self.formbricks):  # links to them in mails stay valid after a restart
            simulator.keep_in(self._context.settings.data_dir / "simulators")
            await simulator.start()
        self._use_simulators()

    async def start(self) -> None:
        await self.open_services()
        self.calcom.send_webhooks_to(f"{self.base_url}/webhooks/calcom", secret=self._signed)
        self.formbricks.send_webhooks_to(f"{self.base_url}/webhooks/formbricks", secret=self._signed)
        chosen = app.settings(LearningSettings)
        ids = {f"formbricks_{kind}_survey_id": survey for kind, survey in SURVEYS.items()}
        app.use_settings(chosen.model_copy(update=ids | {"formbricks_url": self.formbricks.url}))
        await self.set_up()
        self._seen = set(self.stripe.books.events)
        for loop in self._loops[:2]:
            await loop.start()
        log.info("demo.courses_opened", page=f"{app.services.settings.url}/learn/o/{SLUG}")
        if self._crowd:
            await self._loops[2].start()
            self._tasks.start(self._cancel_later())

    def _use_simulators(self) -> None:
        """Call the simulators instead of the services. Another demo has configured Stripe if it is not ours."""
        if self._owns_stripe:
            settings = self._context.settings
            app.services.configure(settings.model_copy(update={"public_url": settings.public_url or self.base_url}))
            app.services.simulate("stripe", self.stripe.url)
        app.services.simulate("calcom", self.calcom.url)

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._tasks.stop()
        await self.calcom.stop()
        await self.formbricks.stop()
        if self._client is not None:
            await self._client.aclose()
        if self._owns_stripe:
            await self.stripe.stop()

    # -- the school --------------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Create the organization, its webhook sources and its cohorts, unless they exist."""
        async with self.engine.db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = $1", SLUG)
            self.organization = (
                existing or (await create_organization(tx, SLUG, name="Lakeside School", actor="demo")).organization_id
            )
            wanted = {"learning-stripe": "stripe", "calcom": "calcom", "formbricks": "formbricks"}
            for known in await sources.list_sources(tx):  # each start has new signing secrets
                if known.name in wanted and known.origin == "stored":
                    await sources.delete(tx, known.name, actor="demo")
            for name, provider in wanted.items():
                secret = self._secret if provider == "stripe" else self._signed
                new = sources.NewSource(
                    name=name, provider=provider, secrets=(secret,), mode="ack", organization=self.organization
                )
                await sources.add(tx, self._context.box, new, actor="demo")
        await self.look_after()

    async def look_after(self) -> None:
        """Begin and end the quick course with its visitors, and open what can no longer be enrolled in again."""
        async with self.engine.transaction(organization=self.organization) as tx:
            await teach_visitors(tx)
            self.cohorts = await open_cohorts(tx)

    async def _teachers(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look_after()

    # -- the students ------------------------------------------------------------------------------------------------

    async def _students(self) -> None:
        names, weights = zip(*FATES, strict=True)
        while True:
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.4, 1.6))
            self._tasks.start(self.visit(self.dice.choices(names, weights)[0]))

    async def _cancel_later(self) -> None:
        """Fill the doomed cohort, and cancel it after a while, so that viewers see its refunds count up. Only once."""
        async with self.engine.transaction(organization=self.organization) as tx:
            row = await views.cohort(tx, self.cohorts[DOOMED])
        if row is None or row["status"] != "OPEN":
            return
        for _ in range(12):
            await self._buy(self.cohorts[DOOMED])
            await asyncio.sleep(2)
        await asyncio.sleep(90)
        async with self.engine.transaction(organization=self.organization) as tx:
            row = await views.cohort(tx, self.cohorts[DOOMED])
            if row is not None and row["status"] == "OPEN":
                await set_status(tx, row["id"], "CANCELLED", actor="demo", reason="The instructor is ill")

    async def visit(self, fate: str) -> None:
        """Play one student, to the end that `fate` names."""
        try:
            await self._visit(fate)
        except LearningError as error:
            log.info("demo.student_left", fate=fate, why=type(error).__name__)
        except Exception:
            log.exception("demo.student_failed", fate=fate)

    async def _visit(self, fate: str) -> None:
        match fate:
            case "wants the small course":
                await self._buy(self.cohorts[SMALL], or_wait=True)
            case "is declined":
                session = await self._checkout(self.cohorts[COURSE])
                self.stripe.decline(session)
            case "webhook repeated":
                await self._buy(self.cohorts[COURSE])
                await asyncio.sleep(1)
                self._seen -= set(list(self.stripe.books.events)[-3:])
            case "is refunded":
                await self._refund_somebody()
            case "chats":
                await self._chat()
            case "studies":
                await self._study()
            case "attends":
                await self._attend(came=True)
            case "misses a session":
                await self._attend(came=False)
            case "graduates":
                await self._graduate(satisfaction=self.dice.randint(7, 10))
            case "is unhappy":
                await self._graduate(satisfaction=self.dice.randint(1, 5))
            case _:
                await self._buy(self.cohorts[COURSE])

    async def _checkout(self, cohort_id: UUID, *, or_wait: bool = False) -> str:
        await self._make_room(cohort_id)
        name = self.dice.choice(NAMES)
        email = f"{name.lower()}.{uuid4().hex[:6]}{CROWD}"
        async with self.engine.transaction(organization=self.organization) as tx:
            user = await users.register(tx, email=email, name=name)
        try:
            started = await start_checkout(self.engine, self.organization, cohort_id=cohort_id, user_id=user["id"])
        except LearningError:
            if or_wait:
                async with self.engine.transaction(organization=self.organization) as tx:
                    await waitlist.join(tx, cohort_id, user["id"])
            raise
        return started.url.rsplit("/", 1)[-1]

    async def _buy(self, cohort_id: UUID, *, or_wait: bool = False) -> None:
        session = await self._checkout(cohort_id, or_wait=or_wait)
        await asyncio.sleep(self.dice.uniform(0.2, 1.5))
        self.stripe.pay(session)

    async def _make_room(self, cohort_id: UUID) -> None:
        """Refund simulated students when the main course is nearly full: a visitor must always find a place."""
        if cohort_id != self.cohorts[COURSE]:
            return
        async with self.engine.transaction(organization=self.organization) as tx:
            places = await views.places(tx, cohort_id)
            if places is None or places["sold"] + places["held"] < places["capacity"] * FULL_PERCENT / 100:
                return
        for _ in range(2):
            await self._refund_somebody(COURSE)

    async def _refund_somebody(self, *names: str) -> None:
        async with self.engine.transaction(organization=self.organization) as tx:
            cohort_id = self.cohorts[self.dice.choice(names or (COURSE, SMALL))]
            enrollment = await self._student(tx, cohort_id)
            if enrollment is not None:
                await refund_enrollment(tx, enrollment["id"], reason="The student asked for it", actor="demo")

    async def _student(self, tx: Tx, cohort_id: UUID) -> Any:
        """Return a simulated student: what visitors have is theirs."""
        return await rows.random_enrollment(tx, cohort_id, CROWD)

    async def _chat(self) -> None:
        async with self.engine.transaction(organization=self.organization) as tx:
            student = await self._student(tx, self.cohorts[RUNNING])
            if student is not None:
                await chat.post(tx, self.cohorts[RUNNING], student["user_id"], self.dice.choice(LINES))

    async def _study(self) -> None:
        async with self.engine.transaction(organization=self.organization) as tx:
            student = await self._student(tx, self.cohorts[RUNNING])
            if student is None:
                return
            row = await views.get_enrollment(tx, student["id"])
            unfinished = [item for item in await views.items(tx, row) if item["done_at"] is None]
            if unfinished:
                await views.mark_done(tx, student["id"], UUID(unfinished[0]["id"]), done=True)

    async def _attend(self, *, came: bool) -> None:
        """Let a booked session of somebody end at Cal.com. The host reports who did not come."""
        async with self.engine.transaction(organization=self.organization) as tx:
            student = await self._student(tx, self.cohorts[RUNNING])
            sessions = [] if student is None else await views.sessions(tx, self.cohorts[RUNNING], student["id"])
        for session in sessions:
            booking = self.calcom.bookings.get(session["booking_uid"] or "")
            if booking is not None and session["attended"] is None:
                self.calcom.end_meeting(booking["uid"])
                if not came:
                    self.calcom.report_no_show(booking["uid"], {booking["attendees"][0]["email"]: True})
                return

    async def _graduate(self, *, satisfaction: int) -> None:
        """Finish everything in the completed cohort and answer the exit survey: a happy student gets a certificate."""
        async with self.engine.transaction(organization=self.organization) as tx:
            student = await self._student(tx, self.cohorts[DONE])
            if student is None:
                return
            row = await views.get_enrollment(tx, student["id"])
            for item in await views.items(tx, row):
                await views.mark_done(tx, student["id"], UUID(item["id"]), done=True)
            token = await link_tokens.enrollment_token(tx, "survey", student["id"])
        answers = {"overallSatisfaction": satisfaction, "suggestions": "More exercises.", "enrollmentId": token}
        data = {"id": uuid4().hex, "surveyId": SURVEYS["exit"], "finished": True, "data": answers}
        await self._post("formbricks", {"webhookId": "demo", "event": "responseFinished", "data": data})

    # -- the senders of webhooks -------------------------------------------------------------------------------------

    async def _relay(self) -> None:
        """Send Stripe's events to our source: the account of the demo has a second endpoint."""
        while True:
            for event_id, event in list(self.stripe.books.events.items()):
                if event_id not in self._seen:
                    self._seen.add(event_id)
                    await self._post("learning-stripe", event)
            await asyncio.sleep(0.2)

    async def _post(self, source: str, body: dict[str, Any]) -> None:
        """Send a signed webhook to this process, as the provider does."""
        provider = get_provider("stripe" if source == "learning-stripe" else source)
        secret = self._secret if source == "learning-stripe" else self._signed
        config = SourceConfig(provider=provider.name, secrets=(secret,))
        content = orjson.dumps(body)
        headers = provider.sign(config, content, time.time())
        url = f"{self.base_url}/webhooks/{source}"
        assert self._client is not None
        response = await self._client.request("POST", url, headers=headers, body=content)
        if not response.ok:
            log.warning("demo.webhook_refused", source=source, status=response.status)

"""A simulation for the demo: a language model, users of every tier, and what can go wrong.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls no
external service. It prints a link to the page of one user, with a token that is valid for a day.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import time
from typing import Any
from uuid import UUID, uuid5

import jwt
import structlog
from pydantic import SecretStr

from onceward import Context, Engine
from onceward.background import Loop, Tasks
from onceward.integrations.openai import OpenAISimulator
from onceward.trust import create_organization
from onceward.web import WebServer, WebSettings
from onceward_apps.coursegen.admission import GenerationRequest, look_up, refuse_early, request_generation
from onceward_apps.coursegen.app import app
from onceward_apps.coursegen.errors import CoursegenError
from onceward_apps.coursegen.model import MICROS
from onceward_apps.coursegen.simulated_author import write_course
from onceward_apps.coursegen.store import courses

log = structlog.get_logger(__name__)

SLUG = "lighthouse"
PAUSE_S = 12.0
NAMESPACE = UUID("6f1c2a52-6a3e-4b0f-8a53-2d1e8b1f7a10")
TIERS = ("FREE", "BASIC", "STANDARD", "PREMIUM")
FATES = (
    ("is written", 6),
    ("meets a rate limit", 2),
    ("is refused by the model", 1),
    ("breaks and is resumed", 2),
    ("runs out of money", 1),
)
TITLES = (
    "Reading the sea",
    "Bread from nothing",
    "Small engines",
    "Letters and type",
    "Bees in a city",
    "Maps by hand",
    "Night skies",
    "Knots that hold",
)


def user_of(tier: str) -> UUID:
    """Return the id of the simulated user of a tier."""
    return uuid5(NAMESPACE, tier)


def page_of(
    user: UUID, organization: UUID, *, secret: SecretStr | None, audience: str | None, issuer: str | None
) -> str | None:
    """Return the path of the user's page with a token that is valid for a day. None: there is no secret to sign it."""
    if secret is None:
        return None
    claims: dict[str, Any] = {
        "sub": str(user),
        "organization_id": str(organization),
        "exp": int(time.time()) + 86400,
        "jti": secrets.token_hex(8),
    }
    if audience:
        claims["aud"] = audience
    if issuer:
        claims["iss"] = issuer
    return f"/coursegen#token={jwt.encode(claims, secret.get_secret_value(), 'HS256')}"


class CoursegenDemo:
    """A part of the process. Without a `crowd` the only courses are those of calls of `visit`."""

    def __init__(self, context: Context, *, crowd: bool = True, pace_s: float = 0.05) -> None:
        self._context = context
        self._crowd = crowd
        self.openai = OpenAISimulator()
        self.openai.write = write_course
        self.openai.latency_s = pace_s * 8
        self.openai.piece_s = pace_s
        self.openai.piece_characters = 12
        self.dice = random.Random()
        self.organization: UUID | None = None
        self._tasks = Tasks("demo coursegen")
        self._loops = (Loop("demo authors", self._authors),)
        self._is_open = False

    @property
    def engine(self) -> Engine:
        return self._context.engine

    @property
    def _org(self) -> UUID:
        assert self.organization is not None
        return self.organization

    async def open_services(self) -> None:
        """Start the simulated model and call it from now on. The second call changes nothing."""
        if self._is_open:
            return
        self._is_open = True
        await self.openai.start()
        app.services.simulate("openai", self.openai.base_url)

    async def start(self) -> None:
        await self.open_services()
        await self.set_up()
        self._print_link()
        if self._crowd:
            await self._loops[0].start()

    def _print_link(self) -> None:
        """Print the link for a person. It carries a token, so it is not logged."""
        link = self.link_for(self.user("PREMIUM"))
        text = (
            f"open as a user of course generation (24 h): {link}"
            if link
            else "set ONCEWARD_JWT_SECRET for a user's page"
        )
        sys.stderr.write(f"{text}\n")

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._tasks.stop()
        await self.openai.stop()

    async def set_up(self) -> None:
        """Create the organization and one user of every tier, unless they exist."""
        async with self.engine.db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = $1", SLUG)
            created = None if existing else await create_organization(tx, SLUG, name="Lighthouse School", actor="demo")
            self.organization = existing or (created.organization_id if created is not None else None)
        async with self.engine.transaction(organization=self._org) as tx:
            for tier in TIERS:
                await courses.set_tier(tx, self.user(tier), tier)

    def user(self, tier: str) -> UUID:
        return user_of(tier)

    def link_for(self, user: UUID) -> str | None:
        """Return the address of the user's page with a token, if this process can sign one."""
        settings = self._context.settings.of(WebSettings)
        path = page_of(
            user,
            self._org,
            secret=settings.jwt_secret,
            audience=settings.jwt_audience,
            issuer=settings.jwt_issuer,
        )
        return None if path is None else f"{self._context.part(WebServer).url}{path}"

    # -- the authors -------------------------------------------------------------------------------------------------

    async def _authors(self) -> None:
        names = [fate for fate, _ in FATES]
        weights = [weight for _, weight in FATES]
        while True:
            self._tasks.start(self.visit(self.dice.choices(names, weights)[0], self.dice.choice(TIERS)))
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.5, 1.5))

    async def visit(self, fate: str, tier: str = "BASIC") -> UUID | None:
        """Let one user generate a course, with the end that `fate` names. None: the user was refused."""
        title = f"{self.dice.choice(TITLES)}, part {self.dice.randrange(2, 1000)}"  # faults are about this course only
        budget = 300 if fate == "runs out of money" else MICROS
        async with self.engine.transaction(organization=self._org) as tx:
            course = await courses.add(
                tx,
                self.user(tier),
                title=title,
                brief="A short course for curious people.",
                language="en",
                lesson_count=self.dice.randint(2, 4),
                budget_micros=budget,
            )
        match fate:
            case "meets a rate limit":
                self.openai.rate_limit(2, retry_after_s=1)
            case "is refused by the model":
                self.openai.refuse(about=title)
            case "breaks and is resumed":
                self.openai.break_stream(after_characters=200, about=title)
            case _:
                pass
        try:
            await self._generate(course["id"], tier)
        except CoursegenError as error:
            log.info("demo.course_refused", fate=fate, tier=tier, why=type(error).__name__)
            return None
        return course["id"]

    async def _generate(self, course_id: UUID, tier: str) -> None:
        requested = GenerationRequest(organization=self._org, user_id=self.user(tier), course_id=course_id)
        candidate = await look_up(self.engine, self._org, requested.user_id, course_id)
        refuse_early(self.engine, requested, candidate)
        await request_generation(self.engine, requested, candidate)

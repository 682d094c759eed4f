"""All apps with simulated users and services. `make demo` runs this app."""

import secrets

from fastapi import APIRouter, Depends
from pydantic import SecretStr

from onceward import Context, Onceward
from onceward.feature import WEB
from onceward.web import WebSettings
from onceward_apps import all as bundled
from onceward_apps.clinic.demo import ClinicDemo
from onceward_apps.clinic.demo_lab import lab
from onceward_apps.coursegen.demo import CoursegenDemo
from onceward_apps.coursegen.demo_pages import router as course_pages
from onceward_apps.demo_customers import DemoCustomers
from onceward_apps.engagement.demo import EngagementDemo
from onceward_apps.learning.demo import LearningDemo
from onceward_apps.start_page import only_from_this_machine, use_start_page
from onceward_apps.start_page import router as start_pages
from onceward_apps.ticketing.demo import TicketingDemo


def sign_tokens(context: Context) -> None:
    """Let this process sign and accept tokens of simulated users, unless it accepts those of a real service."""
    settings = context.settings.of(WebSettings)
    if settings.jwt_secret is None and settings.jwt_jwks_url is None and settings.jwt_jwks_file is None:
        signing = settings.model_copy(update={"jwt_secret": SecretStr(secrets.token_hex(32))})
        context.settings = context.settings.using(signing)


def learning_demo(context: Context) -> LearningDemo:
    """One Stripe account serves both apps, as it may in reality."""
    return LearningDemo(context, stripe=context.part(TicketingDemo).stripe)


def clinic_demo(context: Context) -> ClinicDemo:
    """The simulated WhatsApp of engagement also receives what the clinic sends; all apps have one Stripe account."""
    whatsapp, stripe = context.part(EngagementDemo).whatsapp, context.part(TicketingDemo).stripe
    return ClinicDemo(context, outgoing=whatsapp, stripe=stripe)


DEMOS = (TicketingDemo, EngagementDemo, CoursegenDemo, ClinicDemo, LearningDemo)


class SimulatedServices:
    """Opens the simulated services of all demos before a worker runs: work that an earlier run left must not call
    the real ones."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def start(self) -> None:
        for demo in DEMOS:
            await self._context.part(demo).open_services()

    async def stop(self) -> None:
        """Each demo stops its own services."""


local_pages = APIRouter(dependencies=[Depends(only_from_this_machine)])
local_pages.include_router(course_pages)

app = Onceward("demo")
app.include(bundled.app)
app.include(lab)
app.routes(start_pages)
app.routes(local_pages)
app.part("start page", use_start_page, roles=WEB, stage="app")
app.part("demo tokens", sign_tokens, roles=WEB, stage="base")
app.part("simulated services", SimulatedServices, roles=WEB, stage="base")
app.part("ticketing demo", TicketingDemo, roles=WEB)
app.part("engagement demo", EngagementDemo, roles=WEB)
app.part("coursegen demo", CoursegenDemo, roles=WEB)
app.part("clinic demo", clinic_demo, roles=WEB)
app.part("learning demo", learning_demo, roles=WEB)
app.part("demo customers", DemoCustomers, roles=WEB)

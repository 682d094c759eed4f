"""Simulators of external services: HTTP and SMTP servers on loopback that follow the services' rules and can fail.

    async with Simulators() as sims:
        stripe = Stripe(client, secret_key="sk_test_1", base_url=sims.stripe.url)
        sims.stripe.drop_after_send()

Imports nothing else of Onceward.
"""

import asyncio
from importlib.util import find_spec
from typing import Self

from .analytics import Ga4Simulator, MixpanelSimulator, PostHogSimulator, SegmentSimulator
from .brevo import BrevoSimulator
from .calcom import CalComSimulator
from .customer import CustomerEndpoint
from .daily import DailySimulator
from .formbricks import FormbricksSimulator
from .hubspot import HubSpotSimulator
from .openai import ChatCall, OpenAISimulator
from .paypal import PayPalSimulator
from .server import Received, Simulator
from .slack import SlackSimulator
from .smtp import SmtpSimulator
from .stripe import StripeSimulator
from .twilio import TwilioSimulator
from .webpush import SimulatedBrowser, WebPushSimulator
from .whatsapp import WhatsAppSimulator


class Simulators:
    """All simulators, each on a free port. The mail relay starts only if aiosmtpd is installed."""

    def __init__(self) -> None:
        self.stripe = StripeSimulator()
        self.paypal = PayPalSimulator()
        self.calcom = CalComSimulator()
        self.brevo = BrevoSimulator()
        self.slack = SlackSimulator()
        self.twilio = TwilioSimulator()
        self.whatsapp = WhatsAppSimulator()
        self.webpush = WebPushSimulator()
        self.hubspot = HubSpotSimulator()
        self.ga4 = Ga4Simulator()
        self.mixpanel = MixpanelSimulator()
        self.segment = SegmentSimulator()
        self.posthog = PostHogSimulator()
        self.daily = DailySimulator()
        self.formbricks = FormbricksSimulator()
        self.openai = OpenAISimulator()
        self.customer = CustomerEndpoint()
        self.smtp = SmtpSimulator()

    @property
    def over_http(self) -> tuple[Simulator, ...]:
        return tuple(part for part in vars(self).values() if isinstance(part, Simulator))

    async def start(self) -> None:
        try:
            await asyncio.gather(*(simulator.start() for simulator in self.over_http))
            if find_spec("aiosmtpd") is not None:
                await self.smtp.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await asyncio.gather(*(simulator.stop() for simulator in self.over_http), self.smtp.stop())

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


__all__ = [
    "BrevoSimulator",
    "CalComSimulator",
    "ChatCall",
    "CustomerEndpoint",
    "DailySimulator",
    "FormbricksSimulator",
    "Ga4Simulator",
    "HubSpotSimulator",
    "MixpanelSimulator",
    "OpenAISimulator",
    "PayPalSimulator",
    "PostHogSimulator",
    "Received",
    "SegmentSimulator",
    "SimulatedBrowser",
    "Simulator",
    "Simulators",
    "SlackSimulator",
    "SmtpSimulator",
    "StripeSimulator",
    "TwilioSimulator",
    "WebPushSimulator",
    "WhatsAppSimulator",
]

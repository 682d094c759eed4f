"""Create the client of each service from an account."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onceward.http import ServiceClient
from onceward.providers.outbound.brevo import Brevo
from onceward.providers.outbound.calcom import CalCom
from onceward.providers.outbound.daily import Daily
from onceward.providers.outbound.ga4 import Ga4
from onceward.providers.outbound.hubspot import HubSpot
from onceward.providers.outbound.mixpanel import Mixpanel
from onceward.providers.outbound.openai import OpenAI
from onceward.providers.outbound.paypal import PayPal
from onceward.providers.outbound.posthog import PostHog
from onceward.providers.outbound.segment import Segment
from onceward.providers.outbound.slack import Slack
from onceward.providers.outbound.stripe import Stripe
from onceward.providers.outbound.twilio import Twilio
from onceward.providers.outbound.whatsapp import WhatsApp
from onceward.settings import Settings

from .catalog import ServiceAccount

Build = Callable[[ServiceClient, ServiceAccount, Settings], Any]

BUILD: Mapping[str, Build] = {
    "stripe": lambda http, account, _: Stripe(http, account["secret_key"], base_url=account.url),
    "paypal": lambda http, account, _: PayPal(
        http, client_id=account["client_id"], client_secret=account["client_secret"], base_url=account.url
    ),
    "calcom": lambda http, account, _: CalCom(http, account["api_key"], base_url=account.url),
    "hubspot": lambda http, account, _: HubSpot(http, account["token"], base_url=account.url),
    "ga4": lambda http, account, _: Ga4(http, account["measurement_id"], account["api_secret"], base_url=account.url),
    "mixpanel": lambda http, account, _: Mixpanel(
        http,
        account["secret"],
        username=account.get("username"),
        project_id=account.get("project_id"),
        base_url=account.url,
    ),
    "segment": lambda http, account, _: Segment(http, account["write_key"], base_url=account.url),
    "posthog": lambda http, account, _: PostHog(http, account["project_token"], base_url=account.url),
    "daily": lambda http, account, _: Daily(http, account["api_key"], base_url=account.url),
    "twilio": lambda http, account, _: Twilio(
        http, account["account_sid"], account["auth_token"], sender=account.get("from"), base_url=account.url
    ),
    "whatsapp": lambda http, account, _: WhatsApp(
        http, account["phone_number_id"], account["access_token"], base_url=account.url
    ),
    "slack": lambda http, account, _: Slack(
        http, account["bot_token"], channel=account.get("channel"), base_url=account.url
    ),
    "brevo": lambda http, account, _: Brevo(http, account["api_key"], sender=account.get("from"), base_url=account.url),
    "openai": lambda http, account, settings: OpenAI(
        http,
        account["api_key"],
        account["model"],
        base_url=account.url,
        token_limit_field=settings.openai_token_limit_field,
    ),
}

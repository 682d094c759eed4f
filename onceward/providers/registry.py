"""Every sender of webhooks we know, by the name a source gives."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from onceward.providers.calcom import CalCom
from onceward.providers.daily import Daily
from onceward.providers.formbricks import Formbricks
from onceward.providers.generic import Generic
from onceward.providers.github import GitHub
from onceward.providers.inbound import ConfigError, Provider
from onceward.providers.open import Open
from onceward.providers.paypal import PayPal
from onceward.providers.slack import Slack
from onceward.providers.standard import Standard
from onceward.providers.stripe import Stripe
from onceward.providers.twilio import Twilio
from onceward.providers.whatsapp import WhatsApp

_ALL: Final[tuple[Provider, ...]] = (
    Stripe(),
    PayPal(),
    CalCom(),
    Formbricks(),
    Twilio(),
    WhatsApp(),
    Daily(),
    GitHub(),
    Slack(),
    Standard(),
    Generic(),
    Open(),
)

PROVIDERS: Final[Mapping[str, Provider]] = MappingProxyType({provider.name: provider for provider in _ALL})


def get_provider(name: str) -> Provider:
    """The provider of that name. ConfigError, with the names there are, if there is none."""
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(f"provider {name!r} is not known: use one of {', '.join(PROVIDERS)}", field="provider")
    return provider

"""All webhook providers, by the name that a source uses."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from onceward.providers.inbound.calcom import CalCom
from onceward.providers.inbound.daily import Daily
from onceward.providers.inbound.formbricks import Formbricks
from onceward.providers.inbound.generic import Generic
from onceward.providers.inbound.github import GitHub
from onceward.providers.inbound.open import Open
from onceward.providers.inbound.paypal import PayPal
from onceward.providers.inbound.provider import ConfigError, Provider
from onceward.providers.inbound.slack import Slack
from onceward.providers.inbound.standard import Standard
from onceward.providers.inbound.stripe import Stripe
from onceward.providers.inbound.twilio import Twilio
from onceward.providers.inbound.whatsapp import WhatsApp

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
    """Return the provider with this name. Raise ConfigError, with all names, if there is none."""
    provider = PROVIDERS.get(name)
    if provider is None:
        raise ConfigError(f"provider {name!r} is not known: use one of {', '.join(PROVIDERS)}", field="provider")
    return provider

"""The currencies that the payment services take."""

from __future__ import annotations

from collections.abc import Mapping

from onceward.integrations.paypal import AMOUNTS as PAYPAL
from onceward.integrations.stripe import AMOUNTS as STRIPE
from onceward.money import Amounts, common_step

SERVICES: Mapping[str, Amounts] = {"stripe": STRIPE, "paypal": PAYPAL}


def is_taken_by(service: str, currency: str) -> bool:
    """Return whether the service accepts payments in this currency."""
    return service in SERVICES and SERVICES[service].takes(currency)


def step(currency: str) -> int:
    """Return the amount of which every price must be a multiple: it suits every service that takes the currency."""
    return common_step(currency, SERVICES.values())

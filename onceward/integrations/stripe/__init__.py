"""Stripe: payments, refunds and subscriptions."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.stripe.amounts import AMOUNTS, from_stripe, to_stripe
    from onceward.integrations.stripe.client import Stripe
    from onceward.integrations.stripe.simulator import StripeSimulator

__all__ = ["AMOUNTS", "Stripe", "StripeSimulator", "from_stripe", "to_stripe"]

__getattr__ = lazy(__name__, __file__)

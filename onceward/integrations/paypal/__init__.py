"""PayPal: orders, captures and refunds."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.integrations.paypal.amounts import AMOUNTS, to_decimal, to_minor
    from onceward.integrations.paypal.client import PayPal
    from onceward.integrations.paypal.simulator import PayPalSimulator

__all__ = ["AMOUNTS", "PayPal", "PayPalSimulator", "to_decimal", "to_minor"]

__getattr__ = lazy(__name__, __file__)

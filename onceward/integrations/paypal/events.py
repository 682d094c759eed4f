"""The resources of the most used PayPal events.

Hand-kept after the published API reference, and compared with the samples only, not with a live account. Only fields
that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "2.0"
"""The `resource_version` that the models describe."""


class Amount(Payload):
    """An amount as a decimal text."""

    currency_code: str
    value: str


class Capture(Payload):
    """`PAYMENT.CAPTURE.COMPLETED`, `.PENDING`, `.DENIED`."""

    id: str
    status: str
    amount: Amount
    create_time: str
    custom_id: str | None = None
    invoice_id: str | None = None
    final_capture: bool = False


class CaptureRefund(Payload):
    """`PAYMENT.CAPTURE.REFUNDED`."""

    id: str
    status: str
    amount: Amount
    create_time: str | None = None
    custom_id: str | None = None
    invoice_id: str | None = None


class Payer(Payload):
    """Who approved an order."""

    payer_id: str | None = None
    email_address: str | None = None


class PurchaseUnit(Payload):
    """A part of an order."""

    amount: Amount | None = None
    reference_id: str | None = None
    custom_id: str | None = None


class Order(Payload):
    """`CHECKOUT.ORDER.APPROVED`, `CHECKOUT.ORDER.COMPLETED`."""

    id: str
    status: str
    intent: str | None = None
    create_time: str | None = None
    payer: Payer | None = None
    purchase_units: list[PurchaseUnit] = Field(default_factory=list[PurchaseUnit])


MODELS: Final[Mapping[str, type[Payload]]] = {
    "CHECKOUT.ORDER.APPROVED": Order,
    "CHECKOUT.ORDER.COMPLETED": Order,
    "PAYMENT.CAPTURE.COMPLETED": Capture,
    "PAYMENT.CAPTURE.DENIED": Capture,
    "PAYMENT.CAPTURE.PENDING": Capture,
    "PAYMENT.CAPTURE.REFUNDED": CaptureRefund,
}

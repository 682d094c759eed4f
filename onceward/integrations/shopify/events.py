"""The most used Shopify topics.

Hand-kept after the published reference of webhook payloads, and compared with the samples only, not with a live
account. Only fields that most handlers use; `event.payload` has all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from onceward.webhooks.models import Payload

VERSION: Final = "2025-07"
"""The version of Shopify's API that the models describe."""


class LineItem(Payload):
    """A line of an order. Prices are decimal texts in the currency of the order."""

    id: int
    title: str
    quantity: int
    price: str


class Order(Payload):
    """`orders/create`, `orders/paid`, `orders/updated`."""

    id: int
    name: str
    currency: str
    total_price: str
    created_at: str
    email: str | None = None
    financial_status: str | None = None
    fulfillment_status: str | None = None
    line_items: list[LineItem] = Field(default_factory=list[LineItem])


class Variant(Payload):
    """A variant of a product."""

    id: int
    price: str
    sku: str | None = None


class Product(Payload):
    """`products/create`, `products/update`."""

    id: int
    title: str
    vendor: str | None = None
    status: str | None = None
    updated_at: str | None = None
    variants: list[Variant] = Field(default_factory=list[Variant])


MODELS: Final[Mapping[str, type[Payload]]] = {
    "orders/create": Order,
    "orders/paid": Order,
    "orders/updated": Order,
    "products/create": Product,
    "products/update": Product,
}

"""A simulator of PayPal: orders with an approval page, captures, and all that `simulator_money` does afterwards."""

import secrets
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from onceward.integrations.paypal.amounts import AMOUNTS, to_decimal, to_minor
from onceward.integrations.paypal.simulator_money import PayPalMoney
from onceward.integrations.paypal.simulator_requests import (
    CERTIFICATE_URL,
    SIGNING_HOST,
    Json,
    PayPalError,
    iso_now,
    unprocessable,
)
from onceward.testing.simulators.authority import AuthoritySigner
from onceward.testing.simulators.pages import Choice, Line, payment_page
from onceward.testing.simulators.server import part, parts
from onceward.webhooks.provider import SourceConfig

_CHOICES = (
    Choice("approve", "Approve", "The shop may take the money"),
    Choice("decline", "Decline", "Go back without approving"),
)
WAITS_FOR_PAYER = ("CREATED", "PAYER_ACTION_REQUIRED")
"""An order that names its payment source at creation has the second status, any other the first."""


def simulated_source(webhook_id: str = "SIMULATED", *, host: str = SIGNING_HOST) -> SourceConfig:
    """Return a PayPal source that trusts a temporary authority, and has the key to sign as PayPal.

    It refuses webhooks of the real PayPal, and a real source refuses its webhooks.
    """
    signer = AuthoritySigner(host)
    return SourceConfig(
        provider="paypal",
        secrets=(signer.key_pem.encode(),),
        options={
            "webhook_id": webhook_id,
            "roots_pem": signer.root_pem,
            "certificates": {CERTIFICATE_URL: signer.certificate_pem},
        },
    )


class PayPalSimulator(PayPalMoney):
    """A sandbox app. A PayPal source of Onceward with `source_options` accepts its webhooks."""

    kept = ("books", "_responses")
    _browser_url: str | None = None

    def show_pages_at(self, url: str) -> None:
        """Set the base URL of the approval pages, if browsers reach the simulator under another address."""
        self._browser_url = url.rstrip("/")

    def routes(self) -> list[web.RouteDef]:
        return [
            *self.money_routes(),
            web.post("/v1/oauth2/token", self.give_token),
            web.post("/v2/checkout/orders", self.keyed(self._create_order, status=201)),
            web.get("/v2/checkout/orders/{id}", self.keyed(self._get_order)),
            web.post("/v2/checkout/orders/{id}/capture", self.keyed(self._capture, status=201)),
            web.get("/checkoutnow/{id}", self._show_page),
            web.post("/checkoutnow/{id}", self._submit_page),
        ]

    def _create_order(self, _: web.Request, body: Json) -> Json:
        units = parts(body, "purchase_units")
        if not units or "amount" not in units[0]:
            raise PayPalError("INVALID_REQUEST", status=400, issue="MISSING_REQUIRED_PARAMETER")
        _check_amount(units[0]["amount"])
        order_id = secrets.token_hex(8).upper()
        page = f"{self._browser_url or self.url}/checkoutnow/{order_id}"
        sourced = bool(body.get("payment_source"))
        context = part(part(part(body, "payment_source"), "paypal"), "experience_context")
        order: Json = {
            "id": order_id,
            "intent": body.get("intent", "CAPTURE"),
            "status": "PAYER_ACTION_REQUIRED" if sourced else "CREATED",
            "purchase_units": [{"reference_id": "default", **unit} for unit in units],
            "create_time": iso_now(),
            "links": [{"rel": "payer-action" if sourced else "approve", "href": page, "method": "GET"}],
        }
        self.books.keep(self.books.orders, order_id, order)
        self.books.return_urls[order_id] = (str(context.get("return_url")), str(context.get("cancel_url")))
        return order

    def _get_order(self, request: web.Request, _: Json) -> Json:
        return self.existing(self.books.orders, request.match_info["id"])

    def forget(self, order_id: str) -> None:
        """Forget an order that nobody approved, as PayPal does after 3 hours: from now on it is answered with 404."""
        order = self.existing(self.books.orders, order_id)
        if order["status"] in WAITS_FOR_PAYER:
            del self.books.orders[order_id]

    def end_capture(self, capture_id: str, *, succeeded: bool) -> Json:
        """Let a pending capture succeed or fail, as PayPal does after a bank transfer or a review."""
        capture = self.existing(self.books.captures, capture_id)
        if capture["status"] != "PENDING":
            raise unprocessable("CAPTURE_STATUS_NOT_VALID")
        capture["status"] = "COMPLETED" if succeeded else "DECLINED"
        if succeeded:
            self.receive(capture)
        self.emit(f"PAYMENT.CAPTURE.{'COMPLETED' if succeeded else 'DENIED'}", "capture", capture)
        return capture

    def approve(self, order_id: str) -> Json:
        """Approve an order as its page does."""
        order = self.existing(self.books.orders, order_id)
        if order["status"] in WAITS_FOR_PAYER:
            order["status"] = "APPROVED"
            self.emit("CHECKOUT.ORDER.APPROVED", "checkout-order", order)
        return order

    def pay(self, order_id: str) -> Json:
        """Do what the buyer does on the page: approve. The money is taken by a capture."""
        return self.approve(order_id)

    def _capture(self, request: web.Request, _: Json) -> Json:
        order = self.existing(self.books.orders, request.match_info["id"])
        if order["status"] == "COMPLETED":
            raise unprocessable("ORDER_ALREADY_CAPTURED")
        if order["status"] != "APPROVED":
            raise unprocessable("ORDER_NOT_APPROVED")
        unit = order["purchase_units"][0]
        status = self.books.next_capture_statuses.pop(0) if self.books.next_capture_statuses else "COMPLETED"
        if status == "INSTRUMENT_DECLINED":
            # The order stays approved: the payer may choose another card.
            raise unprocessable("INSTRUMENT_DECLINED")
        capture_id = secrets.token_hex(8).upper()
        capture: Json = {
            "id": capture_id,
            "status": status,
            "amount": dict(unit["amount"]),
            "custom_id": unit.get("custom_id"),
            "final_capture": True,
            "create_time": iso_now(),
            "supplementary_data": {"related_ids": {"order_id": order["id"]}},
            "links": [{"rel": "up", "href": f"{self.url}/v2/checkout/orders/{order['id']}", "method": "GET"}],
        }
        self.books.keep(self.books.captures, capture_id, capture)
        if status == "COMPLETED":
            self.receive(capture)
        unit["payments"] = {"captures": [capture]}
        order["status"] = "COMPLETED"
        event = {"PENDING": "PENDING", "DECLINED": "DECLINED", "FAILED": "DECLINED"}.get(status, "COMPLETED")
        self.emit(f"PAYMENT.CAPTURE.{event}", "capture", capture)
        return order

    async def _show_page(self, request: web.Request) -> web.Response:
        order = self.books.orders.get(request.match_info["id"])
        if order is None:
            raise web.HTTPNotFound(text="This order does not exist.")
        unit = order["purchase_units"][0]
        total = f"{unit['amount']['value']} {unit['amount']['currency_code']}"
        is_open = order["status"] in WAITS_FOR_PAYER
        return payment_page(
            service="PayPal",
            total=total,
            lines=[Line(unit.get("description") or "Order", 1, total)],
            choices=_CHOICES,
            email=None,
            cancel_url=self.books.return_urls[order["id"]][1],
            state="open" if is_open else "done",
            message=None if is_open else "This order is approved.",
        )

    async def _submit_page(self, request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        if order_id not in self.books.orders:
            raise web.HTTPNotFound(text="This order does not exist.")
        approved, declined = self.books.return_urls[order_id]
        if (await request.post()).get("choice") == "decline":
            raise web.HTTPSeeOther(declined)
        self.approve(order_id)
        joint = "&" if "?" in approved else "?"
        raise web.HTTPSeeOther(f"{approved}{joint}token={order_id}&PayerID=SIMULATED")


def _check_amount(amount: Mapping[str, Any]) -> None:
    """Refuse currencies that PayPal does not support, and decimals for currencies without decimals at PayPal."""
    currency, value = str(amount.get("currency_code")), str(amount.get("value"))
    if not AMOUNTS.takes(currency):
        raise unprocessable("CURRENCY_NOT_SUPPORTED")
    try:
        is_valid = to_decimal(to_minor(value, currency), currency) == value
    except ValueError:
        is_valid = False
    if not is_valid:
        raise unprocessable("DECIMALS_NOT_SUPPORTED")

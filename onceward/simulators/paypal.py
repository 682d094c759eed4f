"""PayPal: access tokens, orders with a page to approve them on, captures, refunds, and webhooks that are
signed by a certificate of an authority of its own."""

import secrets
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web

from onceward.providers.inbound import SourceConfig
from onceward.providers.outgoing.money import is_taken_by, to_decimal, to_minor

from .authority import Signer
from .pages import Choice, Line, payment_page
from .server import Simulator, answer, part, parts, read_object
from .webhooks import WebhookSender

Json = dict[str, Any]
CERTIFICATE_URL = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-simulated"
WEBHOOK_ID = "WH-SIMULATED"
_CHOICES = (
    Choice("approve", "Approve", "The shop may take the money"),
    Choice("decline", "Decline", "Go back without approving"),
)
SIGNING_HOST = "messageverificationcerts.sandbox.paypal.com"
DEFAULT_RETRY_DELAYS_S = (0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)


def simulated_source(webhook_id: str = "SIMULATED", *, host: str = SIGNING_HOST) -> SourceConfig:
    """A PayPal source that trusts an authority made on the spot, and can therefore sign as PayPal.

    Nothing PayPal signs passes it, and nothing it signs passes a real source.
    """
    signer = Signer(host)
    return SourceConfig(
        provider="paypal",
        secrets=(signer.key_pem.encode(),),
        options={
            "webhook_id": webhook_id,
            "roots_pem": signer.root_pem,
            "certificates": {CERTIFICATE_URL: signer.certificate_pem},
        },
    )


class PayPalError(Exception):
    def __init__(self, name: str, *, status: int, issue: str | None = None) -> None:
        super().__init__(name)
        self.status = status
        details = [] if issue is None else [{"issue": issue}]
        self.body = {"name": name, "message": name.title(), "details": details, "debug_id": secrets.token_hex(6)}


@dataclass(slots=True)
class _Books:
    orders: dict[str, Json] = field(default_factory=dict[str, Json])
    captures: dict[str, Json] = field(default_factory=dict[str, Json])
    refunds: dict[str, Json] = field(default_factory=dict[str, Json])
    tokens: set[str] = field(default_factory=set[str])
    # Where the buyer goes after approving, and after not.
    return_urls: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


class PayPalSimulator(Simulator):
    """One sandbox app. `source_options` make a PayPal source of Onceward believe its webhooks."""

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__()
        self.books = _Books()
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s)
        self.webhook_id = WEBHOOK_ID
        self._signer = Signer(SIGNING_HOST)
        self._webhook_url: str | None = None
        self._kept: dict[str, tuple[int, bytes]] = {}
        self._browser_url: str | None = None

    @property
    def source_options(self) -> dict[str, Any]:
        return {
            "webhook_id": self.webhook_id,
            "roots_pem": self._signer.root_pem,
            "certificates": {CERTIFICATE_URL: self._signer.certificate_pem},
        }

    def send_webhooks_to(self, url: str) -> None:
        self._webhook_url = url

    def show_pages_at(self, url: str) -> None:
        """Under which address a browser reaches the approval pages, if not the one it listens on."""
        self._browser_url = url.rstrip("/")

    def revoke_tokens(self) -> None:
        """Make every access token invalid before its time."""
        self.books.tokens.clear()

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/v1/oauth2/token", self._token),
            web.post("/v2/checkout/orders", self._keyed(self._create_order, status=201)),
            web.get("/v2/checkout/orders/{id}", self._keyed(self._get_order)),
            web.post("/v2/checkout/orders/{id}/capture", self._keyed(self._capture, status=201)),
            web.get("/v2/payments/captures/{id}", self._keyed(self._get_capture)),
            web.post("/v2/payments/captures/{id}/refund", self._keyed(self._refund, status=201)),
            web.get("/checkoutnow/{id}", self._show_page),
            web.post("/checkoutnow/{id}", self._submit_page),
        ]

    def is_api(self, path: str) -> bool:
        return path.startswith("/v")

    def failure(self, status: int) -> web.Response:
        name = "RATE_LIMIT_REACHED" if status == 429 else "INTERNAL_SERVER_ERROR"
        return answer(PayPalError(name, status=status).body, status=status)

    async def _token(self, request: web.Request) -> web.Response:
        if not request.headers.get("Authorization", "").startswith("Basic "):
            return answer({"error": "invalid_client"}, status=401)
        token = f"A21-{secrets.token_hex(16)}"
        self.books.tokens.add(token)
        return answer({"access_token": token, "token_type": "Bearer", "expires_in": 32400})

    def _keyed(self, act: Callable[[web.Request, Json], Json], *, status: int = 200) -> Any:
        async def handle(request: web.Request) -> web.Response:
            if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.books.tokens:
                return answer({"error": "invalid_token"}, status=401)
            key = request.headers.get("PayPal-Request-Id")
            place = f"{request.path}:{key}"
            if key is not None and (kept := self._kept.get(place)) is not None:
                return web.Response(body=kept[1], status=200, content_type="application/json")
            try:
                made = act(request, await read_object(request) if request.body_exists else {})
            except PayPalError as error:
                return answer(error.body, status=error.status)
            if key is not None:
                self._kept[place] = (status, orjson.dumps(made))
            return answer(made, status=status)

        return handle

    def _create_order(self, _: web.Request, body: Json) -> Json:
        units = parts(body, "purchase_units")
        if not units or "amount" not in units[0]:
            raise PayPalError("INVALID_REQUEST", status=400, issue="MISSING_REQUIRED_PARAMETER")
        _check_amount(units[0]["amount"])
        order_id = secrets.token_hex(8).upper()
        page = f"{self._browser_url or self.url}/checkoutnow/{order_id}"
        context = part(part(part(body, "payment_source"), "paypal"), "experience_context")
        order: Json = {
            "id": order_id,
            "intent": body.get("intent", "CAPTURE"),
            "status": "PAYER_ACTION_REQUIRED",
            "purchase_units": [{"reference_id": "default", **unit} for unit in units],
            "create_time": _now(),
            "links": [{"rel": "payer-action", "href": page, "method": "GET"}],
        }
        self.books.orders[order_id] = order
        self.books.return_urls[order_id] = (str(context.get("return_url")), str(context.get("cancel_url")))
        return order

    def _get_order(self, request: web.Request, _: Json) -> Json:
        return self._found(self.books.orders, request.match_info["id"])

    def _get_capture(self, request: web.Request, _: Json) -> Json:
        return self._found(self.books.captures, request.match_info["id"])

    def _found(self, kept: Mapping[str, Json], object_id: str) -> Json:
        if object_id not in kept:
            raise PayPalError("RESOURCE_NOT_FOUND", status=404, issue="INVALID_RESOURCE_ID")
        return kept[object_id]

    def approve(self, order_id: str) -> Json:
        """Approve an order as its page does."""
        order = self._found(self.books.orders, order_id)
        if order["status"] == "PAYER_ACTION_REQUIRED":
            order["status"] = "APPROVED"
            self._emit("CHECKOUT.ORDER.APPROVED", "checkout-order", order)
        return order

    def _capture(self, request: web.Request, _: Json) -> Json:
        order = self._found(self.books.orders, request.match_info["id"])
        if order["status"] == "COMPLETED":
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="ORDER_ALREADY_CAPTURED")
        if order["status"] != "APPROVED":
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="ORDER_NOT_APPROVED")
        unit = order["purchase_units"][0]
        capture_id = secrets.token_hex(8).upper()
        capture: Json = {
            "id": capture_id,
            "status": "COMPLETED",
            "amount": dict(unit["amount"]),
            "custom_id": unit.get("custom_id"),
            "final_capture": True,
            "create_time": _now(),
            "supplementary_data": {"related_ids": {"order_id": order["id"]}},
            "links": [{"rel": "up", "href": f"{self.url}/v2/checkout/orders/{order['id']}", "method": "GET"}],
        }
        self.books.captures[capture_id] = capture
        unit["payments"] = {"captures": [capture]}
        order["status"] = "COMPLETED"
        self._emit("PAYMENT.CAPTURE.COMPLETED", "capture", capture)
        return order

    def _refund(self, request: web.Request, body: Json) -> Json:
        capture = self._found(self.books.captures, request.match_info["id"])
        given = [refund for refund in self.books.refunds.values() if refund["capture_id"] == capture["id"]]
        total = Decimal(capture["amount"]["value"])
        left = total - sum(Decimal(refund["amount"]["value"]) for refund in given)
        if left <= 0:
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="CAPTURE_FULLY_REFUNDED")
        amount = Decimal(part(body, "amount").get("value") or left)
        if amount > left:
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="REFUND_AMOUNT_EXCEEDED")
        refund_id = secrets.token_hex(8).upper()
        capture["status"] = "REFUNDED" if amount == left else "PARTIALLY_REFUNDED"
        refund: Json = {
            "id": refund_id,
            "status": "COMPLETED",
            "amount": {"currency_code": capture["amount"]["currency_code"], "value": str(amount)},
            "custom_id": body.get("custom_id"),
            "capture_id": capture["id"],
            "create_time": _now(),
            "links": [{"rel": "up", "href": f"{self.url}/v2/payments/captures/{capture['id']}", "method": "GET"}],
        }
        self.books.refunds[refund_id] = refund
        self._emit("PAYMENT.CAPTURE.REFUNDED", "refund", refund)
        return refund

    async def _show_page(self, request: web.Request) -> web.Response:
        order = self.books.orders.get(request.match_info["id"])
        if order is None:
            raise web.HTTPNotFound(text="There is no such order.")
        unit = order["purchase_units"][0]
        total = f"{unit['amount']['value']} {unit['amount']['currency_code']}"
        is_open = order["status"] == "PAYER_ACTION_REQUIRED"
        return payment_page(
            service="PayPal",
            total=total,
            lines=[Line(unit.get("description") or "Order", 1, total)],
            choices=_CHOICES,
            email=None,
            cancel_url=self.books.return_urls[order["id"]][1],
            state="open" if is_open else "done",
            message=None if is_open else "This has been approved.",
        )

    async def _submit_page(self, request: web.Request) -> web.Response:
        order_id = request.match_info["id"]
        if order_id not in self.books.orders:
            raise web.HTTPNotFound(text="There is no such order.")
        approved, declined = self.books.return_urls[order_id]
        if (await request.post()).get("choice") == "decline":
            raise web.HTTPSeeOther(declined)
        self.approve(order_id)
        joint = "&" if "?" in approved else "?"
        raise web.HTTPSeeOther(f"{approved}{joint}token={order_id}&PayerID=SIMULATED")

    def _emit(self, event_type: str, resource_type: str, resource: Json) -> None:
        if self._webhook_url is None:
            return
        event: Json = {
            "id": f"WH-{secrets.token_hex(10).upper()}",
            "event_version": "1.0",
            "create_time": _now(),
            "resource_type": resource_type,
            "resource_version": "2.0",
            "event_type": event_type,
            "summary": event_type.replace(".", " ").capitalize(),
            "resource": resource,
            "links": [],
        }
        self.webhooks.send(self._webhook_url, orjson.dumps(event), self._sign)

    def _sign(self, body: bytes) -> dict[str, str]:
        transmission, at = str(uuid4()), _now()
        content = f"{transmission}|{at}|{self.webhook_id}|{zlib.crc32(body)}".encode()
        return {
            "Content-Type": "application/json",
            "PAYPAL-AUTH-ALGO": "SHA256withRSA",
            "PAYPAL-CERT-URL": CERTIFICATE_URL,
            "PAYPAL-TRANSMISSION-ID": transmission,
            "PAYPAL-TRANSMISSION-TIME": at,
            "PAYPAL-TRANSMISSION-SIG": b64encode(self._signer.sign(content)).decode("ascii"),
        }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_amount(amount: Mapping[str, Any]) -> None:
    """Refuse what PayPal does not take: other currencies, and decimals of a currency that has none there."""
    currency, value = str(amount.get("currency_code")), str(amount.get("value"))
    if not is_taken_by("paypal", currency):
        raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="CURRENCY_NOT_SUPPORTED")
    try:
        is_written_right = to_decimal(to_minor(value, currency), currency) == value
    except ValueError:
        is_written_right = False
    if not is_written_right:
        raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="DECIMALS_NOT_SUPPORTED")

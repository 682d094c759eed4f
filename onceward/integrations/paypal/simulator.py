"""A simulator of PayPal: access tokens, orders with an approval page, captures, refunds, and webhooks signed with a
certificate of a temporary authority."""

import secrets
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web

from onceward.errors import OncewardError
from onceward.integrations.paypal.amounts import AMOUNTS, to_decimal, to_minor
from onceward.testing.simulators.authority import AuthoritySigner
from onceward.testing.simulators.pages import Choice, Line, payment_page
from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object
from onceward.testing.simulators.webhooks import WebhookSender
from onceward.webhooks.provider import SourceConfig

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


WAITS_FOR_PAYER = ("CREATED", "PAYER_ACTION_REQUIRED")
"""An order that names its payment source at creation has the second status, any other the first."""


class PayPalError(OncewardError):
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
    disputes: dict[str, Json] = field(default_factory=dict[str, Json])
    # The initial status of the next captures and refunds; `COMPLETED` if empty.
    next_capture_statuses: list[str] = field(default_factory=list[str])
    next_refund_statuses: list[str] = field(default_factory=list[str])
    tokens: set[str] = field(default_factory=set[str])
    # The return URL and the cancel URL of each order.
    return_urls: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])


class PayPalSimulator(Simulator):
    """One sandbox app. A PayPal source of Onceward with `source_options` accepts its webhooks."""

    kept = ("books", "_responses")

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__()
        self.books = _Books()
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s)
        self.webhook_id = WEBHOOK_ID
        self._signer = AuthoritySigner(SIGNING_HOST)
        self._webhook_url: str | None = None
        self._responses: dict[str, tuple[int, bytes]] = {}
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
        """Set the base URL of the approval pages, if browsers reach the simulator under another address."""
        self._browser_url = url.rstrip("/")

    def revoke_tokens(self) -> None:
        """Revoke all access tokens before they expire."""
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
            web.get("/v2/payments/refunds/{id}", self._keyed(self._get_refund)),
            web.get("/checkoutnow/{id}", self._show_page),
            web.post("/checkoutnow/{id}", self._submit_page),
        ]

    def is_api(self, path: str) -> bool:
        return path.startswith("/v")

    def failure(self, status: int) -> web.Response:
        name = "RATE_LIMIT_REACHED" if status == 429 else "INTERNAL_SERVER_ERROR"
        return answer(PayPalError(name, status=status).body, status=status)

    async def _token(self, request: web.Request) -> web.Response:
        scheme, _, login = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic" or b64decode(login).endswith(b"_invalid"):
            return answer({"error": "invalid_client"}, status=401)
        token = f"A21-{secrets.token_hex(16)}"
        self.books.tokens.add(token)
        return answer({"access_token": token, "token_type": "Bearer", "expires_in": 32400})

    def _keyed(self, act: Callable[[web.Request, Json], Json], *, status: int = 200) -> Any:
        async def handle(request: web.Request) -> web.Response:
            if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.books.tokens:
                return answer({"error": "invalid_token"}, status=401)
            key = request.headers.get("PayPal-Request-Id")
            response_key = f"{request.path}:{key}"
            if key is not None and (stored := self._responses.get(response_key)) is not None:
                return web.Response(body=stored[1], status=200, content_type="application/json")
            try:
                outcome = act(request, await read_object(request) if request.body_exists else {})
            except PayPalError as error:
                return answer(error.body, status=error.status)
            if key is not None:
                self._responses[response_key] = (status, orjson.dumps(outcome))
            return answer(outcome, status=status)

        return handle

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
            "create_time": _now(),
            "links": [{"rel": "payer-action" if sourced else "approve", "href": page, "method": "GET"}],
        }
        self.books.orders[order_id] = order
        self.books.return_urls[order_id] = (str(context.get("return_url")), str(context.get("cancel_url")))
        return order

    def _get_order(self, request: web.Request, _: Json) -> Json:
        return self._get(self.books.orders, request.match_info["id"])

    def _get_capture(self, request: web.Request, _: Json) -> Json:
        return self._get(self.books.captures, request.match_info["id"])

    def _get_refund(self, request: web.Request, _: Json) -> Json:
        return self._get(self.books.refunds, request.match_info["id"])

    def _get(self, objects: Mapping[str, Json], object_id: str) -> Json:
        if object_id not in objects:
            raise PayPalError("RESOURCE_NOT_FOUND", status=404, issue="INVALID_RESOURCE_ID")
        return objects[object_id]

    def approve(self, order_id: str) -> Json:
        """Approve an order as its page does."""
        order = self._get(self.books.orders, order_id)
        if order["status"] in WAITS_FOR_PAYER:
            order["status"] = "APPROVED"
            self._emit("CHECKOUT.ORDER.APPROVED", "checkout-order", order)
        return order

    def _capture(self, request: web.Request, _: Json) -> Json:
        order = self._get(self.books.orders, request.match_info["id"])
        if order["status"] == "COMPLETED":
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="ORDER_ALREADY_CAPTURED")
        if order["status"] != "APPROVED":
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="ORDER_NOT_APPROVED")
        unit = order["purchase_units"][0]
        status = self.books.next_capture_statuses.pop(0) if self.books.next_capture_statuses else "COMPLETED"
        if status == "INSTRUMENT_DECLINED":
            # The order stays approved: the payer may choose another card.
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="INSTRUMENT_DECLINED")
        capture_id = secrets.token_hex(8).upper()
        capture: Json = {
            "id": capture_id,
            "status": status,
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
        event = {"PENDING": "PENDING", "DECLINED": "DECLINED", "FAILED": "DECLINED"}.get(status, "COMPLETED")
        self._emit(f"PAYMENT.CAPTURE.{event}", "capture", capture)
        return order

    def _refund(self, request: web.Request, body: Json) -> Json:
        return self.refund(request.match_info["id"], part(body, "amount").get("value"), custom_id=body.get("custom_id"))

    def refund(self, capture_id: str, value: str | None = None, *, custom_id: str | None = None) -> Json:
        """Refund a capture, as the API and the PayPal dashboard do."""
        capture = self._get(self.books.captures, capture_id)
        left = self._left(capture)
        if left <= 0:
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="CAPTURE_FULLY_REFUNDED")
        amount = left if value is None else Decimal(value)
        if amount > left:
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="REFUND_AMOUNT_EXCEEDED")
        refund_id = secrets.token_hex(8).upper()
        status = self.books.next_refund_statuses.pop(0) if self.books.next_refund_statuses else "COMPLETED"
        refund: Json = {
            "id": refund_id,
            "status": status,
            "amount": {"currency_code": capture["amount"]["currency_code"], "value": str(amount)},
            "custom_id": custom_id,
            "capture_id": capture["id"],
            "create_time": _now(),
            "links": [{"rel": "up", "href": f"{self.url}/v2/payments/captures/{capture['id']}", "method": "GET"}],
        }
        self.books.refunds[refund_id] = refund
        self._update_refunds(capture)
        self._emit(f"PAYMENT.{'REFUND.PENDING' if status == 'PENDING' else 'CAPTURE.REFUNDED'}", "refund", refund)
        return refund

    def move_refund(self, refund_id: str, status: str) -> Json:
        """Set the status of a pending refund: COMPLETED, FAILED or CANCELLED. Send the webhook, if there is one."""
        refund = self._get(self.books.refunds, refund_id)
        if refund["status"] != "PENDING":
            raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="REFUND_IS_FINAL")
        refund["status"] = status
        self._update_refunds(self.books.captures[refund["capture_id"]])
        # PayPal sends no webhook for a cancelled refund: clients have to poll.
        if status in ("COMPLETED", "FAILED"):
            event = "CAPTURE.REFUNDED" if status == "COMPLETED" else "REFUND.FAILED"
            self._emit(f"PAYMENT.{event}", "refund", refund)
        return refund

    def _left(self, capture: Json) -> Decimal:
        refunds = [each for each in self.books.refunds.values() if each["capture_id"] == capture["id"]]
        spent = sum(Decimal(each["amount"]["value"]) for each in refunds if each["status"] in ("COMPLETED", "PENDING"))
        return Decimal(capture["amount"]["value"]) - spent

    def _update_refunds(self, capture: Json) -> None:
        """Update the status of a capture from its refunds, and the list of refunds in its order."""
        refunds = [each for each in self.books.refunds.values() if each["capture_id"] == capture["id"]]
        if not any(each["status"] == "COMPLETED" for each in refunds):
            capture["status"] = "COMPLETED"
        else:
            capture["status"] = "REFUNDED" if self._left(capture) == 0 else "PARTIALLY_REFUNDED"
        order_id = part(part(capture, "supplementary_data"), "related_ids").get("order_id")
        if order_id in self.books.orders:
            self.books.orders[order_id]["purchase_units"][0]["payments"]["refunds"] = refunds

    def reverse(self, capture_id: str) -> Json:
        """Take a payment back, as PayPal does after a chargeback. The webhook contains a refund of the capture."""
        capture = self._get(self.books.captures, capture_id)
        reversal: Json = {
            "id": secrets.token_hex(8).upper(),
            "status": "COMPLETED",
            "amount": {**capture["amount"], "value": str(self._left(capture))},
            "create_time": _now(),
            "links": [{"rel": "up", "href": f"{self.url}/v2/payments/captures/{capture_id}", "method": "GET"}],
        }
        self._emit("PAYMENT.CAPTURE.REVERSED", "refund", reversal)
        return reversal

    def open_dispute(self, capture_id: str, *, reason: str = "MERCHANDISE_OR_SERVICE_NOT_RECEIVED") -> Json:
        """Open a dispute. PayPal holds the money until the dispute is decided."""
        capture = self._get(self.books.captures, capture_id)
        dispute: Json = {
            "dispute_id": f"PP-D-{secrets.randbelow(10**5)}",
            "create_time": _now(),
            "update_time": _now(),
            "disputed_transactions": [{"seller_transaction_id": capture_id}],
            "reason": reason,
            "status": "OPEN",
            "dispute_amount": {**capture["amount"], "value": str(self._left(capture))},
            "dispute_life_cycle_stage": "CHARGEBACK",
            "dispute_channel": "INTERNAL",
        }
        self.books.disputes[dispute["dispute_id"]] = dispute
        self._emit("CUSTOMER.DISPUTE.CREATED", "dispute", dispute)
        return dispute

    def close_dispute(self, dispute_id: str, *, won: bool) -> Json:
        """Decide a dispute for the seller (`won`) or for the buyer."""
        dispute = self._get(self.books.disputes, dispute_id)
        outcome = "RESOLVED_SELLER_FAVOUR" if won else "RESOLVED_BUYER_FAVOUR"
        dispute.update(status="RESOLVED", dispute_outcome={"outcome_code": outcome})
        self._emit("CUSTOMER.DISPUTE.RESOLVED", "dispute", dispute)
        return dispute

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
    """Refuse currencies that PayPal does not support, and decimals for currencies without decimals at PayPal."""
    currency, value = str(amount.get("currency_code")), str(amount.get("value"))
    if not AMOUNTS.takes(currency):
        raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="CURRENCY_NOT_SUPPORTED")
    try:
        is_valid = to_decimal(to_minor(value, currency), currency) == value
    except ValueError:
        is_valid = False
    if not is_valid:
        raise PayPalError("UNPROCESSABLE_ENTITY", status=422, issue="DECIMALS_NOT_SUPPORTED")

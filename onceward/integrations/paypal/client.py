"""PayPal: orders, captures and refunds (Orders v2, Payments v2), each created once per `PayPal-Request-Id`."""

import asyncio
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar, Self
from urllib.parse import quote

from onceward.http import Response
from onceward.integrations.paypal.amounts import to_decimal
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    inner,
    judge_payment_failure,
    objects,
    read_json,
    short_reason,
    write_json,
)
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

BASE_URLS = {"live": "https://api-m.paypal.com", "sandbox": "https://api-m.sandbox.paypal.com"}

MAX_REQUEST_ID_CHARACTERS = 108
# A token is renewed this long before it expires, so that it does not expire during a request.
_RENEW_BEFORE_S = 60.0


class PayPal:
    """Calls PayPal with one app's client id and secret. It shares and renews the access token."""

    repeatable: ClassVar[bool] = True

    def __init__(
        self,
        client: Client,
        *,
        client_id: str,
        client_secret: str,
        base_url: str = BASE_URLS["live"],
        timeout_s: float = 30.0,
    ) -> None:
        self._client = client
        self._basic = b64encode(f"{client_id}:{client_secret}".encode()).decode("ascii")
        self._base_url = base_url
        self._timeout_s = timeout_s
        self._token: str | None = None
        self._token_until = 0.0
        self._renewing = asyncio.Lock()

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(
            http,
            client_id=account["client_id"],
            client_secret=account["client_secret"],
            base_url=account.url or BASE_URLS[account.settings.mode],
        )

    async def check(self) -> ServiceAnswer:
        """Ask for an access token."""
        token = await self._access_token()
        return Accepted() if isinstance(token, str) else token

    async def create_order(
        self,
        *,
        key: str,
        amount_minor: int,
        currency: str,
        custom_id: str,
        return_url: str,
        cancel_url: str,
        description: str | None = None,
    ) -> ServiceAnswer:
        """Start a payment. `detail["approve_url"]` is the page for the buyer; the reference is the order id."""
        unit: dict[str, Any] = {
            "custom_id": custom_id,
            "amount": {"currency_code": currency.upper(), "value": to_decimal(amount_minor, currency)},
        }
        if description:
            unit["description"] = description[:127]
        context = {"return_url": return_url, "cancel_url": cancel_url, "user_action": "PAY_NOW"}
        outcome = await self._call(
            "POST",
            "/v2/checkout/orders",
            {
                "intent": "CAPTURE",
                "purchase_units": [unit],
                "payment_source": {"paypal": {"experience_context": context}},
            },
            key=key,
        )
        if isinstance(outcome, Accepted):
            links = {link.get("rel"): link.get("href") for link in objects(outcome.detail, "links")}
            approve_url = links.get("payer-action") or links.get("approve")
            return Accepted(outcome.reference, {**outcome.detail, "approve_url": approve_url})
        return outcome

    async def get_order(self, order_id: str) -> ServiceAnswer:
        return await self._call("GET", f"/v2/checkout/orders/{quote(order_id, safe='')}")

    async def capture_order(self, order_id: str, *, key: str) -> ServiceAnswer:
        """Capture an approved order. The reference is the capture id, even if the order was captured before."""
        outcome = await self._call("POST", f"/v2/checkout/orders/{quote(order_id, safe='')}/capture", {}, key=key)
        if isinstance(outcome, Refused) and outcome.detail.get("issue") == "ORDER_ALREADY_CAPTURED":
            outcome = await self.get_order(order_id)
        if not isinstance(outcome, Accepted):
            return outcome
        capture = _first_capture(outcome.detail)
        if capture.get("status") in ("DECLINED", "FAILED"):
            return Refused(f"capture {capture.get('status')}", permanent=True, detail=outcome.detail)
        return accepted(capture.get("id"), outcome.detail)

    async def refund_capture(
        self,
        capture_id: str,
        *,
        key: str,
        amount_minor: int | None = None,
        currency: str | None = None,
        note: str | None = None,
    ) -> ServiceAnswer:
        """Refund a capture. Without an amount, refund what remains of it. The reference is the refund id."""
        if (amount_minor is None) != (currency is None):
            raise ValueError("give amount_minor and currency together, or neither")
        body: dict[str, Any] = {"custom_id": key[:127]}
        if amount_minor is not None and currency is not None:
            value = to_decimal(amount_minor, currency)
            body["amount"] = {"currency_code": currency.upper(), "value": value}
        if note:
            body["note_to_payer"] = note[:255]
        return await self._call("POST", f"/v2/payments/captures/{quote(capture_id, safe='')}/refund", body, key=key)

    async def get_refund(self, refund_id: str) -> ServiceAnswer:
        return await self._call("GET", f"/v2/payments/refunds/{quote(refund_id, safe='')}")

    async def list_refunds(self, capture_id: str) -> ServiceAnswer:
        """Return all refunds of a capture in `detail["refunds"]`. PayPal lists them only in the capture's order."""
        capture = await self._call("GET", f"/v2/payments/captures/{quote(capture_id, safe='')}")
        if not isinstance(capture, Accepted):
            return capture
        order_id = inner(capture.detail, "supplementary_data", "related_ids").get("order_id")
        if not order_id:
            return Accepted(capture_id, {"refunds": []})
        order = await self.get_order(str(order_id))
        if not isinstance(order, Accepted):
            return order
        return Accepted(capture_id, {"refunds": refunds_of(order.detail, capture_id)})

    async def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> ServiceAnswer:
        outcome = await self._call_once(method, path, body, key=key)
        if isinstance(outcome, Refused) and outcome.detail.get("status") == 401:
            # The token was revoked early. A 401 means that PayPal did not act, so a retry is safe.
            self._token = None
            outcome = await self._call_once(method, path, body, key=key)
        return outcome

    async def _call_once(
        self, method: str, path: str, body: Mapping[str, Any] | None, *, key: str | None
    ) -> ServiceAnswer:
        token = await self._access_token()
        if not isinstance(token, str):
            return token
        headers = {"Authorization": f"Bearer {token}", "Prefer": "return=representation"}
        if key is not None:
            headers["PayPal-Request-Id"] = request_id(key)
        if body is not None:
            headers["Content-Type"] = "application/json"
        return await call(
            self._client,
            method,
            f"{self._base_url}{path}",
            headers=headers,
            body=None if body is None else write_json(body),
            judge=judge,
            timeout_s=self._timeout_s,
        )

    async def _access_token(self) -> str | ServiceAnswer:
        async with self._renewing:
            if self._token is not None and time.monotonic() < self._token_until:
                return self._token
            outcome = await call(
                self._client,
                "POST",
                f"{self._base_url}/v1/oauth2/token",
                headers={
                    "Authorization": f"Basic {self._basic}",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
                body=b"grant_type=client_credentials",
                judge=_judge_token,
                timeout_s=self._timeout_s,
            )
            if not isinstance(outcome, Accepted):
                return outcome
            self._token = str(outcome.detail["access_token"])
            lifetime_s = float(outcome.detail.get("expires_in") or 0)
            self._token_until = time.monotonic() + max(0.0, lifetime_s - _RENEW_BEFORE_S)
            return self._token


def request_id(key: str) -> str:
    """Return the key, or its hash if the key is too long for PayPal."""
    return key if len(key) <= MAX_REQUEST_ID_CHARACTERS else sha256(key.encode()).hexdigest()


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return accepted(answer.get("id"), answer)
    issue = next((item.get("issue") for item in objects(answer, "details")), None)
    reason = short_reason(f"HTTP {response.status}", answer.get("name"), issue or answer.get("message"))
    failure = judge_payment_failure(response, reason)
    if isinstance(failure, Refused):
        detail = {"status": response.status, "issue": issue, "debug_id": answer.get("debug_id")}
        return replace(failure, detail=detail)
    return failure


def _judge_token(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok and answer.get("access_token"):
        return Accepted(None, answer)
    return judge_payment_failure(response, short_reason("PayPal gave no access token", answer.get("error")))


def refunds_of(order: Mapping[str, Any], capture_id: str) -> list[dict[str, Any]]:
    """Return the refunds of one capture from its order. Each refund links `up` to its capture."""
    listed = [
        refund for unit in objects(order, "purchase_units") for refund in objects(inner(unit, "payments"), "refunds")
    ]
    return [refund for refund in listed if capture_of(refund) == capture_id]


def capture_of(refund: Mapping[str, Any]) -> str | None:
    """Return the id of a refund's capture: the last part of its link `up`."""
    for link in objects(refund, "links"):
        if link.get("rel") == "up":
            return str(link.get("href", "")).rstrip("/").rsplit("/", 1)[-1] or None
    return None


def _first_capture(order: Mapping[str, Any]) -> dict[str, Any]:
    for unit in objects(order, "purchase_units"):
        for capture in objects(inner(unit, "payments"), "captures"):
            return capture
    return {}

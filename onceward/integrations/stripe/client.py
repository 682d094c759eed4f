"""Stripe: refunds, checkout sessions, payment intents and subscriptions, each created once per key.

Stripe stores the result of a key for 24 hours. For an older key, the object is first looked up by the key, which we
store in the object's metadata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlencode

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    flatten_form,
    inner,
    judge_payment_failure,
    objects,
    read_json,
    short_reason,
    write_form,
)
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer

BASE_URL = "https://api.stripe.com"

KEY_METADATA = "onceward_key"
MAX_KEY_CHARACTERS = 255
# One hour less than Stripe's 24, because a call may wait and clocks differ.
KEY_LIFETIME_S = 23 * 3600.0


@dataclass(frozen=True, slots=True)
class Stripe:
    """Calls Stripe's API with one secret key. With `account` it acts for a connected account."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    secret_key: str = field(repr=False)
    base_url: str = BASE_URL
    api_version: str | None = None
    account: str | None = None
    timeout_s: float = 30.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["secret_key"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the balance, which every unrestricted key may do."""
        return await self._get("balance")

    async def create_refund(
        self,
        *,
        key: str,
        payment_intent: str | None = None,
        charge: str | None = None,
        amount_minor: int | None = None,
        reason: str | None = None,
        metadata: Mapping[str, str] | None = None,
        key_age_s: float = 0.0,
    ) -> ServiceAnswer:
        """Refund a payment. Without an amount, refund what remains of it. The reference is the refund's id."""
        if (payment_intent is None) == (charge is None):
            raise ValueError("a refund needs either payment_intent or charge, and not both")
        if key_age_s >= KEY_LIFETIME_S:
            existing = await self.find_refund(key=key, payment_intent=payment_intent, charge=charge)
            if not isinstance(existing, Absent):
                return existing
        return await self._create(
            "refunds",
            {
                "payment_intent": payment_intent,
                "charge": charge,
                "amount": amount_minor,
                "reason": reason,
                "metadata": {**(metadata or {}), KEY_METADATA: key},
            },
            key=key,
        )

    async def find_refund(self, *, key: str, payment_intent: str | None = None, charge: str | None = None) -> Lookup:
        """Return the refund that was created with a key, however old it is."""
        return await self._find("refunds", {"payment_intent": payment_intent, "charge": charge, "limit": 100}, key=key)

    async def list_refunds(self, *, payment_intent: str | None = None, charge: str | None = None) -> ServiceAnswer:
        """Return all refunds of a payment in `detail["refunds"]`, newest first."""
        fields = {"payment_intent": payment_intent, "charge": charge}
        return await self._list("refunds", fields, "refunds", reference=payment_intent or charge)

    async def create_checkout_session(
        self,
        *,
        key: str,
        line_items: Sequence[Mapping[str, Any]],
        success_url: str,
        cancel_url: str,
        client_reference_id: str | None = None,
        customer_email: str | None = None,
        metadata: Mapping[str, str] | None = None,
        mode: str = "payment",
        expires_at: int | None = None,
        locale: str | None = None,
    ) -> ServiceAnswer:
        """Start a hosted payment. `detail["url"]` is the page for the buyer. Metadata is copied to the payment.

        With mode `subscription` the prices need `recurring`, and metadata is copied to the subscription.

        A session lives at most 24 hours, no longer than its key, so an older session is never looked up.
        """
        kept = {**(metadata or {}), KEY_METADATA: key}
        return await self._create(
            "checkout/sessions",
            {
                "mode": mode,
                "line_items": list(line_items),
                "success_url": success_url,
                "cancel_url": cancel_url,
                "client_reference_id": client_reference_id,
                "customer_email": customer_email,
                "expires_at": expires_at,
                "locale": locale,
                "metadata": kept,
                "payment_intent_data": {"metadata": kept} if mode == "payment" else None,
                "subscription_data": {"metadata": kept} if mode == "subscription" else None,
            },
            key=key,
        )

    async def create_payment_intent(
        self,
        *,
        key: str,
        amount_minor: int,
        currency: str,
        metadata: Mapping[str, str] | None = None,
        description: str | None = None,
        receipt_email: str | None = None,
        key_age_s: float = 0.0,
    ) -> ServiceAnswer:
        """Prepare a payment that the browser confirms with `detail["client_secret"]`."""
        if key_age_s >= KEY_LIFETIME_S:
            existing = await self._find(
                "payment_intents/search", {"query": f"metadata['{KEY_METADATA}']:'{_quoted(key)}'"}, key=key
            )
            if not isinstance(existing, Absent):
                return existing
        return await self._create(
            "payment_intents",
            {
                "amount": amount_minor,
                "currency": currency.lower(),
                "description": description,
                "receipt_email": receipt_email,
                "automatic_payment_methods": {"enabled": True},
                "metadata": {**(metadata or {}), KEY_METADATA: key},
            },
            key=key,
        )

    async def cancel_payment_intent(self, payment_intent: str, *, key: str) -> ServiceAnswer:
        return await self._create(f"payment_intents/{quote(payment_intent, safe='')}/cancel", {}, key=key)

    async def expire_checkout_session(self, session: str, *, key: str) -> ServiceAnswer:
        """Expire an unpaid session, so that it cannot be paid later."""
        return await self._create(f"checkout/sessions/{quote(session, safe='')}/expire", {}, key=key)

    async def retrieve_payment_intent(self, payment_intent: str) -> ServiceAnswer:
        return await self._get(f"payment_intents/{quote(payment_intent, safe='')}")

    async def retrieve_checkout_session(self, session: str) -> ServiceAnswer:
        return await self._get(f"checkout/sessions/{quote(session, safe='')}")

    async def retrieve_refund(self, refund: str) -> ServiceAnswer:
        return await self._get(f"refunds/{quote(refund, safe='')}")

    async def retrieve_subscription(self, subscription: str) -> ServiceAnswer:
        return await self._get(f"subscriptions/{quote(subscription, safe='')}")

    async def cancel_subscription(self, subscription: str, *, key: str, at_period_end: bool = True) -> ServiceAnswer:
        """Cancel a subscription now, or let its last paid period end first. Cancelling again counts as success."""
        path = f"subscriptions/{quote(subscription, safe='')}"
        if at_period_end:
            return await self._create(path, {"cancel_at_period_end": True}, key=key)
        outcome = await self._create(path, {}, key=key, method="DELETE")
        if isinstance(outcome, Refused) and outcome.detail.get("code") == "resource_missing":
            current = await self.retrieve_subscription(subscription)
            if isinstance(current, Accepted) and current.detail.get("status") == "canceled":
                return current
        return outcome

    async def retrieve_invoice(self, invoice: str) -> ServiceAnswer:
        """Return an invoice with its payments, which the API leaves out unless they are asked for."""
        return await self._get(f"invoices/{quote(invoice, safe='')}", {"expand": ["payments"]})

    async def list_invoices(self, *, subscription: str) -> ServiceAnswer:
        """Return all invoices of a subscription in `detail["invoices"]`, newest first."""
        return await self._list("invoices", {"subscription": subscription}, "invoices", reference=subscription)

    async def _create(self, path: str, fields: Mapping[str, Any], *, key: str, method: str = "POST") -> ServiceAnswer:
        if not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise ValueError(f"key must have 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}")
        headers = {
            **self._headers(),
            "Idempotency-Key": key,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return await call(
            self.client,
            method,
            f"{self.base_url}/v1/{path}",
            headers=headers,
            body=write_form(flatten_form(fields)),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def _get(self, path: str, fields: Mapping[str, Any] | None = None) -> ServiceAnswer:
        query = f"?{urlencode(flatten_form(fields))}" if fields else ""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/v1/{path}{query}",
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def _list(self, path: str, fields: Mapping[str, Any], name: str, *, reference: str | None) -> ServiceAnswer:
        """Return all objects of a list, page by page, in `detail[name]`, newest first."""
        query = {**fields, "limit": 100}
        listed: list[dict[str, Any]] = []
        while True:
            answer = await self._get(path, query)
            if not isinstance(answer, Accepted):
                return answer
            page = objects(answer.detail, "data")
            listed += page
            if not answer.detail.get("has_more") or not page:
                return Accepted(reference, {name: listed})
            query["starting_after"] = page[-1].get("id")

    async def _find(self, path: str, fields: Mapping[str, Any], *, key: str) -> Lookup:
        """Search a list, page by page, for the object with the key in its metadata."""
        query = dict(fields)
        while True:
            answer = await self._get(path, query)
            if not isinstance(answer, Accepted):
                return answer
            listed = objects(answer.detail, "data")
            for item in listed:
                if inner(item, "metadata").get(KEY_METADATA) == key:
                    return accepted(item.get("id"), item)
            if not answer.detail.get("has_more") or not listed:
                return Absent()
            if next_page := answer.detail.get("next_page"):
                query["page"] = next_page
            else:
                query["starting_after"] = listed[-1].get("id")

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.secret_key}"}
        if self.api_version:
            headers["Stripe-Version"] = self.api_version
        if self.account:
            headers["Stripe-Account"] = self.account
        return headers


def judge(response: Response) -> ServiceAnswer:
    """Convert a response. `Stripe-Should-Retry` decides if it is present. A 409 means that a call with the same key still runs."""
    answer = read_json(response)
    if response.ok:
        return accepted(answer.get("id"), answer)
    error = inner(answer, "error")
    reason = short_reason(f"HTTP {response.status}", error.get("code") or error.get("type"), error.get("message"))
    failure = judge_payment_failure(response, reason)
    if not isinstance(failure, Refused):
        return failure
    if failure.account:
        return replace(failure, detail=error)
    match response.headers.get("stripe-should-retry", "").lower():
        case "true":
            return replace(failure, permanent=False, detail=error)
        case "false":
            return replace(failure, permanent=True, detail=error)
        case _:
            return replace(failure, detail=error)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")

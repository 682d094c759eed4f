"""PayPal: orders, captures and refunds (Orders v2, Payments v2), each created once per `PayPal-Request-Id`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlencode, urlsplit

from onceward.integrations.paypal.amounts import to_decimal
from onceward.integrations.paypal.api import BASE_URLS, PayPalApi
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, accepted, inner, objects
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

LIST_PAGE = 100
DISPUTE_PAGE = 50
"""The largest pages of PayPal's lists that we read."""


class PayPal(PayPalApi):
    """Orders, captures, refunds, disputes, events and transactions of one PayPal app."""

    repeatable: ClassVar[bool] = True

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
        token = await self.access_token()
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
        locale: str | None = None,
    ) -> ServiceAnswer:
        """Start a payment. `detail["approve_url"]` is the page for the buyer; the reference is the order id."""
        unit: dict[str, Any] = {
            "custom_id": custom_id,
            "amount": {"currency_code": currency.upper(), "value": to_decimal(amount_minor, currency)},
        }
        if description:
            unit["description"] = description[:127]
        context = {"return_url": return_url, "cancel_url": cancel_url, "user_action": "PAY_NOW"}
        if locale is not None:
            context["locale"] = locale.replace("_", "-")
        outcome = await self.request(
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
            return replace(outcome, detail={**outcome.detail, "approve_url": approve_url})
        return outcome

    async def get_order(self, order_id: str) -> ServiceAnswer:
        return await self.request("GET", f"/v2/checkout/orders/{quote(order_id, safe='')}")

    async def capture_order(self, order_id: str, *, key: str) -> ServiceAnswer:
        """Capture an approved order. The reference is the capture id, even if the order was captured before."""
        outcome = await self.request("POST", f"/v2/checkout/orders/{quote(order_id, safe='')}/capture", {}, key=key)
        if isinstance(outcome, Refused) and outcome.detail.get("issue") == "ORDER_ALREADY_CAPTURED":
            outcome = await self.get_order(order_id)
        if not isinstance(outcome, Accepted):
            return outcome
        capture = first_capture(outcome.detail)
        if capture.get("status") in ("DECLINED", "FAILED"):
            return Refused(f"capture {capture.get('status')}", permanent=True, detail=outcome.detail)
        return replace(accepted(capture.get("id"), outcome.detail), is_replay=outcome.is_replay)

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
        return await self.request("POST", f"/v2/payments/captures/{quote(capture_id, safe='')}/refund", body, key=key)

    async def get_capture(self, capture_id: str) -> ServiceAnswer:
        return await self.request("GET", f"/v2/payments/captures/{quote(capture_id, safe='')}")

    async def get_refund(self, refund_id: str) -> ServiceAnswer:
        return await self.request("GET", f"/v2/payments/refunds/{quote(refund_id, safe='')}")

    async def list_refunds(self, capture_id: str) -> ServiceAnswer:
        """Return all refunds of a capture in `detail["refunds"]`. PayPal lists them only in the capture's order."""
        capture = await self.get_capture(capture_id)
        if not isinstance(capture, Accepted):
            return capture
        order_id = inner(capture.detail, "supplementary_data", "related_ids").get("order_id")
        if not order_id:
            return Accepted(capture_id, {"refunds": []})
        order = await self.get_order(str(order_id))
        if not isinstance(order, Accepted):
            return order
        return Accepted(capture_id, {"refunds": refunds_of(order.detail, capture_id)})

    async def get_dispute(self, dispute_id: str) -> ServiceAnswer:
        return await self.request("GET", f"/v1/customer/disputes/{quote(dispute_id, safe='')}")

    async def list_disputes(self, capture_id: str) -> ServiceAnswer:
        """Return all disputes of a capture in `detail["disputes"]`, each with everything that PayPal knows about it."""
        query = urlencode({"disputed_transaction_id": capture_id, "page_size": DISPUTE_PAGE})
        listed = await self._list(f"/v1/customer/disputes?{query}", "items")
        if not isinstance(listed, Accepted):
            return listed
        disputes: list[Mapping[str, Any]] = []
        # The list has summaries, without the transactions and the outcome.
        for summary in listed.detail["items"]:
            dispute = await self.get_dispute(str(summary.get("dispute_id")))
            if not isinstance(dispute, Accepted):
                return dispute
            disputes.append(dispute.detail)
        return Accepted(capture_id, {"disputes": disputes})

    async def list_events(self, *, start: datetime, end: datetime) -> ServiceAnswer:
        """Return the first events of a period in `detail["events"]`; `detail["next"]` is for `next_events`."""
        query = urlencode({"start_time": to_iso(start), "end_time": to_iso(end), "page_size": LIST_PAGE})
        return await self.next_events(f"/v1/notifications/webhooks-events?{query}")

    async def next_events(self, path: str) -> ServiceAnswer:
        page = await self.request("GET", path)
        if not isinstance(page, Accepted):
            return page
        return Accepted(None, {"events": objects(page.detail, "events"), "next": _next_path(page.detail)})

    async def list_transactions(self, *, start: datetime, end: datetime, page: int = 1) -> ServiceAnswer:
        """Return a page of changes of the balance in at most 31 days. PayPal reports them up to 3 hours late.

        `detail` has `transaction_details`, `page` and `total_pages`.
        """
        fields = {
            "start_date": to_iso(start),
            "end_date": to_iso(end),
            "fields": "transaction_info",
            "page_size": LIST_PAGE,
            "page": page,
        }
        return await self.request("GET", f"/v1/reporting/transactions?{urlencode(fields)}")

    async def _list(self, path: str, name: str) -> ServiceAnswer:
        """Return all objects of a list, page by page, in `detail[name]`."""
        listed: list[dict[str, Any]] = []
        following: str | None = path
        while following is not None:
            page = await self.request("GET", following)
            if not isinstance(page, Accepted):
                return page
            listed += objects(page.detail, name)
            following = _next_path(page.detail)
        return Accepted(None, {name: listed})


def to_iso(moment: datetime) -> str:
    """Return a time as PayPal reads it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _next_path(page: Mapping[str, Any]) -> str | None:
    """Return the path of the link `next`. Only the path: the token must never go to another host."""
    for link in objects(page, "links"):
        if link.get("rel") == "next" and link.get("href"):
            parts = urlsplit(str(link["href"]))
            return f"{parts.path}?{parts.query}"
    return None


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


def first_capture(order: Mapping[str, Any]) -> dict[str, Any]:
    for unit in objects(order, "purchase_units"):
        for capture in objects(inner(unit, "payments"), "captures"):
            return capture
    return {}

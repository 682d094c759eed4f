"""Stripe: refunds, checkout sessions, payment intents and subscriptions, each created once per key.

Stripe stores the result of a key for 24 hours. For an older key, the object is first looked up by the key, which we
store in the object's metadata.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from urllib.parse import quote

from onceward.integrations.stripe.api import BASE_URL, KEY_METADATA, PAGE_OBJECTS, StripeApi
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer

# One hour less than Stripe's 24, because a call may wait and clocks differ.
KEY_LIFETIME_S = 23 * 3600.0


@dataclass(frozen=True, slots=True)
class Stripe(StripeApi):
    """Calls Stripe with one secret key. With `account` it acts for a connected account."""

    repeatable: ClassVar[bool] = True

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["secret_key"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the balance, which every unrestricted key may do."""
        return await self.get("balance")

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
        mark: str | None = None,
    ) -> ServiceAnswer:
        """Refund a payment. Without an amount, refund what remains of it. The reference is the refund's id.

        `mark` is stored in the metadata instead of the key, and found by `find_refund`.
        """
        mark = mark or key
        if (payment_intent is None) == (charge is None):
            raise ValueError("a refund needs either payment_intent or charge, and not both")
        if key_age_s >= KEY_LIFETIME_S:
            existing = await self.find_refund(key=mark, payment_intent=payment_intent, charge=charge)
            if not isinstance(existing, Absent):
                return existing
        return await self.create(
            "refunds",
            {
                "payment_intent": payment_intent,
                "charge": charge,
                "amount": amount_minor,
                "reason": reason,
                "metadata": {**(metadata or {}), KEY_METADATA: mark},
            },
            key=key,
        )

    async def find_refund(self, *, key: str, payment_intent: str | None = None, charge: str | None = None) -> Lookup:
        """Return the refund that was created with a key, however old it is."""
        return await self.find(
            "refunds", {"payment_intent": payment_intent, "charge": charge, "limit": PAGE_OBJECTS}, key=key
        )

    async def list_refunds(self, *, payment_intent: str | None = None, charge: str | None = None) -> ServiceAnswer:
        """Return all refunds of a payment in `detail["refunds"]`, newest first."""
        fields = {"payment_intent": payment_intent, "charge": charge}
        return await self.list_all("refunds", fields, "refunds", reference=payment_intent or charge)

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
        capture_method: str | None = None,
    ) -> ServiceAnswer:
        """Start a hosted payment. `detail["url"]` is the page for the buyer. Metadata is copied to the payment.

        With mode `subscription` the prices need `recurring`, and metadata is copied to the subscription. With
        capture method `manual` the buyer's bank only reserves the money, until `capture_payment_intent`.

        A session lives at most 24 hours, no longer than its key, so an older session is never looked up.
        """
        kept = {**(metadata or {}), KEY_METADATA: key}
        return await self.create(
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
                "payment_intent_data": {"metadata": kept, "capture_method": capture_method}
                if mode == "payment"
                else None,
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
            existing = await self.find(
                "payment_intents/search", {"query": f"metadata['{KEY_METADATA}']:'{_quoted(key)}'"}, key=key
            )
            if not isinstance(existing, Absent):
                return existing
        return await self.create(
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

    async def capture_payment_intent(
        self, payment_intent: str, *, key: str, amount_minor: int | None = None
    ) -> ServiceAnswer:
        """Take the money that the buyer's bank reserved, in full or in part. Stripe releases the rest."""
        path = f"payment_intents/{quote(payment_intent, safe='')}/capture"
        return await self.create(path, {"amount_to_capture": amount_minor}, key=key)

    async def cancel_payment_intent(self, payment_intent: str, *, key: str) -> ServiceAnswer:
        return await self.create(f"payment_intents/{quote(payment_intent, safe='')}/cancel", {}, key=key)

    async def expire_checkout_session(self, session: str, *, key: str) -> ServiceAnswer:
        """Expire an unpaid session, so that it cannot be paid later."""
        return await self.create(f"checkout/sessions/{quote(session, safe='')}/expire", {}, key=key)

    async def retrieve_payment_intent(self, payment_intent: str) -> ServiceAnswer:
        return await self.get(f"payment_intents/{quote(payment_intent, safe='')}")

    async def retrieve_charge(self, charge: str) -> ServiceAnswer:
        """Return a charge with its balance transaction, which has Stripe's fee."""
        return await self.get(f"charges/{quote(charge, safe='')}", {"expand": ["balance_transaction"]})

    async def list_charges(self, *, payment_intent: str) -> ServiceAnswer:
        """Return all attempts to pay a payment intent in `detail["charges"]`, newest first."""
        fields = {"payment_intent": payment_intent, "expand": ["data.balance_transaction"]}
        return await self.list_all("charges", fields, "charges", reference=payment_intent)

    async def retrieve_checkout_session(self, session: str, *, expand: Sequence[str] = ()) -> ServiceAnswer:
        """Return a session. Expanded with its `payment_intent`, it also says why a payment failed."""
        return await self.get(
            f"checkout/sessions/{quote(session, safe='')}", {"expand": list(expand)} if expand else None
        )

    async def retrieve_refund(self, refund: str) -> ServiceAnswer:
        return await self.get(f"refunds/{quote(refund, safe='')}")

    async def retrieve_dispute(self, dispute: str) -> ServiceAnswer:
        return await self.get(f"disputes/{quote(dispute, safe='')}")

    async def list_disputes(
        self, *, payment_intent: str | None = None, charge: str | None = None, created_from: int | None = None
    ) -> ServiceAnswer:
        """Return the disputes of a payment, or those created since a time, in `detail["disputes"]`, newest first."""
        fields = {"payment_intent": payment_intent, "charge": charge, "created": {"gte": created_from}}
        return await self.list_all("disputes", fields, "disputes", reference=payment_intent or charge)

    async def retrieve_payout(self, payout: str) -> ServiceAnswer:
        return await self.get(f"payouts/{quote(payout, safe='')}")

    async def list_payouts(self, *, created_from: int, created_until: int | None = None) -> ServiceAnswer:
        """Return the payouts created in a period in `detail["payouts"]`, newest first."""
        fields = {"created": {"gte": created_from, "lt": created_until}}
        return await self.list_all("payouts", fields, "payouts", reference=None)

    async def list_balance_transactions(
        self, *, after: str | None = None, created_from: int | None = None, created_until: int | None = None
    ) -> ServiceAnswer:
        """Return a page of changes of the balance in `detail["balance_transactions"]`, oldest first.

        Each has its fee and its source, which names the payment.
        """
        fields = {"created": {"gte": created_from, "lt": created_until}, "expand": ["data.source"]}
        return await self.list_after("balance_transactions", fields, "balance_transactions", after=after)

    async def list_payout_transactions(self, payout: str) -> ServiceAnswer:
        """Return the parts of an automatic payout, and the payout itself, in `detail["balance_transactions"]`."""
        fields = {"payout": payout, "expand": ["data.source"]}
        return await self.list_all("balance_transactions", fields, "balance_transactions", reference=payout)

    async def list_events(self, *, after: str | None = None, created_from: int | None = None) -> ServiceAnswer:
        """Return a page of events after an event, or from a time on, in `detail["events"]`, oldest first.

        Stripe keeps events for 30 days, and refuses an older id as `after`.
        """
        fields = {"created": {"gte": created_from}} if after is None else {}
        return await self.list_after("events", fields, "events", after=after)

    async def retrieve_subscription(self, subscription: str) -> ServiceAnswer:
        return await self.get(f"subscriptions/{quote(subscription, safe='')}")

    async def cancel_subscription(self, subscription: str, *, key: str, at_period_end: bool = True) -> ServiceAnswer:
        """Cancel a subscription now, or let its last paid period end first. Cancelling again counts as success."""
        path = f"subscriptions/{quote(subscription, safe='')}"
        if at_period_end:
            return await self.create(path, {"cancel_at_period_end": True}, key=key)
        outcome = await self.create(path, {}, key=key, method="DELETE")
        if isinstance(outcome, Refused) and outcome.detail.get("code") == "resource_missing":
            current = await self.retrieve_subscription(subscription)
            if isinstance(current, Accepted) and current.detail.get("status") == "canceled":
                return current
        return outcome

    async def retrieve_invoice(self, invoice: str) -> ServiceAnswer:
        """Return an invoice with its payments, which the API leaves out unless they are asked for."""
        return await self.get(f"invoices/{quote(invoice, safe='')}", {"expand": ["payments"]})

    async def list_invoices(self, *, subscription: str) -> ServiceAnswer:
        """Return all invoices of a subscription in `detail["invoices"]`, newest first."""
        return await self.list_all("invoices", {"subscription": subscription}, "invoices", reference=subscription)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")

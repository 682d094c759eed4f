"""A simulator of Stripe: idempotent requests, refunds, a payment page, subscriptions, signed webhooks."""

import hashlib
import hmac
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from onceward.integrations.stripe.amounts import decimals
from onceward.integrations.stripe.simulator_billing import Billing
from onceward.integrations.stripe.simulator_objects import Books, Json, StripeError, get_object, make_id, nest, now
from onceward.testing.simulators.pages import Choice, Line, payment_page, written_amount
from onceward.testing.simulators.server import Simulator, answer, part
from onceward.testing.simulators.webhooks import WebhookSender

API_VERSION = "2025-06-30.basil"
_CHOICES = (
    Choice("pay", "Card that pays", "The payment succeeds at once"),
    Choice("decline", "Card that is declined", "The payment fails; try again with the other card"),
)
# Stripe retries for three days; the simulator uses shorter delays.
DEFAULT_RETRY_DELAYS_S = (0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)


class StripeSimulator(Simulator):
    """One Stripe test account. It sends webhooks after `send_webhooks_to` has set a receiver."""

    kept = ("books", "billing", "_responses")

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__()
        self.books = Books()
        self.billing = Billing()
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s)
        self.webhook_secret = ""
        self._webhook_url: str | None = None
        self._responses: dict[str, tuple[str, int, bytes]] = {}
        self._browser_url: str | None = None

    def send_webhooks_to(self, url: str, *, secret: str) -> None:
        self._webhook_url = url
        self.webhook_secret = secret

    def show_pages_at(self, url: str) -> None:
        """Set the base URL of the payment pages, if browsers reach the simulator under another address."""
        self._browser_url = url.rstrip("/")

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/balance", self._reading(self._balance)),
            web.post("/v1/checkout/sessions", self._keyed(self._create_session)),
            web.get("/v1/checkout/sessions/{id}", self._reading(self._session)),
            web.post("/v1/checkout/sessions/{id}/expire", self._keyed(self._expire_session)),
            web.post("/v1/payment_intents", self._keyed(lambda _, fields: self.books.new_intent(fields))),
            web.get("/v1/payment_intents/search", self._reading(self._search_intents)),
            web.get("/v1/payment_intents/{id}", self._reading(self._intent)),
            web.post("/v1/payment_intents/{id}/confirm", self._keyed(self._confirm_intent)),
            web.post("/v1/payment_intents/{id}/cancel", self._keyed(self._cancel_intent)),
            web.post("/v1/refunds", self._keyed(self._create_refund)),
            web.get("/v1/refunds", self._reading(self._list_refunds)),
            web.get("/v1/refunds/{id}", self._reading(self._refund)),
            web.get("/v1/disputes/{id}", self._reading(self._dispute)),
            web.get("/v1/charges/{id}", self._reading(self._charge)),
            web.get("/v1/subscriptions/{id}", self._reading(self._subscription)),
            web.post("/v1/subscriptions/{id}", self._keyed(self._update_subscription)),
            web.delete("/v1/subscriptions/{id}", self._keyed(self._cancel_subscription)),
            web.get("/v1/invoices", self._reading(self._list_invoices)),
            web.get("/v1/invoices/{id}", self._reading(self._invoice)),
            web.get("/v1/events", self._reading(self._list_events)),
            web.get("/v1/events/{id}", self._reading(self._event)),
            web.get("/pay/{id}", self._show_page),
            web.post("/pay/{id}", self._submit_page),
        ]

    def is_api(self, path: str) -> bool:
        return path.startswith("/v1/")

    def failure(self, status: int) -> web.Response:
        code = "rate_limit" if status == 429 else None
        error = StripeError(f"Simulated failure {status}", status=status, type="api_error", code=code)
        return answer(error.body, status=status)

    # Creates: a request with an idempotency key runs once; repeats get the stored response.

    def _keyed(self, create: Callable[[web.Request, Json], Json]) -> Any:
        async def handle(request: web.Request) -> web.Response:
            body = await request.text()
            key = request.headers.get("Idempotency-Key")
            fingerprint = hashlib.sha256(f"{request.path}\n{body}".encode()).hexdigest()
            try:
                _authorize(request)
                if key is not None and (stored := self._responses.get(key)) is not None:
                    return _replay(stored, fingerprint)
                created = create(request, nest(parse_qsl(body, keep_blank_values=True)))
            except StripeError as error:
                # As at Stripe, a request that fails validation does not use up its key.
                return answer(error.body, status=error.status)
            response = answer(created, headers={"Request-Id": make_id("req")})
            if key is not None:
                self._responses[key] = (fingerprint, 200, orjson.dumps(created))
            return response

        return handle

    def forget_keys(self) -> None:
        """Forget all idempotency keys, as Stripe does after 24 hours: the same key creates a second object."""
        self._responses.clear()

    def _balance(self, _: web.Request) -> Json:
        return {"object": "balance", "available": [], "livemode": False, "pending": []}

    def _create_session(self, _: web.Request, fields: Json) -> Json:
        return self.books.new_session(fields, pages_url=self._browser_url or self.url)

    def _session(self, request: web.Request) -> Json:
        return get_object(self.books.sessions, request.match_info["id"], "checkout.session")

    def _expire_session(self, request: web.Request, _: Json) -> Json:
        session = self._session(request)
        if session["status"] != "open":
            raise StripeError("Only a session whose status is open can be expired.")
        session["status"] = "expired"
        self._emit("checkout.session.expired", session)
        return session

    def _intent(self, request: web.Request) -> Json:
        return get_object(self.books.intents, request.match_info["id"], "payment_intent")

    def _confirm_intent(self, request: web.Request, fields: Json) -> Json:
        intent = self._intent(request)
        if intent["status"] == "succeeded":
            raise StripeError("This PaymentIntent has already succeeded.", code="payment_intent_unexpected_state")
        self._take(intent, declined="declined" in str(fields.get("payment_method", "")).lower())
        return intent

    def _cancel_intent(self, request: web.Request, _: Json) -> Json:
        intent = self._intent(request)
        if intent["status"] == "succeeded":
            raise StripeError(
                "You cannot cancel a PaymentIntent that has succeeded.", code="payment_intent_unexpected_state"
            )
        intent["status"] = "canceled"
        self._emit("payment_intent.canceled", intent)
        return intent

    def _search_intents(self, request: web.Request) -> Json:
        query = request.query.get("query", "")
        matching = [
            intent
            for intent in self.books.intents.values()
            if any(f"metadata['{name}']:'{value}'" in query for name, value in intent["metadata"].items())
        ]
        return {"object": "search_result", "data": matching, "has_more": False, "next_page": None}

    def _create_refund(self, _: web.Request, fields: Json) -> Json:
        refund, charge = self.books.refund(fields)
        self._emit("refund.created", refund)
        self._emit("charge.refunded", charge)
        return refund

    def move_refund(self, refund_id: str, status: str, *, failure_reason: str = "unknown") -> Json:
        """Change the status of a refund, as Stripe or the bank does, and send the webhooks."""
        refund = get_object(self.books.refunds, refund_id, "refund")
        self.books.move_refund(refund, status, failure_reason=failure_reason)
        # Stripe sends each of these event types for one change.
        self._emit("refund.updated", refund)
        self._emit("charge.refund.updated", refund)
        if status == "failed":
            self._emit("refund.failed", refund)
        return refund

    def open_dispute(self, payment_intent: str, *, amount: int | None = None, reason: str = "fraudulent") -> Json:
        """Open a dispute: the buyer's bank takes the money back."""
        intent = get_object(self.books.intents, payment_intent, "payment_intent")
        dispute = self.books.dispute(self.books.charges[intent["latest_charge"]], amount=amount, reason=reason)
        self._emit("charge.dispute.created", dispute)
        self._emit("charge.dispute.funds_withdrawn", dispute)
        return dispute

    def close_dispute(self, dispute_id: str, *, won: bool) -> Json:
        """Close a dispute. If it is won, the money comes back."""
        dispute = get_object(self.books.disputes, dispute_id, "dispute")
        dispute["status"] = "won" if won else "lost"
        self._emit("charge.dispute.closed", dispute)
        if won:
            self.books.charges[dispute["charge"]]["disputed"] = False
            self._emit("charge.dispute.funds_reinstated", dispute)
        return dispute

    def _dispute(self, request: web.Request) -> Json:
        return get_object(self.books.disputes, request.match_info["id"], "dispute")

    def _list_refunds(self, request: web.Request) -> Json:
        return _page(
            [
                refund
                for refund in self.books.refunds.values()
                if request.query.get("payment_intent") in (None, refund["payment_intent"])
                and request.query.get("charge") in (None, refund["charge"])
            ],
            request,
        )

    def _refund(self, request: web.Request) -> Json:
        return get_object(self.books.refunds, request.match_info["id"], "refund")

    def _charge(self, request: web.Request) -> Json:
        return get_object(self.books.charges, request.match_info["id"], "charge")

    def _list_events(self, request: web.Request) -> Json:
        return _page(list(self.books.events.values()), request)

    def _event(self, request: web.Request) -> Json:
        return get_object(self.books.events, request.match_info["id"], "event")

    def _reading(self, read: Callable[[web.Request], Json]) -> Any:
        async def handle(request: web.Request) -> web.Response:
            try:
                _authorize(request)
                return answer(read(request))
            except StripeError as error:
                return answer(error.body, status=error.status)

        return handle

    # The payment page and its results.

    async def _show_page(self, request: web.Request) -> web.Response:
        session = self.books.sessions.get(request.match_info["id"])
        if session is None:
            raise web.HTTPNotFound(text="This payment does not exist.")
        return self._page_of(session)

    async def _submit_page(self, request: web.Request) -> web.Response:
        session = self.books.sessions.get(request.match_info["id"])
        if session is None:
            raise web.HTTPNotFound(text="This payment does not exist.")
        form = await request.post()
        if session["status"] == "open" and session["expires_at"] <= time.time():
            session["status"] = "expired"
            self._emit("checkout.session.expired", session)
        if session["status"] == "expired":
            return self._page_of(session)
        if session["status"] == "open" and form.get("choice") == "decline":
            self._take(self.books.intent_of(session), declined=True)
            return self._page_of(session, message="The card was declined. Nothing was paid.", status=402)
        self.pay(session["id"])
        target = str(session["success_url"]).replace("{CHECKOUT_SESSION_ID}", session["id"])
        raise web.HTTPSeeOther(target)

    def pay(self, session_id: str) -> Json:
        """Pay a session as its page does. Paying a paid session changes nothing."""
        session = get_object(self.books.sessions, session_id, "checkout.session")
        if session["status"] != "open":
            return session
        if session["amount_total"] == 0:
            session.update(status="complete", payment_status="no_payment_required")
        elif session["mode"] == "subscription":
            metadata = self.books.payment_metadata[session_id]
            subscription = self.billing.subscribe(session, self.books.session_items[session_id], metadata)
            self._emit("customer.subscription.created", subscription)
            self._bill(subscription, reason="subscription_create", declined=False)
            session.update(status="complete", payment_status="paid", invoice=subscription["latest_invoice"])
        else:
            self._take(self.books.intent_of(session))
            session.update(status="complete", payment_status="paid")
        self._emit("checkout.session.completed", session)
        return session

    def pay_later(self, session_id: str) -> Json:
        """Complete a session with a method that takes days, such as a bank debit: it is complete, but not paid."""
        session = get_object(self.books.sessions, session_id, "checkout.session")
        self.books.intent_of(session)["status"] = "processing"
        session.update(status="complete", payment_status="unpaid")
        self._emit("checkout.session.completed", session)
        return session

    def end_late_payment(self, session_id: str, *, succeeded: bool) -> Json:
        """Let the payment of `pay_later` succeed or fail."""
        session = get_object(self.books.sessions, session_id, "checkout.session")
        self._take(self.books.intent_of(session), declined=not succeeded)
        session["payment_status"] = "paid" if succeeded else "unpaid"
        end = "succeeded" if succeeded else "failed"
        self._emit(f"checkout.session.async_payment_{end}", session)
        return session

    def expire(self, session_id: str) -> Json:
        """Let a session expire, as Stripe does after `expires_at`."""
        session = get_object(self.books.sessions, session_id, "checkout.session")
        if session["status"] == "open":
            session["status"] = "expired"
            self._emit("checkout.session.expired", session)
        return session

    # Subscriptions.

    def renew(self, subscription_id: str, *, declined: bool = False) -> Json:
        """Start the next period of a subscription and charge it. Returns the invoice."""
        subscription = get_object(self.billing.subscriptions, subscription_id, "subscription")
        if subscription["cancel_at_period_end"]:
            self.end_subscription(subscription_id)
            return self.billing.invoices[subscription["latest_invoice"]]
        self.billing.advance(subscription)
        return self._bill(subscription, reason="subscription_cycle", declined=declined)

    def retry_invoice(self, invoice_id: str, *, declined: bool = False) -> Json:
        """Charge a failed invoice again, as Stripe does some days later."""
        invoice = get_object(self.billing.invoices, invoice_id, "invoice")
        return self._charge_invoice(invoice, declined=declined)

    def end_subscription(self, subscription_id: str) -> Json:
        """End a subscription now, as Stripe does at the end of its last period or after failed payments."""
        subscription = get_object(self.billing.subscriptions, subscription_id, "subscription")
        self.billing.end(subscription)
        self._emit("customer.subscription.deleted", subscription)
        return subscription

    def _bill(self, subscription: Json, *, reason: str, declined: bool) -> Json:
        invoice = self.billing.bill(subscription, reason=reason)
        self._emit("invoice.created", invoice)
        self._emit("invoice.finalized", invoice)
        return self._charge_invoice(invoice, declined=declined)

    def _charge_invoice(self, invoice: Json, *, declined: bool) -> Json:
        fields = {"amount": str(invoice["amount_remaining"]), "currency": invoice["currency"]}
        intent = self.books.new_intent(fields)
        self._take(intent, declined=declined)
        self.billing.settle(invoice, intent, paid=not declined)
        if declined:
            self._emit("invoice.payment_failed", invoice)
        else:
            # Stripe sends both for one payment.
            self._emit("invoice.payment_succeeded", invoice)
            self._emit("invoice.paid", invoice)
        self._emit("customer.subscription.updated", self.billing.subscription_of(invoice))
        return invoice

    def _subscription(self, request: web.Request) -> Json:
        return get_object(self.billing.subscriptions, request.match_info["id"], "subscription")

    def _update_subscription(self, request: web.Request, fields: Json) -> Json:
        subscription = self._subscription(request)
        if "cancel_at_period_end" in fields:
            subscription["cancel_at_period_end"] = fields["cancel_at_period_end"] == "true"
        subscription["metadata"].update(part(fields, "metadata"))
        self._emit("customer.subscription.updated", subscription)
        return subscription

    def _cancel_subscription(self, request: web.Request, _: Json) -> Json:
        subscription = self._subscription(request)
        if subscription["status"] == "canceled":
            raise StripeError(f"No such subscription: '{subscription['id']}'", status=404, code="resource_missing")
        return self.end_subscription(subscription["id"])

    def _list_invoices(self, request: web.Request) -> Json:
        wanted = request.query.get("subscription")
        matching = [
            invoice
            for invoice in self.billing.invoices.values()
            if wanted in (None, self.billing.subscription_of(invoice)["id"])
        ]
        return _page(matching, request)

    def _invoice(self, request: web.Request) -> Json:
        return get_object(self.billing.invoices, request.match_info["id"], "invoice")

    def decline(self, session_id: str) -> None:
        """Try to pay a session with a card that is declined."""
        self._take(self.books.intent_of(get_object(self.books.sessions, session_id, "checkout.session")), declined=True)

    def pay_again(self, session_id: str) -> None:
        """Make a second payment for a session, as a buyer with two open windows can."""
        first = self.books.intent_of(get_object(self.books.sessions, session_id, "checkout.session"))
        fields = {"amount": str(first["amount"]), "currency": first["currency"], "metadata": dict(first["metadata"])}
        self._take(self.books.new_intent(fields))

    def _page_of(self, session: Json, *, message: str | None = None, status: int = 200) -> web.Response:
        state = {"open": "open", "complete": "done"}.get(session["status"], "closed")
        notes = {"done": "This payment is complete.", "closed": "This payment has expired."}
        currency = session["currency"]
        return payment_page(
            service="Stripe",
            total=_written(session["amount_total"], currency),
            lines=[
                Line(item["name"], item["quantity"], _written(item["amount_total"], currency))
                for item in self.books.session_items[session["id"]]
            ],
            choices=_CHOICES,
            email=session["customer_email"],
            cancel_url=session["cancel_url"],
            state=state,
            message=message or notes.get(state),
            status=status,
        )

    def _take(self, intent: Json, *, declined: bool = False) -> None:
        charge = self.books.charge(intent, declined=declined)
        self._emit("charge.failed" if declined else "charge.succeeded", charge)
        self._emit("payment_intent.payment_failed" if declined else "payment_intent.succeeded", intent)

    # Webhooks.

    def _emit(self, type: str, subject: Json) -> None:
        event: Json = {
            "id": make_id("evt"),
            "object": "event",
            "api_version": API_VERSION,
            "created": now(),
            # A copy: later changes of the object must not change the event.
            "data": {"object": orjson.loads(orjson.dumps(subject))},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": make_id("req"), "idempotency_key": None},
            "type": type,
        }
        self.books.events[event["id"]] = event
        self.resend(event["id"])

    def resend(self, event_id: str) -> None:
        """Send an event again, as the Stripe dashboard can: same id, new signature."""
        if self._webhook_url is None:
            return
        body = orjson.dumps(get_object(self.books.events, event_id, "event"))
        self.webhooks.send(self._webhook_url, body, self._sign)

    def _sign(self, body: bytes) -> dict[str, str]:
        stamp = str(int(time.time()))
        mac = hmac.new(self.webhook_secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256)
        return {
            "Content-Type": "application/json; charset=utf-8",
            "User-Agent": "Stripe/1.0 (simulated)",
            "Stripe-Signature": f"t={stamp},v1={mac.hexdigest()}",
        }


def _authorize(request: web.Request) -> None:
    scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
    if scheme not in ("Bearer", "Basic") or not secret:
        raise StripeError("You did not provide an API key.", status=401)
    if secret.endswith("_invalid"):
        raise StripeError("Invalid API Key provided.", status=401)


def _replay(stored: tuple[str, int, bytes], fingerprint: str) -> web.Response:
    known, status, body = stored
    if known != fingerprint:
        raise StripeError(
            "Keys for idempotent requests can only be used with the same parameters.",
            type="idempotency_error",
        )
    headers = {"Idempotent-Replayed": "true"}
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _page(objects: list[Json], request: web.Request) -> Json:
    """Return a page of the list: newest first, after `starting_after`, at most `limit` objects."""
    ordered = objects[::-1]
    if (after := request.query.get("starting_after")) is not None:
        ids = [item["id"] for item in ordered]
        ordered = ordered[ids.index(after) + 1 :] if after in ids else []
    limit = int(request.query.get("limit", "10"))
    return {"object": "list", "data": ordered[:limit], "has_more": len(ordered) > limit, "url": request.path}


def _written(amount: int, currency: str) -> str:
    return written_amount(amount, currency, decimals=decimals(currency))

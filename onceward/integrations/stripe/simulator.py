"""A simulator of Stripe: a payment page, payment intents, subscriptions, and what `simulator_money` adds."""

import time
from collections.abc import Sequence

from aiohttp import web

from onceward.integrations.stripe.amounts import decimals
from onceward.integrations.stripe.simulator_billing import Billing
from onceward.integrations.stripe.simulator_money import StripeMoney
from onceward.integrations.stripe.simulator_objects import Json, StripeError, get_object
from onceward.integrations.stripe.simulator_requests import DEFAULT_RETRY_DELAYS_S
from onceward.testing.simulators.pages import Choice, Line, payment_page, written_amount
from onceward.testing.simulators.server import part

_CHOICES = (
    Choice("pay", "Card that pays", "The payment succeeds at once"),
    Choice("decline", "Card that is declined", "The payment fails; try again with the other card"),
)


class StripeSimulator(StripeMoney):
    """A Stripe test account. It sends webhooks after `send_webhooks_to` has set a receiver."""

    kept = ("books", "billing", "balance", "_responses")

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__(retry_delays_s=retry_delays_s)
        self.billing = Billing()
        self._browser_url: str | None = None

    def show_pages_at(self, url: str) -> None:
        """Set the base URL of the payment pages, if browsers reach the simulator under another address."""
        self._browser_url = url.rstrip("/")

    def routes(self) -> list[web.RouteDef]:
        return [
            *self.money_routes(),
            web.post("/v1/checkout/sessions", self.keyed(self._create_session)),
            web.get("/v1/checkout/sessions", self.reading(self._list_sessions)),
            web.get("/v1/checkout/sessions/{id}", self.reading(self._read_session)),
            web.post("/v1/checkout/sessions/{id}/expire", self.keyed(self._expire_session)),
            web.post("/v1/payment_intents", self.keyed(lambda _, fields: self.books.new_intent(fields))),
            web.get("/v1/payment_intents/search", self.reading(self._search_intents)),
            web.get("/v1/payment_intents/{id}", self.reading(self._intent)),
            web.post("/v1/payment_intents/{id}/confirm", self.keyed(self._confirm_intent)),
            web.post("/v1/payment_intents/{id}/capture", self.keyed(self._capture_intent)),
            web.post("/v1/payment_intents/{id}/cancel", self.keyed(self._cancel_intent)),
            web.get("/v1/subscriptions/{id}", self.reading(self._subscription)),
            web.post("/v1/subscriptions/{id}", self.keyed(self._update_subscription)),
            web.delete("/v1/subscriptions/{id}", self.keyed(self._cancel_subscription)),
            web.get("/v1/invoices", self.reading(self._list_invoices)),
            web.get("/v1/invoices/{id}", self.reading(self._invoice)),
            web.get("/v1/events", self.reading(self._list_events)),
            web.get("/v1/events/{id}", self.reading(self._event)),
            web.get("/pay/{id}", self._show_page),
            web.post("/pay/{id}", self._submit_page),
        ]

    def _create_session(self, _: web.Request, fields: Json) -> Json:
        return self.books.new_session(fields, pages_url=self._browser_url or self.url)

    def _list_sessions(self, request: web.Request) -> Json:
        wanted = request.query.get("payment_intent")
        return self.page(
            [each for each in self.books.sessions.values() if wanted in (None, each["payment_intent"])], request
        )

    def _session(self, request: web.Request) -> Json:
        return get_object(self.books.sessions, request.match_info["id"], "checkout.session")

    def _read_session(self, request: web.Request) -> Json:
        session = self._session(request)
        expands = [value for name, value in request.query.items() if name.startswith("expand")]
        if "payment_intent" in expands and session["payment_intent"] is not None:
            return {**session, "payment_intent": self.books.intents[session["payment_intent"]]}
        return session

    def _expire_session(self, request: web.Request, _: Json) -> Json:
        session = self._session(request)
        if session["status"] != "open":
            raise StripeError("Only a session whose status is open can be expired.")
        session["status"] = "expired"
        self.emit("checkout.session.expired", session)
        return session

    def _intent(self, request: web.Request) -> Json:
        return get_object(self.books.intents, request.match_info["id"], "payment_intent")

    def _confirm_intent(self, request: web.Request, fields: Json) -> Json:
        intent = self._intent(request)
        if intent["status"] == "succeeded":
            raise StripeError("This PaymentIntent has already succeeded.", code="payment_intent_unexpected_state")
        self._take(intent, declined="declined" in str(fields.get("payment_method", "")).lower())
        return intent

    def _capture_intent(self, request: web.Request, fields: Json) -> Json:
        intent = self._intent(request)
        charge = self.books.capture(intent, fields)
        self.balance.charge(self.books, charge)
        self.emit("charge.captured", charge)
        self.emit("payment_intent.succeeded", intent)
        return intent

    def _cancel_intent(self, request: web.Request, _: Json) -> Json:
        intent = self._intent(request)
        if intent["status"] == "succeeded":
            raise StripeError(
                "You cannot cancel a PaymentIntent that has succeeded.", code="payment_intent_unexpected_state"
            )
        intent["status"] = "canceled"
        self.emit("payment_intent.canceled", intent)
        return intent

    def _search_intents(self, request: web.Request) -> Json:
        query = request.query.get("query", "")
        matching = [
            intent
            for intent in self.books.intents.values()
            if any(f"metadata['{name}']:'{value}'" in query for name, value in intent["metadata"].items())
        ]
        return {"object": "search_result", "data": matching, "has_more": False, "next_page": None}

    def _list_events(self, request: web.Request) -> Json:
        query = request.query
        types = {value for name, value in query.items() if name == "type" or name.startswith("types[")}
        found = [each for each in self.books.events.values() if not types or each["type"] in types]
        # A cursor may be any event, also one of another type.
        if (before := query.get("ending_before")) in self.books.events and types:
            found = [each for each in self.books.events.values() if each in found or each["id"] == before]
        return self.page(found, request)

    def _event(self, request: web.Request) -> Json:
        return get_object(self.books.events, request.match_info["id"], "event")

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
            self.expire(session["id"])
        if session["status"] == "expired":
            return self._page_of(session)
        if session["status"] == "open" and form.get("choice") == "decline":
            self.decline(session["id"])
            return self._page_of(session, message="The card was declined. Nothing was paid.", status=402)
        self.pay(session["id"])
        target = str(session["success_url"]).replace("{CHECKOUT_SESSION_ID}", session["id"])
        raise web.HTTPSeeOther(target)

    def pay(self, session_id: str) -> Json:
        """Pay a session as its page does. Paying a paid session changes nothing."""
        session = self.act_on(self.books.sessions, session_id, "checkout.session")
        if session["status"] != "open":
            return session
        if session["amount_total"] == 0:
            session.update(status="complete", payment_status="no_payment_required")
        elif session["mode"] == "subscription":
            metadata = part(self.books.payment_data[session_id], "metadata")
            items = self.books.session_items[session_id]
            subscription = self.billing.subscribe(self.books, session, items, metadata)
            self.emit("customer.subscription.created", subscription)
            self._bill(subscription, reason="subscription_create", declined=False)
            session.update(status="complete", payment_status="paid", invoice=subscription["latest_invoice"])
        else:
            self._take(self.books.intent_of(session))
            session.update(status="complete", payment_status="paid")
        self.emit("checkout.session.completed", session)
        return session

    def pay_later(self, session_id: str) -> Json:
        """Complete a session with a method that takes days, such as a bank debit: it is complete, but not paid."""
        session = self.act_on(self.books.sessions, session_id, "checkout.session")
        self.books.intent_of(session)["status"] = "processing"
        session.update(status="complete", payment_status="unpaid")
        self.emit("checkout.session.completed", session)
        return session

    def end_late_payment(self, session_id: str, *, succeeded: bool) -> Json:
        """Let the payment of `pay_later` succeed or fail."""
        session = self.act_on(self.books.sessions, session_id, "checkout.session")
        self._take(self.books.intent_of(session), declined=not succeeded)
        session["payment_status"] = "paid" if succeeded else "unpaid"
        end = "succeeded" if succeeded else "failed"
        self.emit(f"checkout.session.async_payment_{end}", session)
        return session

    def expire(self, session_id: str) -> Json:
        """Let a session expire, as Stripe does after `expires_at`."""
        session = self.act_on(self.books.sessions, session_id, "checkout.session")
        if session["status"] == "open":
            session["status"] = "expired"
            self.emit("checkout.session.expired", session)
        return session

    # Subscriptions.

    def renew(self, subscription_id: str, *, declined: bool = False) -> Json:
        """Start the next period of a subscription and charge it. Returns the invoice."""
        subscription = self.act_on(self.billing.subscriptions, subscription_id, "subscription")
        if subscription["cancel_at_period_end"]:
            self.end_subscription(subscription_id)
            return self.billing.invoices[subscription["latest_invoice"]]
        self.billing.advance(subscription)
        return self._bill(subscription, reason="subscription_cycle", declined=declined)

    def retry_invoice(self, invoice_id: str, *, declined: bool = False) -> Json:
        """Charge a failed invoice again, as Stripe does some days later."""
        invoice = self.act_on(self.billing.invoices, invoice_id, "invoice")
        return self._charge_invoice(invoice, declined=declined)

    def give_up_subscription(self, subscription_id: str, status: str) -> Json:
        """Stop retrying an unpaid invoice, as Stripe does after weeks: `unpaid`, `past_due` or `canceled`."""
        subscription = self.act_on(self.billing.subscriptions, subscription_id, "subscription")
        before = subscription["status"]
        self.billing.give_up(subscription, status)
        if status == "canceled":
            self.emit("customer.subscription.deleted", subscription)
        else:
            self.emit("customer.subscription.updated", subscription, previous={"status": before})
        return subscription

    def end_subscription(self, subscription_id: str) -> Json:
        """End a subscription now, as Stripe does at the end of its last period or after failed payments."""
        subscription = self.act_on(self.billing.subscriptions, subscription_id, "subscription")
        self.billing.end(subscription)
        self.emit("customer.subscription.deleted", subscription)
        return subscription

    def _bill(self, subscription: Json, *, reason: str, declined: bool) -> Json:
        invoice = self.billing.bill(self.books, subscription, reason=reason)
        self.emit("invoice.created", invoice)
        self.emit("invoice.finalized", invoice)
        return self._charge_invoice(invoice, declined=declined)

    def _charge_invoice(self, invoice: Json, *, declined: bool) -> Json:
        fields = {"amount": str(invoice["amount_remaining"]), "currency": invoice["currency"]}
        intent = self.books.new_intent(fields)
        self._take(intent, declined=declined)
        self.billing.settle(invoice, intent, paid=not declined)
        if declined:
            self.emit("invoice.payment_failed", invoice)
        else:
            # Stripe sends both for one payment.
            self.emit("invoice.payment_succeeded", invoice)
            self.emit("invoice.paid", invoice)
        self.emit("customer.subscription.updated", self.billing.subscription_of(invoice))
        return invoice

    def _subscription(self, request: web.Request) -> Json:
        return get_object(self.billing.subscriptions, request.match_info["id"], "subscription")

    def _update_subscription(self, request: web.Request, fields: Json) -> Json:
        subscription = self._subscription(request)
        if subscription["status"] == "canceled":
            raise StripeError("A canceled subscription can only update its cancellation_details and metadata.")
        if "cancel_at_period_end" in fields:
            subscription["cancel_at_period_end"] = fields["cancel_at_period_end"] == "true"
        subscription["metadata"].update(part(fields, "metadata"))
        self.emit("customer.subscription.updated", subscription)
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
        return self.page(matching, request)

    def _invoice(self, request: web.Request) -> Json:
        return get_object(self.billing.invoices, request.match_info["id"], "invoice")

    def decline(self, session_id: str) -> None:
        """Try to pay a session with a card that is declined."""
        self._take(
            self.books.intent_of(self.act_on(self.books.sessions, session_id, "checkout.session")), declined=True
        )

    def pay_again(self, session_id: str) -> None:
        """Make a second payment for a session, as a buyer with two open windows can."""
        first = self.books.intent_of(self.act_on(self.books.sessions, session_id, "checkout.session"))
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
        if intent["status"] == "requires_capture":
            self.emit("payment_intent.amount_capturable_updated", intent)
            return
        if not declined:
            self.balance.charge(self.books, charge)
        self.emit("charge.failed" if declined else "charge.succeeded", charge)
        self.emit("payment_intent.payment_failed" if declined else "payment_intent.succeeded", intent)


def _written(amount: int, currency: str) -> str:
    return written_amount(amount, currency, decimals=decimals(currency))

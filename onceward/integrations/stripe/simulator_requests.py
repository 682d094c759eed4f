"""How the Stripe simulator takes requests and sends events: accounts, idempotency keys, lists, signed webhooks."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from onceward.integrations.stripe.simulator_objects import Books, Json, StripeError, get_object, make_id, nest, now
from onceward.testing.simulators.server import Simulator, answer
from onceward.testing.simulators.webhooks import WebhookSender

API_VERSION = "2025-06-30.basil"
# Stripe retries for three days; the simulator uses shorter delays.
DEFAULT_RETRY_DELAYS_S = (0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)


class StripeRequests(Simulator):
    """One Stripe test account, and the other accounts for which `send_webhooks_to` was called.

    A connected account is named by its id (`acct_...`, the header `Stripe-Account`), another account by its secret key.
    No account sees the objects of another one.
    """

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__()
        self.books = Books()
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s)
        self._receivers: dict[str | None, tuple[str, str]] = {}
        self._responses: dict[str, tuple[str, int, bytes]] = {}
        self._failures_to_store = 0
        self._fails_after_acting = False

    def send_webhooks_to(self, url: str, *, secret: str, account: str | None = None) -> None:
        """Set the endpoint of an account. A connected account without its own uses the platform's."""
        self._receivers[account] = (url, secret)

    @property
    def webhook_secret(self) -> str:
        """The signing secret of the platform's endpoint."""
        return self._receivers[None][1] if None in self._receivers else ""

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def is_api(self, path: str) -> bool:
        return path.startswith("/v1/")

    def failure(self, status: int) -> web.Response:
        code = "rate_limit" if status == 429 else None
        error = StripeError(f"Simulated failure {status}", status=status, type="api_error", code=code)
        return answer(error.body, status=status)

    def forget_keys(self) -> None:
        """Forget all idempotency keys, as Stripe does after 24 hours: the same key creates a second object."""
        self._responses.clear()

    def break_next(self, count: int = 1, *, act: bool = False) -> None:
        """Answer the next creating requests with a 500 that Stripe stores and repeats for the same key.

        Nothing is created, unless `act`. `fail_next` answers before Stripe has read the key, so that a repeat runs.
        """
        self._failures_to_store += count
        self._fails_after_acting = act

    # A request with an idempotency key runs once; repeats get the stored response.

    def keyed(self, create: Callable[[web.Request, Json], Json]) -> Any:
        """Return the handler of a request that creates or changes something."""

        async def handle(request: web.Request) -> web.Response:
            body = await request.text()
            key = request.headers.get("Idempotency-Key")
            try:
                account = self._enter(request)
                stored_as = f"{account or ''}\n{key}"
                fingerprint = hashlib.sha256(f"{request.path}\n{body}".encode()).hexdigest()
                if key is not None and (stored := self._responses.get(stored_as)) is not None:
                    return _replay(stored, fingerprint)
                fields = nest(parse_qsl(body, keep_blank_values=True))
                self._check_names(fields, account)
                status, result = self._run(create, request, fields)
            except StripeError as error:
                return answer(error.body, status=error.status)
            if key is not None:
                self._responses[stored_as] = (fingerprint, status, orjson.dumps(result))
            return answer(result, status=status, headers={"Request-Id": make_id("req")})

        return handle

    def _run(self, create: Callable[[web.Request, Json], Json], request: web.Request, fields: Json) -> tuple[int, Json]:
        """Return the response that Stripe stores under the key. Failed validation does not use up the key."""
        if self._failures_to_store:
            self._failures_to_store -= 1
            if self._fails_after_acting:
                create(request, fields)
            error = StripeError("An unknown error occurred", status=500, type="api_error")
            return error.status, error.body
        try:
            return 200, create(request, fields)
        except StripeError as error:
            if error.is_validation:
                raise
            return error.status, error.body

    def reading(self, read: Callable[[web.Request], Json]) -> Any:
        """Return the handler of a request that only reads."""

        async def handle(request: web.Request) -> web.Response:
            try:
                account = self._enter(request)
                self._check_names(request.query, account)
                return answer(read(request))
            except StripeError as error:
                return answer(error.body, status=error.status)

        return handle

    def _enter(self, request: web.Request) -> str | None:
        """Check the API key, and act for its account until the next request. Return the account."""
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme not in ("Bearer", "Basic") or not secret:
            raise StripeError("You did not provide an API key.", status=401)
        if secret.endswith("_invalid"):
            raise StripeError("Invalid API Key provided.", status=401)
        account = request.headers.get("Stripe-Account") or (secret if secret in self._receivers else None)
        self.books.account = account
        if (named := request.match_info.get("id")) is not None:
            self._check_owner(named, account)
        return account

    def _check_names(self, fields: Mapping[str, Any], account: str | None) -> None:
        """Check the objects that a request names in its parameters."""
        for name, objects in (("payment_intent", self.books.intents), ("charge", self.books.charges)):
            if named := fields.get(name):
                get_object(objects, str(named), name)
                self._check_owner(str(named), account)

    def _check_owner(self, object_id: str, account: str | None) -> None:
        if self.books.owners.get(object_id) != account:
            raise StripeError(f"No such object: '{object_id}'", status=404, code="resource_missing", param="id")

    def act_on(self, objects: Mapping[str, Json], object_id: str, kind: str) -> Json:
        """Return an object for a change that Stripe, a bank or a buyer makes, and act for its account."""
        existing = get_object(objects, object_id, kind)
        self.books.account = self.books.owners.get(object_id)
        return existing

    def page(self, objects: Iterable[Json], request: web.Request) -> Json:
        """Return a page of a list as Stripe does: newest first, between `starting_after` and `ending_before`."""
        query = request.query
        ordered = [
            item
            for item in reversed(list(objects))
            if self.books.owners.get(item["id"]) == self.books.account and _is_created_in(item, query)
        ]
        ids = [item["id"] for item in ordered]
        limit = int(query.get("limit", "10"))
        if not 1 <= limit <= 100:
            raise StripeError("Invalid limit: must be between 1 and 100", param="limit")
        if (before := query.get("ending_before")) is not None:
            newer = ordered[: _position(ids, before, "ending_before")]
            chosen, has_more = newer[-limit:], len(newer) > limit
        else:
            after = query.get("starting_after")
            rest = ordered if after is None else ordered[_position(ids, after, "starting_after") + 1 :]
            chosen, has_more = rest[:limit], len(rest) > limit
        return {"object": "list", "data": chosen, "has_more": has_more, "url": request.path}

    # Webhooks.

    def emit(self, type: str, subject: Json, *, previous: Json | None = None) -> None:
        """Store an event of the current account and send its webhook."""
        # A copy: later changes of the object must not change the event.
        data = {"object": orjson.loads(orjson.dumps(subject))}
        if previous is not None:
            data["previous_attributes"] = previous
        event: Json = {
            "id": make_id("evt"),
            "object": "event",
            "api_version": API_VERSION,
            "created": now(),
            "data": data,
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": make_id("req"), "idempotency_key": None},
            "type": type,
        }
        account = self.books.account
        if account is not None and account.startswith("acct_"):
            event["account"] = account
        self.books.keep(self.books.events, event)
        self.resend(event["id"])

    def resend(self, event_id: str) -> None:
        """Send an event again, as the Stripe dashboard can: same id, new signature."""
        event = get_object(self.books.events, event_id, "event")
        owner = self.books.owners.get(event_id)
        receiver = self._receivers.get(owner)
        if receiver is None and (owner is None or owner.startswith("acct_")):
            receiver = self._receivers.get(None)
        if receiver is None:
            return
        url, secret = receiver
        self.webhooks.send(url, orjson.dumps(event), lambda body: _sign(body, secret))


def _sign(body: bytes, secret: str) -> dict[str, str]:
    stamp = str(int(time.time()))
    mac = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256)
    return {
        "Content-Type": "application/json; charset=utf-8",
        "User-Agent": "Stripe/1.0 (simulated)",
        "Stripe-Signature": f"t={stamp},v1={mac.hexdigest()}",
    }


def _replay(stored: tuple[str, int, bytes], fingerprint: str) -> web.Response:
    known, status, body = stored
    if known != fingerprint:
        raise StripeError(
            "Keys for idempotent requests can only be used with the same parameters.",
            type="idempotency_error",
        )
    headers = {"Idempotent-Replayed": "true"}
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


def _position(ids: list[str], object_id: str, param: str) -> int:
    if object_id not in ids:
        raise StripeError(f"No such object: '{object_id}'", code="resource_missing", param=param)
    return ids.index(object_id)


def _is_created_in(item: Json, query: Mapping[str, str]) -> bool:
    """Whether the object was created in the period of `created[gte|gt|lte|lt]`."""
    created = item["created"]
    return (
        created >= int(query.get("created[gte]", created))
        and created > int(query.get("created[gt]", created - 1))
        and created <= int(query.get("created[lte]", created))
        and created < int(query.get("created[lt]", created + 1))
    )

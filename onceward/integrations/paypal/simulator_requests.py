"""How the PayPal simulator takes requests and sends events: tokens, request ids, lists, signed webhooks."""

from __future__ import annotations

import secrets
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web

from onceward.errors import OncewardError
from onceward.testing.simulators.authority import AuthoritySigner
from onceward.testing.simulators.server import Simulator, answer, read_object
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]
CERTIFICATE_URL = "https://api.sandbox.paypal.com/v1/notifications/certs/CERT-simulated"
WEBHOOK_ID = "WH-SIMULATED"
SIGNING_HOST = "messageverificationcerts.sandbox.paypal.com"
DEFAULT_RETRY_DELAYS_S = (0.5, 2.0, 10.0, 60.0, 300.0, 1800.0)


class PayPalError(OncewardError):
    def __init__(self, name: str, *, status: int, issue: str | None = None) -> None:
        super().__init__(name)
        self.status = status
        details = [] if issue is None else [{"issue": issue}]
        self.body = {"name": name, "message": name.title(), "details": details, "debug_id": secrets.token_hex(6)}


def unprocessable(issue: str) -> PayPalError:
    return PayPalError("UNPROCESSABLE_ENTITY", status=422, issue=issue)


@dataclass(slots=True)
class Books:
    """All objects of the simulated apps, by id."""

    orders: dict[str, Json] = field(default_factory=dict[str, Json])
    captures: dict[str, Json] = field(default_factory=dict[str, Json])
    refunds: dict[str, Json] = field(default_factory=dict[str, Json])
    disputes: dict[str, Json] = field(default_factory=dict[str, Json])
    events: dict[str, Json] = field(default_factory=dict[str, Json])
    # What changed the balance, as `transaction_info` of the reporting API.
    transactions: dict[str, Json] = field(default_factory=dict[str, Json])
    # The initial status of the next captures and refunds; `COMPLETED` if empty.
    next_capture_statuses: list[str] = field(default_factory=list[str])
    next_refund_statuses: list[str] = field(default_factory=list[str])
    # The client id of each access token.
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    # The return URL and the cancel URL of each order.
    return_urls: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    # What PayPal holds for each dispute, and what it took back of each capture.
    held: dict[str, str] = field(default_factory=dict[str, str])
    taken_back: dict[str, str] = field(default_factory=dict[str, str])
    # The client id of each object that belongs to an app with its own webhook, and the client id that acts now.
    owners: dict[str, str] = field(default_factory=dict[str, str])
    account: str | None = None

    def keep(self, objects: dict[str, Json], object_id: str, item: Json) -> None:
        """Store an object of the app that acts now."""
        objects[object_id] = item
        if self.account is not None:
            self.owners[object_id] = self.account


@dataclass(frozen=True, slots=True)
class Receiver:
    url: str
    webhook_id: str


class PayPalRequests(Simulator):
    """One sandbox app, and those for which `send_webhooks_to` was called. None sees another's objects."""

    def __init__(self, *, retry_delays_s: Sequence[float] = DEFAULT_RETRY_DELAYS_S) -> None:
        super().__init__()
        self.books = Books()
        self.webhooks = WebhookSender(retry_delays_s=retry_delays_s)
        self.webhook_id = WEBHOOK_ID
        self._signer = AuthoritySigner(SIGNING_HOST)
        self._receivers: dict[str | None, Receiver] = {}
        self._responses: dict[str, tuple[int, bytes]] = {}

    @property
    def source_options(self) -> dict[str, Any]:
        return self.options_of(self.webhook_id)

    def options_of(self, webhook_id: str) -> dict[str, Any]:
        """Return the options of a source that accepts the webhooks of an app."""
        return {
            "webhook_id": webhook_id,
            "roots_pem": self._signer.root_pem,
            "certificates": {CERTIFICATE_URL: self._signer.certificate_pem},
        }

    def send_webhooks_to(self, url: str, *, client_id: str | None = None, webhook_id: str | None = None) -> None:
        """Set the webhook of the app, or of a further app with its own client id and webhook id."""
        self._receivers[client_id] = Receiver(url, webhook_id or self.webhook_id)

    def sample_source(self) -> dict[str, Any]:
        return {"secret": self._signer.key_pem.strip(), "options": self.source_options}

    def break_next(self, count: int = 1, *, act: bool = False) -> None:
        """Answer the next creating requests with a 500, or with `act` not at all: they are carried out."""
        for _ in range(count):
            if act:
                self.drop_after_send(on="POST /v2/")
            else:
                self.fail_next(on="POST /v2/")

    def revoke_tokens(self) -> None:
        """Revoke all access tokens before they expire."""
        self.books.tokens.clear()

    def forget_keys(self) -> None:
        """Forget all request ids, as PayPal does: after 6 hours for orders, after 45 days for refunds."""
        self._responses.clear()

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def is_api(self, path: str) -> bool:
        return path.startswith("/v")

    def failure(self, status: int) -> web.Response:
        name = "RATE_LIMIT_REACHED" if status == 429 else "INTERNAL_SERVER_ERROR"
        return answer(PayPalError(name, status=status).body, status=status)

    async def give_token(self, request: web.Request) -> web.Response:
        scheme, _, login = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Basic" or b64decode(login).endswith(b"_invalid"):
            return answer({"error": "invalid_client"}, status=401)
        token = f"A21-{secrets.token_hex(16)}"
        self.books.tokens[token] = b64decode(login).decode().partition(":")[0]
        return answer({"access_token": token, "token_type": "Bearer", "expires_in": 32400})

    def keyed(self, act: Callable[[web.Request, Json], Json], *, status: int = 200) -> Any:
        """Return the handler of a request. A known request id gets the stored response, with status 200."""

        async def handle(request: web.Request) -> web.Response:
            token = request.headers.get("Authorization", "").removeprefix("Bearer ")
            client_id = self.books.tokens.get(token)
            if client_id is None:
                return answer({"error": "invalid_token"}, status=401)
            account = client_id if client_id in self._receivers else None
            key = request.headers.get("PayPal-Request-Id")
            response_key = f"{account or ''}:{request.path}:{key}"
            if key is not None and (stored := self._responses.get(response_key)) is not None:
                return web.Response(body=stored[1], status=200, content_type="application/json")
            body = await read_object(request) if request.body_exists else {}
            self.books.account = account
            try:
                if (named := request.match_info.get("id")) is not None and self.books.owners.get(named) != account:
                    raise _missing()
                outcome = act(request, body)
            except PayPalError as error:
                return answer(error.body, status=error.status)
            if key is not None:
                self._responses[response_key] = (status, orjson.dumps(outcome))
            return answer(outcome, status=status)

        return handle

    def existing(self, objects: Mapping[str, Json], object_id: str) -> Json:
        """Return the object with this id and act for its app, or raise the 404 error of PayPal."""
        if object_id not in objects:
            raise _missing()
        self.books.account = self.books.owners.get(object_id)
        return objects[object_id]

    def mine(self, objects: Mapping[str, Json]) -> list[Json]:
        """Return the objects of the app that acts now, oldest first."""
        return [item for object_id, item in objects.items() if self.books.owners.get(object_id) == self.books.account]

    def list_events(self, request: web.Request, _: Json) -> Json:
        """Return the events of a period, newest first, with a link to the next page."""
        query = request.query
        start, end = _moment(query.get("start_time", "0001-01-01T00:00:00Z")), _moment(query.get("end_time", iso_now()))
        found = [
            each
            for each in reversed(self.mine(self.books.events))
            if start <= _moment(each["create_time"]) <= end and query.get("event_type") in (None, each["event_type"])
        ]
        size, offset = int(query.get("page_size", "10")), int(query.get("offset", "0"))
        links: list[Json] = []
        if len(found) > offset + size:
            following = request.rel_url.update_query(offset=offset + size)
            links = [{"rel": "next", "href": f"{self.url}{following}", "method": "GET"}]
        page = found[offset : offset + size]
        return {"events": page, "count": len(page), "links": links}

    def emit(self, event_type: str, resource_type: str, resource: Json) -> None:
        """Store an event of the app that acts now, and send its webhook."""
        event: Json = {
            "id": f"WH-{secrets.token_hex(10).upper()}",
            "event_version": "1.0",
            "create_time": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "resource_type": resource_type,
            "resource_version": "2.0",
            "event_type": event_type,
            "summary": event_type.replace(".", " ").capitalize(),
            # A copy: later changes of the object must not change the event.
            "resource": orjson.loads(orjson.dumps(resource)),
            "links": [],
        }
        self.books.keep(self.books.events, event["id"], event)
        self.resend(event["id"])

    def resend(self, event_id: str) -> None:
        """Send an event again, as PayPal's API can: same id, new transmission."""
        receiver = self._receivers.get(self.books.owners.get(event_id))
        if receiver is not None:
            body = orjson.dumps(self.books.events[event_id])
            self.webhooks.send(receiver.url, body, lambda content: self.sign(content, receiver.webhook_id))

    def sign(self, body: bytes, webhook_id: str | None = None) -> dict[str, str]:
        """Return the headers of a webhook."""
        transmission, at = str(uuid4()), iso_now()
        content = f"{transmission}|{at}|{webhook_id or self.webhook_id}|{zlib.crc32(body)}".encode()
        return {
            "Content-Type": "application/json",
            "PAYPAL-AUTH-ALGO": "SHA256withRSA",
            "PAYPAL-CERT-URL": CERTIFICATE_URL,
            "PAYPAL-TRANSMISSION-ID": transmission,
            "PAYPAL-TRANSMISSION-TIME": at,
            "PAYPAL-TRANSMISSION-SIG": b64encode(self._signer.sign(content)).decode("ascii"),
        }


def _missing() -> PayPalError:
    return PayPalError("RESOURCE_NOT_FOUND", status=404, issue="INVALID_RESOURCE_ID")


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def iso_now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

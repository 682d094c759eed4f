"""A simulator of Brevo: transactional mail and its webhooks. A mail with a used idempotency key is not sent again."""

import secrets
import time
from typing import Any

import orjson
from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]


class BrevoSimulator(Simulator):
    """One account. `mails` are the sent mails, `blocked` the refused addresses, `bouncing` those without a mailbox.

    It sends webhooks after `send_webhooks_to` has set a receiver.
    """

    kept = ("mails", "_ids_by_key")

    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Json] = []
        self.blocked: set[str] = set()
        self.bouncing: set[str] = set()
        self.webhooks = WebhookSender(retry_delays_s=(0.5, 2.0, 10.0, 60.0))
        self._receiver: tuple[str, str] | None = None
        self._ids_by_key: dict[str, str] = {}

    def send_webhooks_to(self, url: str, *, token: str) -> None:
        """Report about mails to this URL, with the token as Brevo's bearer authentication sends it."""
        self._receiver = (url, token)

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v3/account", self._account), web.post("/v3/smtp/email", self._send)]

    def forget_keys(self) -> None:
        """Forget all idempotency keys, as Brevo does after a time that it does not document."""
        self._ids_by_key.clear()

    def failure(self, status: int) -> web.Response:
        code = "too_many_requests" if status == 429 else "internal_error"
        headers = {"x-sib-ratelimit-reset": "7"} if status == 429 else None
        return answer({"code": code, "message": "Simulated failure"}, status=status, headers=headers)

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        by_code = {"unauthorized": 401, "not_enough_credits": 402, "permission_denied": 403}
        return answer({"code": code, "message": "Simulated refusal"}, status=by_code.get(str(code), 400))

    async def _account(self, request: web.Request) -> web.Response:
        return _unauthorized(request) or answer({"email": "owner@example.com", "companyName": "Simulated", "plan": []})

    async def _send(self, request: web.Request) -> web.Response:
        if (refusal := _unauthorized(request)) is not None:
            return refusal
        body = await read_object(request)
        recipients = [str(to.get("email")) for to in parts(body, "to")]
        content = body.get("templateId") or body.get("htmlContent") or body.get("textContent")
        if not recipients or not content or not (body.get("sender") or body.get("templateId")):
            return answer({"code": "missing_parameter", "message": "Simulated"}, status=400)
        if self.blocked.intersection(recipients):
            return answer({"code": "invalid_parameter", "message": f"{recipients[0]} is blocked"}, status=400)
        key = part(body, "headers").get("idempotencyKey")
        if key is not None and key in self._ids_by_key:
            return answer({"messageId": self._ids_by_key[key]}, status=201)
        message_id = f"<{secrets.token_hex(12)}@smtp-relay.simulated>"
        self.mails.append({**body, "messageId": message_id})
        if key is not None:
            self._ids_by_key[key] = message_id
        self.report(message_id, "request")
        for to in recipients:
            self.report(message_id, "hard_bounce" if to in self.bouncing else "delivered", to=to)
        return answer({"messageId": message_id}, status=201)

    def report(self, message_id: str, event: str, *, to: str | None = None) -> None:
        """Send the webhook of an event about a mail, such as `spam` or `unsubscribed`."""
        if self._receiver is None:
            return
        url, token = self._receiver
        mail = next(mail for mail in self.mails if mail["messageId"] == message_id)
        now = time.time()
        fields: Json = {
            "event": event,
            "email": to or parts(mail, "to")[0].get("email"),
            "id": 812345,
            "date": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(now)),
            "ts": int(now),
            "message-id": message_id,
            "ts_event": int(now),
            "ts_epoch": int(now * 1000),
            "subject": mail.get("subject"),
            "tags": mail.get("tags") or [],
        }
        if (custom := part(mail, "headers").get("X-Mailin-custom")) is not None:
            fields["X-Mailin-custom"] = custom
        if event in ("soft_bounce", "hard_bounce", "blocked"):
            fields["reason"] = f"Simulated {event} of {fields['email']}"
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self.webhooks.send(url, orjson.dumps(fields), lambda _: headers)


def _unauthorized(request: web.Request) -> web.Response | None:
    """Refuse a request without a key, or with one that ends in `_invalid`."""
    key = request.headers.get("api-key", "")
    if key and not key.endswith("_invalid"):
        return None
    return answer({"code": "unauthorized", "message": "Key not found"}, status=401)

"""A simulator of the WhatsApp Cloud API: texts within the 24-hour window, templates, signed webhooks."""

import hashlib
import hmac
import secrets
import time
from typing import Any

import orjson
from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, read_object
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]
WINDOW_S = 24 * 3600.0


class WhatsAppSimulator(Simulator):
    """One phone number. With `enforce_window`, texts are allowed only within 24 hours of a person's message."""

    kept = ("messages", "_last_received_at")

    def __init__(self, *, app_secret: str = "simulated-app-secret", phone_number_id: str = "100200300") -> None:
        super().__init__()
        self.app_secret = app_secret
        self.phone_number_id = phone_number_id
        self.messages: list[Json] = []
        self.enforce_window = False
        self.unreachable: set[str] = set()
        self.number_tokens: set[str] = set()
        """The access tokens that may read the phone number."""
        self.webhooks = WebhookSender(retry_delays_s=(0.5, 2.0, 10.0, 60.0))
        self._webhook_url: str | None = None
        self._last_received_at: dict[str, float] = {}

    def send_webhooks_to(self, url: str) -> None:
        self._webhook_url = url

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        return [web.post("/{version}/{number}/messages", self._send), web.get("/{version}/{number}", self._number)]

    def failure(self, status: int) -> web.Response:
        by_status = {429: 130429, 503: 131016}
        return _error(by_status.get(status, 131000 if status >= 500 else 100), status)

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        status = {190: 401, 0: 401, 10: 403, 368: 403, 131005: 403, 131031: 403}.get(int(code), 400)
        return _error(int(code), status)

    async def _number(self, request: web.Request) -> web.Response:
        """Show the phone number, only to a token that has access to it (`number_tokens`)."""
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.number_tokens or request.match_info["number"] != self.phone_number_id:
            return _error(100, 400)
        return answer({"id": self.phone_number_id, "verified_name": "Simulated"})

    async def _send(self, request: web.Request) -> web.Response:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return _error(190, 401)
        if request.match_info["number"] != self.phone_number_id:
            return _error(100, 400)
        body = await read_object(request)
        to, kind = str(body.get("to") or ""), body.get("type")
        if body.get("messaging_product") != "whatsapp" or not to or kind not in ("text", "template"):
            return _error(100, 400)
        if to in self.unreachable:
            return _error(131026, 400)
        silent_s = time.time() - self._last_received_at.get(to, 0.0)
        if kind == "text" and self.enforce_window and silent_s > WINDOW_S:
            return _error(131047, 400)
        wamid = f"wamid.{secrets.token_urlsafe(24)}"
        self.messages.append({**body, "id": wamid})
        for status in ("sent", "delivered"):
            self.set_status(wamid, status)
        return answer(
            {
                "messaging_product": "whatsapp",
                "contacts": [{"input": to, "wa_id": to.lstrip("+")}],
                "messages": [{"id": wamid}],
            }
        )

    def set_status(self, wamid: str, status: str, *, error_code: int | None = None) -> None:
        """Report the status of a message, with the `biz_opaque_callback_data` that the sender gave."""
        message = next(message for message in self.messages if message["id"] == wamid)
        report: Json = {
            "id": wamid,
            "status": status,
            "timestamp": str(int(time.time())),
            "recipient_id": str(message["to"]).lstrip("+"),
        }
        if "biz_opaque_callback_data" in message:
            report["biz_opaque_callback_data"] = message["biz_opaque_callback_data"]
        if error_code is not None:
            report["errors"] = [{"code": error_code, "title": "Simulated error"}]
        self._emit({"statuses": [report]})

    def receive_text(self, sender: str, text: str) -> str:
        """Simulate a message from a person: open the window, send the webhook, return the message id."""
        return self._receive(sender, {"type": "text", "text": {"body": text}})

    def receive_button(self, sender: str, payload: str, text: str) -> str:
        """Simulate a person who taps a quick reply of a template: `payload` is the button's id."""
        return self._receive(sender, {"type": "button", "button": {"payload": payload, "text": text}})

    def receive_choice(self, sender: str, choice_id: str, title: str) -> str:
        """Simulate a person who taps a button of an interactive message."""
        reply = {"type": "button_reply", "button_reply": {"id": choice_id, "title": title}}
        return self._receive(sender, {"type": "interactive", "interactive": reply})

    def _receive(self, sender: str, content: Json) -> str:
        self._last_received_at[sender] = time.time()
        wamid = f"wamid.{secrets.token_urlsafe(24)}"
        stamp = str(int(time.time()))
        message = {"from": sender.lstrip("+"), "id": wamid, "timestamp": stamp, **content}
        contact = {"profile": {"name": "Simulated Person"}, "wa_id": sender.lstrip("+")}
        self._emit({"contacts": [contact], "messages": [message]})
        return wamid

    def _emit(self, value: Json) -> None:
        if self._webhook_url is None:
            return
        metadata = {"display_phone_number": "15550100200", "phone_number_id": self.phone_number_id}
        change = {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        body = orjson.dumps(
            {"object": "whatsapp_business_account", "entry": [{"id": "SIMULATED", "changes": [change]}]}
        )
        self.webhooks.send(self._webhook_url, body, self._sign)

    def _sign(self, body: bytes) -> dict[str, str]:
        mac = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
        return {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={mac}"}


def _error(code: int, status: int) -> web.Response:
    error = {"message": f"(#{code}) Simulated error", "type": "OAuthException", "code": code, "fbtrace_id": "SIM"}
    return answer({"error": error}, status=status)

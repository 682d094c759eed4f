"""A simulator of the WhatsApp Cloud API: texts within the 24-hour window, templates and their approval, signed
webhooks."""

import hashlib
import hmac
import re
import secrets
import time
from typing import Any

import orjson
from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, part, parts, read_object
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]
WINDOW_S = 24 * 3600.0


class WhatsAppSimulator(Simulator):
    """One phone number. With `enforce_window`, texts are allowed only within 24 hours of a person's message.

    With `enforce_templates`, only approved templates of the account are sent, with as many values as they have
    variables.
    """

    kept = ("messages", "templates", "_last_received_at")

    def __init__(
        self,
        *,
        app_secret: str = "simulated-app-secret",
        phone_number_id: str = "100200300",
        business_account_id: str = "500600700",
    ) -> None:
        super().__init__()
        self.app_secret = app_secret
        self.phone_number_id = phone_number_id
        self.business_account_id = business_account_id
        self.messages: list[Json] = []
        self.templates: list[Json] = []
        """The templates of the account, as `message_templates` returns them."""
        self.enforce_templates = False
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
        return [
            web.post("/{version}/{number}/messages", self._send),
            web.get("/{version}/{account}/message_templates", self._list_templates),
            web.post("/{version}/{account}/message_templates", self._create_template),
            web.get("/{version}/{number}", self._number),
        ]

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
        if kind == "template" and self.enforce_templates and (code := self._template_fault(body)) is not None:
            return _error(code, 404 if code == 132001 else 400)
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

    # -- templates ---------------------------------------------------------------------------------------------------

    def _template_fault(self, body: Json) -> int | None:
        """Return Meta's code if the template does not exist, is not approved, or has another number of variables."""
        sent = part(body, "template")
        found = self._template(str(sent.get("name")), str(part(sent, "language").get("code")))
        if found is None:
            return 132001
        if found["status"] != "APPROVED":
            return 132015 if found["status"] == "PAUSED" else 132016 if found["status"] == "DISABLED" else 132001
        values = [each for each in parts(sent, "components") if each.get("type") == "body"]
        given = len(parts(values[0], "parameters")) if values else 0
        return None if given == _variables(found) else 132000

    def _template(self, name: str, language: str) -> Json | None:
        return next((each for each in self.templates if (each["name"], each["language"]) == (name, language)), None)

    async def _list_templates(self, request: web.Request) -> web.Response:
        if (fault := self._account_fault(request)) is not None:
            return fault
        start, limit = int(request.query.get("after", "0")), int(request.query.get("limit", "25"))
        shown = self.templates[start : start + limit]
        paging: Json = {"cursors": {"before": str(start), "after": str(start + len(shown))}}
        if start + limit < len(self.templates):
            paging["next"] = str(request.url.update_query(after=str(start + len(shown))))
        return answer({"data": shown, "paging": paging})

    async def _create_template(self, request: web.Request) -> web.Response:
        if (fault := self._account_fault(request)) is not None:
            return fault
        body = await read_object(request)
        name, language = str(body.get("name") or ""), str(body.get("language") or "")
        texts = [each for each in parts(body, "components") if each.get("type") == "BODY"]
        if not re.fullmatch(r"[a-z0-9_]{1,512}", name) or not language or len(texts) != 1:
            return _error(100, 400)
        if body.get("category") not in ("UTILITY", "MARKETING", "AUTHENTICATION"):
            return _error(100, 400)
        examples: list[list[str]] = part(texts[0], "example").get("body_text") or [[]]
        if len(examples[0]) != _variables(body):
            return _error(100, 400)  # Meta needs an example for each variable
        if self._template(name, language) is not None:
            return _error(100, 400)
        created: Json = {**body, "id": secrets.token_hex(8), "status": "PENDING", "rejected_reason": "NONE"}
        self.templates.append(created)
        return answer({"id": created["id"], "status": "PENDING", "category": body["category"]})

    def _account_fault(self, request: web.Request) -> web.Response | None:
        if not request.headers.get("Authorization", "").startswith("Bearer "):
            return _error(190, 401)
        return None if request.match_info["account"] == self.business_account_id else _error(100, 400)

    def review_template(self, name: str, language: str, status: str, *, reason: str = "NONE") -> None:
        """Change the status of a template as Meta does (APPROVED, REJECTED, PAUSED, DISABLED), and send the webhook."""
        found = self._template(name, language)
        if found is None:
            raise KeyError(f"the account has no template {name} in {language}")
        found |= {"status": status, "rejected_reason": reason}
        value = {
            "event": status,
            "message_template_id": found["id"],
            "message_template_name": name,
            "message_template_language": language,
            "reason": reason,
        }
        self.report_change("message_template_status_update", value)

    def report_change(self, field: str, value: Json) -> None:
        """Send a webhook about the account, such as `phone_number_quality_update` or `account_update`."""
        self._send_webhook({"field": field, "value": value})

    # -- statuses and messages ---------------------------------------------------------------------------------------

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
        metadata = {"display_phone_number": "15550100200", "phone_number_id": self.phone_number_id}
        change = {"field": "messages", "value": {"messaging_product": "whatsapp", "metadata": metadata, **value}}
        self._send_webhook(change)

    def _send_webhook(self, change: Json) -> None:
        if self._webhook_url is None:
            return
        entry = {"id": self.business_account_id, "time": int(time.time()), "changes": [change]}
        body = orjson.dumps({"object": "whatsapp_business_account", "entry": [entry]})
        self.webhooks.send(self._webhook_url, body, self._sign)

    def _sign(self, body: bytes) -> dict[str, str]:
        mac = hmac.new(self.app_secret.encode(), body, hashlib.sha256).hexdigest()
        return {"Content-Type": "application/json", "X-Hub-Signature-256": f"sha256={mac}"}


def _variables(template: Json) -> int:
    texts = [str(each.get("text")) for each in parts(template, "components") if each.get("type") == "BODY"]
    return len(set(re.findall(r"\{\{(\d+)\}\}", texts[0]))) if texts else 0


def _error(code: int, status: int) -> web.Response:
    error = {"message": f"(#{code}) Simulated error", "type": "OAuthException", "code": code, "fbtrace_id": "SIM"}
    return answer({"error": error}, status=status)

"""A simulator of Twilio: send, list and fetch messages, with signed status callbacks."""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer
from onceward.testing.simulators.webhooks import WebhookSender

Json = dict[str, Any]
# From Twilio's test numbers: Twilio refuses it as an invalid number.
INVALID_NUMBER = "+15005550001"


class TwilioSimulator(Simulator):
    """One account. It reports a message with a StatusCallback as sent and delivered, unless `report` is false."""

    kept = ("messages", "_callbacks")

    def __init__(self, *, account_sid: str = "AC" + "0" * 32, auth_token: str = "simulated") -> None:
        super().__init__()
        self.account_sid = account_sid
        self.auth_token = auth_token
        self.messages: list[Json] = []
        self.numbers: set[str] = set()
        """The phone numbers of the account."""
        self.webhooks = WebhookSender()
        self.report = True
        self._callbacks: dict[str, str] = {}
        self._incoming_url: str | None = None

    def send_webhooks_to(self, url: str) -> None:
        """Set the URL for messages from people. Status callbacks go to the `StatusCallback` of each message."""
        self._incoming_url = url

    def receive_text(self, sender: str, text: str, *, to: str = "+15550100200", whatsapp: bool = False) -> str:
        """Simulate a message from a person: send the webhook and return the message id."""
        if self._incoming_url is None:
            raise RuntimeError("call send_webhooks_to first: there is no URL for incoming messages")
        prefix, sid = "whatsapp:" if whatsapp else "", "SM" + secrets.token_hex(16)
        fields = {
            "MessageSid": sid,
            "SmsSid": sid,
            "SmsMessageSid": sid,
            "SmsStatus": "received",
            "AccountSid": self.account_sid,
            "From": f"{prefix}{sender}",
            "To": f"{prefix}{to}",
            "Body": text,
            "NumMedia": "0",
            "NumSegments": "1",
            "ApiVersion": "2010-04-01",
        }
        if whatsapp:
            fields |= {"WaId": sender.lstrip("+"), "ProfileName": "Simulated Person"}
        self._post(self._incoming_url, fields)
        return sid

    async def stop(self) -> None:
        await self.webhooks.aclose()
        await super().stop()

    def routes(self) -> list[web.RouteDef]:
        account = "/2010-04-01/Accounts/{account}"
        return [
            web.get("/2010-04-01/Accounts/{account}.json", self._account),
            web.post(f"{account}/Messages.json", self._send),
            web.get(f"{account}/Messages.json", self._list),
            web.get(f"{account}/IncomingPhoneNumbers.json", self._list_numbers),
            web.get(f"{account}/Messages/{{sid}}.json", self._fetch),
        ]

    def failure(self, status: int) -> web.Response:
        code = 20429 if status == 429 else 20500
        return answer({"code": code, "message": "Simulated failure", "status": status}, status=status)

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        return _error(int(code), {20003: 401, 20403: 403, 20005: 403}.get(int(code), 400))

    async def _account(self, request: web.Request) -> web.Response:
        if not self._authorized(request):
            return _error(20003, 401)
        return answer({"sid": self.account_sid, "friendly_name": "Simulated", "status": "active", "type": "Full"})

    async def _send(self, request: web.Request) -> web.Response:
        if not self._authorized(request):
            return _error(20003, 401)
        fields = dict(parse_qsl(await request.text(), keep_blank_values=True))
        if not fields.get("To"):
            return _error(21604, 400)
        if not fields.get("From") and not fields.get("MessagingServiceSid"):
            return _error(21603, 400)
        if not fields.get("Body") and not fields.get("ContentSid") and not fields.get("MediaUrl"):
            return _error(21602, 400)
        if fields["To"] == INVALID_NUMBER:
            return _error(21211, 400)
        at = format_datetime(datetime.now(UTC))
        message: Json = {
            "sid": "SM" + secrets.token_hex(16),
            "account_sid": self.account_sid,
            "to": fields["To"],
            "from": fields.get("From"),
            "messaging_service_sid": fields.get("MessagingServiceSid"),
            "body": fields.get("Body", ""),
            "status": "queued",
            "direction": "outbound-api",
            "num_segments": str(max(1, -(-len(fields.get("Body", "")) // 153))),
            "num_media": "0",
            "date_created": at,
            "date_updated": at,
            "date_sent": None,
            "error_code": None,
            "error_message": None,
            "price": None,
            "price_unit": "USD",
            "api_version": "2010-04-01",
            "uri": f"/2010-04-01/Accounts/{self.account_sid}/Messages/x.json",
            "subresource_uris": {},
        }
        self.messages.append(message)
        if fields.get("StatusCallback"):
            self._callbacks[message["sid"]] = fields["StatusCallback"]
            if self.report:
                self.set_status(message["sid"], "sent")
                self.set_status(message["sid"], "delivered")
        return answer(message, status=201)

    def set_status(self, sid: str, status: str, *, error_code: int | None = None) -> None:
        """Set the status of a message, and send the status callback if the message has one."""
        message = next(message for message in self.messages if message["sid"] == sid)
        message.update(status=status, error_code=error_code, date_sent=format_datetime(datetime.now(UTC)))
        if (url := self._callbacks.get(sid)) is None:
            return
        fields = {
            "MessageSid": sid,
            "SmsSid": sid,
            "MessageStatus": status,
            "SmsStatus": status,
            "To": message["to"],
            "From": message["from"] or "",
            "AccountSid": self.account_sid,
            "ApiVersion": "2010-04-01",
        }
        if error_code is not None:
            fields["ErrorCode"] = str(error_code)
        self._post(url, fields)

    def _post(self, url: str, fields: dict[str, str]) -> None:
        signed = self.sign(url, fields)
        self.webhooks.send(url, urlencode(fields).encode(), lambda _: signed)

    def callback_of(self, sid: str) -> str | None:
        """Return the StatusCallback that a message was sent with."""
        return self._callbacks.get(sid)

    def sign(self, url: str, fields: dict[str, str]) -> dict[str, str]:
        """Return the signed headers of a form callback to a URL."""
        content = url + "".join(f"{name}{fields[name]}" for name in sorted(fields))
        mac = hmac.new(self.auth_token.encode(), content.encode(), hashlib.sha1).digest()
        return {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Twilio-Signature": b64encode(mac).decode("ascii"),
        }

    async def _list(self, request: web.Request) -> web.Response:
        if not self._authorized(request):
            return _error(20003, 401)
        since = request.query.get("DateSent>")
        matching = [
            message
            for message in reversed(self.messages)
            if request.query.get("To") in (None, message["to"])
            and request.query.get("From") in (None, message["from"])
            and (since is None or parsedate_to_datetime(message["date_created"]).strftime("%Y-%m-%d") >= since)
        ]
        return answer({"messages": matching, "page": 0, "page_size": 50, "next_page_uri": None, "uri": request.path})

    async def _list_numbers(self, request: web.Request) -> web.Response:
        if not self._authorized(request) or request.match_info["account"] != self.account_sid:
            return _error(20003, 401)
        part = request.query.get("PhoneNumber", "").lstrip("+")
        owned = [
            {"sid": f"PN{number[1:]}", "phone_number": number} for number in sorted(self.numbers) if part in number
        ]
        return answer({"incoming_phone_numbers": owned, "page": 0, "page_size": 20, "next_page_uri": None})

    async def _fetch(self, request: web.Request) -> web.Response:
        if not self._authorized(request):
            return _error(20003, 401)
        for message in self.messages:
            if message["sid"] == request.match_info["sid"]:
                return answer(message)
        return _error(20404, 404)

    def _authorized(self, request: web.Request) -> bool:
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        return scheme == "Basic" and b64decode(credentials).decode().endswith(f":{self.auth_token}")


def _error(code: int, status: int) -> web.Response:
    more = f"https://www.twilio.com/docs/errors/{code}"
    return answer(
        {"code": code, "message": f"Simulated error {code}", "more_info": more, "status": status}, status=status
    )

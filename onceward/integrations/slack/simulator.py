"""A simulator of Slack: messages through the Web API and an incoming webhook. Channels can be archived."""

import time
from typing import Any

from aiohttp import web

from onceward.testing.simulators.server import Simulator, answer, read_object

Json = dict[str, Any]
_WEBHOOK_PATH = "/services/T0SIM/B0SIM/s1mulated"


class SlackSimulator(Simulator):
    """One workspace in which every channel exists. `messages` are all posted messages."""

    kept = ("messages",)

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[Json] = []
        self.archived: set[str] = set()

    @property
    def webhook_url(self) -> str:
        return f"{self.url}{_WEBHOOK_PATH}"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/auth.test", self._test),
            web.post("/api/chat.postMessage", self._post),
            web.get("/api/conversations.history", self._history),
            web.post("/services/{team}/{app}/{secret}", self._incoming),
        ]

    def failure(self, status: int) -> web.Response:
        error = "ratelimited" if status == 429 else "simulated_failure"
        return answer({"ok": False, "error": error}, status=status)

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        if request.path.startswith("/api/"):
            return answer({"ok": False, "error": code})
        by_word = {"no_service": 404, "channel_not_found": 404, "channel_is_archived": 410, "invalid_payload": 400}
        return web.Response(status=by_word.get(str(code), 403), text=str(code))

    async def _test(self, request: web.Request) -> web.Response:
        if not _is_authorized(request):
            return answer({"ok": False, "error": "invalid_auth"})
        return answer({"ok": True, "url": f"{self.url}/", "team": "Simulated", "team_id": "T0SIM", "user_id": "U0BOT"})

    async def _post(self, request: web.Request) -> web.Response:
        if not _is_authorized(request):
            return answer({"ok": False, "error": "invalid_auth"})
        body = await read_object(request)
        channel = str(body.get("channel") or "")
        if not channel:
            return answer({"ok": False, "error": "channel_not_found"})
        if channel in self.archived:
            return answer({"ok": False, "error": "is_archived"})
        if not body.get("text") and not body.get("blocks"):
            return answer({"ok": False, "error": "no_text"})
        message = self._keep(channel, body)
        return answer({"ok": True, "channel": channel, "ts": message["ts"], "message": message})

    async def _history(self, request: web.Request) -> web.Response:
        channel, oldest = request.query.get("channel"), float(request.query.get("oldest", "0"))
        matching = [
            message
            for message in reversed(self.messages)
            if message["channel"] == channel and float(message["ts"]) >= oldest
        ]
        return answer({"ok": True, "messages": matching, "has_more": False})

    async def _incoming(self, request: web.Request) -> web.Response:
        if request.path != _WEBHOOK_PATH:
            return web.Response(status=404, text="no_service")
        body = await read_object(request)
        if not body.get("text") and not body.get("blocks"):
            return web.Response(status=400, text="no_text")
        if "webhook" in self.archived:
            return web.Response(status=410, text="channel_is_archived")
        self._keep("webhook", body)
        return web.Response(text="ok")

    def _keep(self, channel: str, body: Json) -> Json:
        message = {**body, "type": "message", "channel": channel, "ts": f"{time.time():.6f}"}
        self.messages.append(message)
        return message


def _is_authorized(request: web.Request) -> bool:
    token = request.headers.get("Authorization", "")
    return token.startswith("Bearer xox") and not token.endswith("_invalid")

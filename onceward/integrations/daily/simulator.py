"""A simulator of Daily: rooms, meeting tokens, recordings, and webhooks that stop after repeated failures."""

import base64
import hashlib
import hmac
import secrets
import time
from typing import Any
from uuid import uuid4

import aiohttp
import orjson
from aiohttp import web

from onceward.background import Tasks
from onceward.testing.simulators.server import Simulator, answer, part, read_object
from onceward.testing.simulators.webhooks import SimulatedDelivery, WebhookSender

Json = dict[str, Any]
BREAKS_AFTER = 3
"""Failed webhooks in a row after which Daily stops sending."""


class DailySimulator(Simulator):
    """One domain. `join`, `leave`, `start_recording` and so on are what happens in its rooms."""

    kept = ("rooms", "tokens", "recordings", "participants", "registered", "_meetings")

    def __init__(self) -> None:
        super().__init__()
        self.rooms: dict[str, Json] = {}
        self.tokens: dict[str, Json] = {}
        self.recordings: dict[str, Json] = {}
        self.participants: dict[str, Json] = {}
        self.registered: dict[str, Json] = {}
        """The webhooks by uuid, with `state` ACTIVE or FAILED and `failedCount`."""
        self.webhooks = WebhookSender(timeout_s=10.0)
        self._meetings: dict[str, Json] = {}
        self._watching = Tasks("simulated webhooks of Daily")

    async def stop(self) -> None:
        await self._watching.stop()
        await self.webhooks.aclose()
        await super().stop()

    def send_webhooks_to(self, url: str, *, secret: str) -> str:
        """Register a webhook without the test request; `secret` is base64. Returns its uuid."""
        return self._register({"url": url, "hmac": secret, "eventTypes": []})["uuid"]

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/v1/", self._get_domain),
            web.post("/v1/rooms", self._create_room),
            web.get("/v1/rooms/{name}", self._get_room),
            web.delete("/v1/rooms/{name}", self._delete_room),
            web.post("/v1/meeting-tokens", self._create_token),
            web.get("/v1/recordings", self._list_recordings),
            web.get("/v1/recordings/{id}", self._get_recording),
            web.delete("/v1/recordings/{id}", self._delete_recording),
            web.get("/v1/recordings/{id}/access-link", self._access_link),
            web.get("/v1/webhooks", self._list_webhooks),
            web.post("/v1/webhooks", self._create_webhook),
            web.post("/v1/webhooks/{uuid}", self._update_webhook),
            web.delete("/v1/webhooks/{uuid}", self._delete_webhook),
        ]

    def failure(self, status: int) -> web.Response:
        return _error(status, "rate-limit-error" if status == 429 else "server-error")

    # -- what happens in rooms -----------------------------------------------------------------------------------------

    def join(self, room: str, *, user_name: str = "Guest", user_id: str | None = None, owner: bool = False) -> str:
        """Let a person join a room, and return the session id. The first person starts the meeting."""
        now = time.time()
        if room not in self._meetings:
            self._meetings[room] = {"meeting_id": str(uuid4()), "start_ts": int(now), "room": room}
            self._emit("meeting.started", "mtg-start", dict(self._meetings[room]))
        session_id = str(uuid4())
        person: Json = {
            "joined_at": now,
            "session_id": session_id,
            "room": room,
            "user_id": user_id or session_id,
            "user_name": user_name,
            "owner": owner,
        }
        self.participants[session_id] = person
        permissions = {"hasPresence": True, "canSend": True, "canReceive": {"base": True}, "canAdmin": owner}
        self._emit(
            "participant.joined", "ptcpt-join", {**person, "networkQualityState": "good", "permissions": permissions}
        )
        return session_id

    def leave(self, session_id: str) -> None:
        """Let a person leave. The last person ends the meeting."""
        person = self.participants.pop(session_id)
        self._emit("participant.left", "ptcpt-left", {**person, "duration": time.time() - person["joined_at"]})
        if not any(other["room"] == person["room"] for other in self.participants.values()):
            meeting = self._meetings.pop(person["room"])
            self._emit("meeting.ended", "mtg-end", {**meeting, "end_ts": int(time.time())})

    def start_recording(self, room: str) -> str:
        """Start a recording and return its id."""
        recording: Json = {
            "id": str(uuid4()),
            "room_name": room,
            "start_ts": int(time.time()),
            "status": "in-progress",
            "max_participants": 1,
            "duration": 0,
            "share_token": secrets.token_urlsafe(9),
        }
        recording["s3key"] = f"simulated/{room}/{recording['start_ts']}"
        self.recordings[recording["id"]] = recording
        payload = {"action": "start-cloud-recording-log", "recording_id": recording["id"], "room_name": room}
        self._emit("recording.started", "rec-start", {**payload, "start_ts": recording["start_ts"], "type": "cloud"})
        return recording["id"]

    def finish_recording(self, recording_id: str, *, duration_s: int = 60) -> None:
        recording = self.recordings[recording_id]
        recording.update(status="finished", duration=duration_s)
        payload = {
            "type": "cloud",
            "recording_id": recording_id,
            "room_name": recording["room_name"],
            "start_ts": recording["start_ts"],
            "status": "finished",
            "max_participants": recording["max_participants"],
            "duration": duration_s,
            "share_token": recording["share_token"],
            "s3_key": recording["s3key"],
        }
        self._emit("recording.ready-to-download", "rec-rtd", payload)

    def fail_recording(self, recording_id: str, message: str = "simulated failure") -> None:
        recording = self.recordings[recording_id]
        recording["status"] = "failed"
        payload = {
            "action": "cloud-recording-err",
            "error_msg": message,
            "instance_id": str(uuid4()),
            "room_name": recording["room_name"],
            "timestamp": int(time.time()),
        }
        self._emit("recording.error", "rec-err", payload)

    # -- rooms and tokens ----------------------------------------------------------------------------------------------

    async def _get_domain(self, request: web.Request) -> web.Response:
        return _refuse(request) or answer({"domain_name": "simulated", "config": {}})

    async def _create_room(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        body = await read_object(request)
        name = str(body.get("name") or secrets.token_urlsafe(12))
        if name in self.rooms:
            return _error(400, "invalid-request-error", f"a room named {name} already exists")
        room: Json = {
            "id": str(uuid4()),
            "name": name,
            "api_created": True,
            "privacy": body.get("privacy", "public"),
            "url": f"https://simulated.daily.co/{name}",
            "created_at": _iso_now(),
            "config": part(body, "properties"),
        }
        self.rooms[name] = room
        return answer(room)

    async def _get_room(self, request: web.Request) -> web.Response:
        return _refuse(request) or _found(self.rooms.get(request.match_info["name"]))

    async def _delete_room(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if (refusal := _refuse(request)) is not None:
            return refusal
        if self.rooms.pop(name, None) is None:
            return _error(404, "not-found", f"room {name} not found")
        return answer({"deleted": True, "name": name})

    async def _create_token(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        properties = part(await read_object(request), "properties")
        token = f"simulated.{secrets.token_urlsafe(32)}"
        self.tokens[token] = properties
        return answer({"token": token})

    # -- recordings ----------------------------------------------------------------------------------------------------

    async def _list_recordings(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        room, after = request.query.get("room_name"), request.query.get("starting_after")
        matching = [each for each in reversed(self.recordings.values()) if room in (None, each["room_name"])]
        if after is not None:
            ids = [each["id"] for each in matching]
            matching = matching[ids.index(after) + 1 :] if after in ids else []
        limit = min(int(request.query.get("limit", "100")), 100)
        return answer({"total_count": len(matching), "data": matching[:limit]})

    async def _get_recording(self, request: web.Request) -> web.Response:
        return _refuse(request) or _found(self.recordings.get(request.match_info["id"]))

    async def _delete_recording(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        recording = self.recordings.pop(request.match_info["id"], None)
        return _found(None if recording is None else {"deleted": True, **recording})

    async def _access_link(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        recording = self.recordings.get(request.match_info["id"])
        if recording is None or recording["status"] != "finished":
            return _error(404, "not-found", "recording not found")
        expires = int(time.time()) + int(request.query.get("valid_for_secs", "3600"))
        link = f"{self.url}/downloads/{recording['id']}.mp4?expires={expires}"
        return answer({"download_link": link, "expires": expires})

    # -- webhooks ------------------------------------------------------------------------------------------------------

    async def _list_webhooks(self, request: web.Request) -> web.Response:
        return _refuse(request) or answer(list(self.registered.values()))

    async def _create_webhook(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        body = await read_object(request)
        if not await self._answers(str(body.get("url"))):
            return _error(400, "invalid-request-error", "non-200 status code returned from webhook endpoint")
        return answer(self._register(body))

    async def _update_webhook(self, request: web.Request) -> web.Response:
        if (refusal := _refuse(request)) is not None:
            return refusal
        hook = self.registered.get(request.match_info["uuid"])
        if hook is None:
            return _error(404, "not-found", "webhook not found")
        body = await read_object(request)
        if not await self._answers(str(body.get("url") or hook["url"])):
            return _error(400, "invalid-request-error", "non-200 status code returned from webhook endpoint")
        hook.update({name: body[name] for name in ("url", "hmac", "eventTypes", "retryType") if name in body})
        hook.update(state="ACTIVE", failedCount=0, updatedAt=_iso_now())
        return answer(hook)

    async def _delete_webhook(self, request: web.Request) -> web.Response:
        return _refuse(request) or _found(self.registered.pop(request.match_info["uuid"], None))

    def _register(self, body: Json) -> Json:
        hook: Json = {
            "uuid": str(uuid4()),
            "url": body["url"],
            "hmac": body.get("hmac") or base64.b64encode(secrets.token_bytes(32)).decode(),
            "basicAuth": None,
            "retryType": body.get("retryType", "circuit-breaker"),
            "eventTypes": body.get("eventTypes") or [],
            "state": "ACTIVE",
            "failedCount": 0,
            "lastMomentPushed": None,
            "domainId": "simulated",
            "createdAt": _iso_now(),
            "updatedAt": _iso_now(),
        }
        self.registered[hook["uuid"]] = hook
        return hook

    async def _answers(self, url: str) -> bool:
        """Send the test request that Daily sends before it accepts a webhook."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.post(url, data=b'{"test":"test"}', headers={"Content-Type": "application/json"}) as response,
            ):
                return response.status == 200
        except (aiohttp.ClientError, TimeoutError, OSError):
            return False

    def _emit(self, type: str, prefix: str, payload: Json) -> None:
        now = time.time()
        event = {
            "version": "1.0.0",
            "type": type,
            "id": f"{prefix}-{uuid4()}-{int(now)}",
            "payload": payload,
            "event_ts": round(now, 3),
        }
        for hook in self.registered.values():
            if hook["state"] == "ACTIVE" and (not hook["eventTypes"] or type in hook["eventTypes"]):
                delivery = self.webhooks.send(hook["url"], orjson.dumps(event), _signer(hook["hmac"]))
                hook["lastMomentPushed"] = _iso_now()
                self._watching.start(self._watch(hook, delivery))

    async def _watch(self, hook: Json, delivery: SimulatedDelivery) -> None:
        """Count the failures of a webhook, and stop sending after a few in a row."""
        await delivery.ended.wait()
        if delivery.delivered:
            hook["failedCount"] = 0
        else:
            hook["failedCount"] += 1
            if hook["failedCount"] >= BREAKS_AFTER:
                hook["state"] = "FAILED"


def _signer(secret: str) -> Any:
    def sign(body: bytes) -> dict[str, str]:
        stamp = str(int(time.time() * 1000))
        mac = hmac.new(base64.b64decode(secret), f"{stamp}.".encode() + body, hashlib.sha256).digest()
        return {
            "Content-Type": "application/json",
            "X-Webhook-Timestamp": stamp,
            "X-Webhook-Signature": base64.b64encode(mac).decode("ascii"),
        }

    return sign


def _refuse(request: web.Request) -> web.Response | None:
    scheme, _, key = request.headers.get("Authorization", "").partition(" ")
    if scheme != "Bearer" or not key:
        return _error(400, "authorization-header-error", "bad Authorization header format")
    return _error(401, "authentication-error") if key.endswith("_invalid") else None


def _found(value: Json | None) -> web.Response:
    return _error(404, "not-found") if value is None else answer(value)


def _error(status: int, error: str, info: str = "simulated") -> web.Response:
    return answer({"error": error, "info": info}, status=status)


def _iso_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())

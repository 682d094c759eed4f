"""Daily: video rooms, tokens to join them, recordings, and the state of webhooks.

A room's name is ours to choose and unique, so creating a room again finds the one that exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal, Self
from urllib.parse import quote, urlencode

import orjson

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, accepted, call, judge_failure, objects, read_json, short_reason, write_json
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer, Throttled

BASE_URL = "https://api.daily.co"

PAGE = 100
# Deleting rooms and listing recordings is limited over 30 seconds, everything else over 5.
_SLOW_WINDOW_S = 15.0
_WINDOW_S = 5.0
WEBHOOK_FAILED = "FAILED"
"""The state of a webhook that Daily no longer calls, because too many of its requests failed."""


@dataclass(frozen=True, slots=True)
class Daily:
    """Calls Daily with one domain's API key."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    api_key: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 20.0

    # -- rooms -----------------------------------------------------------------------------------------------------

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["api_key"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the configuration of the domain."""
        return await self._call("GET", "/")

    async def create_room(
        self,
        name: str,
        *,
        private: bool = True,
        not_before: datetime | None = None,
        expires: datetime | None = None,
        max_participants: int | None = None,
        recording: Literal["cloud", "cloud-audio-only", "local", "raw-tracks"] | None = None,
        properties: Mapping[str, Any] | None = None,
    ) -> ServiceAnswer:
        """Create a room. The reference is its name, `detail["url"]` its address.

        A room of this name is returned as it is.
        """
        wanted: dict[str, Any] = {
            "nbf": _epoch(not_before),
            "exp": _epoch(expires),
            "max_participants": max_participants,
            "enable_recording": recording,
            **(properties or {}),
        }
        body = {
            "name": name,
            "privacy": "private" if private else "public",
            "properties": {key: value for key, value in wanted.items() if value is not None},
        }
        outcome = await self._call("POST", "/rooms", body, named="name")
        if isinstance(outcome, Refused) and "already exists" in str(outcome.detail.get("info")):
            existing = await self.get_room(name)
            return outcome if isinstance(existing, Absent) else existing
        return outcome

    async def get_room(self, name: str) -> Lookup:
        return await self._look_up(f"/rooms/{quote(name, safe='')}", named="name")

    async def delete_room(self, name: str) -> ServiceAnswer:
        """Delete a room. A room that does not exist counts as success, so this call may be repeated."""
        outcome = await self._call("DELETE", f"/rooms/{quote(name, safe='')}", named="name", window_s=_SLOW_WINDOW_S)
        if isinstance(outcome, Refused) and outcome.detail.get("status") == 404:
            return Accepted(name, {"deleted": False, "name": name})
        return outcome

    async def create_token(
        self,
        room: str,
        *,
        expires: datetime,
        user_id: str | None = None,
        user_name: str | None = None,
        is_owner: bool = False,
        not_before: datetime | None = None,
    ) -> ServiceAnswer:
        """Create a token that lets one person join a private room. `detail["token"]` is the token: keep it secret."""
        wanted: dict[str, Any] = {
            "room_name": room,
            "exp": _epoch(expires),
            "nbf": _epoch(not_before),
            "user_id": user_id,
            "user_name": user_name,
            "is_owner": is_owner,
        }
        properties = {key: value for key, value in wanted.items() if value is not None}
        return await self._call("POST", "/meeting-tokens", {"properties": properties})

    # -- recordings ------------------------------------------------------------------------------------------------

    async def list_recordings(self, *, room: str | None = None) -> ServiceAnswer:
        """Return all recordings, newest first, in `detail["recordings"]`, for webhooks that were lost."""
        query: dict[str, Any] = {"limit": PAGE} | ({"room_name": room} if room is not None else {})
        recordings: list[dict[str, Any]] = []
        while True:
            outcome = await self._call("GET", f"/recordings?{urlencode(query)}", window_s=_SLOW_WINDOW_S)
            if not isinstance(outcome, Accepted):
                return outcome
            page = objects(outcome.detail, "data")
            recordings += page
            if len(page) < PAGE:
                return Accepted(room, {"recordings": recordings})
            query["starting_after"] = page[-1].get("id")

    async def get_recording(self, recording_id: str) -> Lookup:
        return await self._look_up(f"/recordings/{quote(recording_id, safe='')}", named="id")

    async def recording_link(self, recording_id: str, *, valid_for_s: int = 3600) -> ServiceAnswer:
        """Return a link to download a recording in `detail["download_link"]`. Anybody with the link can download."""
        path = f"/recordings/{quote(recording_id, safe='')}/access-link?{urlencode({'valid_for_secs': valid_for_s})}"
        return await self._call("GET", path)

    async def delete_recording(self, recording_id: str) -> ServiceAnswer:
        """Delete a recording. A recording that does not exist counts as success."""
        outcome = await self._call("DELETE", f"/recordings/{quote(recording_id, safe='')}")
        if isinstance(outcome, Refused) and outcome.detail.get("status") == 404:
            return Accepted(recording_id, {"deleted": False})
        return outcome

    # -- webhooks --------------------------------------------------------------------------------------------------

    async def create_webhook(
        self,
        url: str,
        *,
        event_types: Sequence[str],
        hmac: str | None = None,
        retry_type: Literal["circuit-breaker", "exponential"] = "exponential",
    ) -> ServiceAnswer:
        """Register a webhook. The reference is its uuid, `detail["hmac"]` the secret that verifies its signatures.

        Daily sends a test request first and refuses a URL that does not answer 200. `hmac` is base64.
        """
        body: dict[str, Any] = {"url": url, "eventTypes": list(event_types), "retryType": retry_type}
        if hmac is not None:
            body["hmac"] = hmac
        return await self._call("POST", "/webhooks", body, named="uuid")

    async def list_webhooks(self) -> ServiceAnswer:
        """Return the webhooks in `detail["webhooks"]`. One whose `state` is `FAILED` receives nothing any more."""
        return await self._call("GET", "/webhooks")

    async def reactivate_webhook(self, uuid: str, *, url: str) -> ServiceAnswer:
        """Turn a failed webhook on again. Daily tests the URL first."""
        return await self._call("POST", f"/webhooks/{quote(uuid, safe='')}", {"url": url}, named="uuid")

    async def delete_webhook(self, uuid: str) -> ServiceAnswer:
        return await self._call("DELETE", f"/webhooks/{quote(uuid, safe='')}")

    async def _look_up(self, path: str, *, named: str) -> Lookup:
        outcome = await self._call("GET", path, named=named)
        if isinstance(outcome, Refused) and outcome.detail.get("status") == 404:
            return Absent()
        return outcome

    async def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        named: str | None = None,
        window_s: float = _WINDOW_S,
    ) -> ServiceAnswer:
        headers = {"Authorization": f"Bearer {self.api_key}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        return await call(
            self.client,
            method,
            f"{self.base_url}/v1{path}",
            headers=headers,
            body=None if body is None else write_json(body),
            judge=lambda response: judge(response, named=named, window_s=window_s),
            timeout_s=self.timeout_s,
        )


def judge(response: Response, *, named: str | None = None, window_s: float = _WINDOW_S) -> ServiceAnswer:
    if response.ok:
        answer = _read(response)
        return accepted(answer.get(named) if named else None, answer)
    answer = read_json(response)
    # `info` may contain the name of a room, so only the error's type is in the reason.
    reason = short_reason(f"HTTP {response.status}", answer.get("error"))
    detail = {"status": response.status, "error": answer.get("error"), "info": answer.get("info")}
    if response.status in (401, 403) or answer.get("error") == "authorization-header-error":
        return Refused(reason, permanent=False, account=True, detail=detail)
    failed = judge_failure(response, repeatable=True, reason=reason)
    match failed:
        case Throttled(retry_after_s=None):
            return Throttled(window_s)
        case Refused(permanent=permanent, retry_after_s=retry_after_s):
            return Refused(reason, permanent=permanent, retry_after_s=retry_after_s, detail=detail)
        case _:
            return failed


def _read(response: Response) -> dict[str, Any]:
    """Return the answer as an object. The list of webhooks is a bare list."""
    try:
        value = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return {}
    return {"webhooks": value} if isinstance(value, list) else read_json(response)


def _epoch(moment: datetime | None) -> int | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone: pass an aware datetime")
    return int(moment.timestamp())

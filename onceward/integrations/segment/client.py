"""Segment: send calls in batches. `messageId` drops repeats.

Segment answers 200 to a batch that is too large and drops it.
"""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, ClassVar, Literal, Self

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, call, judge_failure, read_json, short_reason, unverified, write_json
from onceward.services.outcome import Accepted, Refused, ServiceAnswer, Unknown

BASE_URLS = {"us": "https://api.segment.io", "eu": "https://events.eu1.segmentapis.com"}

MAX_EVENTS = 2500
MAX_BODY_BYTES = 500_000
MAX_EVENT_BYTES = 32_000
MAX_MESSAGE_ID = 99


@dataclass(frozen=True, slots=True)
class SegmentCall:
    """One track or identify call, made by a known user or by an anonymous visitor."""

    key: str
    type: Literal["track", "identify"]
    at: datetime
    user_id: str | None = field(default=None, repr=False)
    anonymous_id: str | None = field(default=None, repr=False)
    event: str | None = None
    values: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)


@dataclass(frozen=True, slots=True)
class Segment:
    """Sends calls with one source's write key. For Europe, set `base_url` to events.eu1.segmentapis.com."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    write_key: str = field(repr=False)
    base_url: str = BASE_URLS["us"]
    timeout_s: float = 15.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["write_key"], base_url=account.url or BASE_URLS[account.settings.region])

    async def check(self) -> ServiceAnswer:
        """Send an empty batch."""
        answer = await self._post(b'{"batch":[]}')
        return unverified("Segment accepts every write key") if isinstance(answer, Accepted) else answer

    async def send(self, calls: Sequence[SegmentCall]) -> ServiceAnswer:
        """Send a batch. Refuse it without sending if it exceeds Segment's limits."""
        if not calls:
            return Accepted(None, {"sent": 0})
        if len(calls) > MAX_EVENTS:
            return Refused(f"batch has {len(calls)} calls, Segment takes {MAX_EVENTS}", permanent=True)
        packed: list[bytes] = []
        for item in calls:
            if (fault := _fault(item)) is not None:
                return Refused(fault, permanent=True)
            line = write_json(_written(item))
            if len(line) > MAX_EVENT_BYTES:
                return Refused(
                    f"call {item.key!r} has {len(line)} bytes, Segment takes {MAX_EVENT_BYTES}",
                    permanent=True,
                )
            packed.append(line)
        body = b'{"batch":[' + b",".join(packed) + b"]}"
        if len(body) > MAX_BODY_BYTES:
            return Refused(f"batch has {len(body)} bytes, Segment takes {MAX_BODY_BYTES}", permanent=True)
        return await self._post(body)

    async def _post(self, body: bytes) -> ServiceAnswer:
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/v1/batch",
            headers={
                "Authorization": "Basic " + b64encode(f"{self.write_key}:".encode()).decode("ascii"),
                "Content-Type": "application/json",
            },
            body=body,
            judge=judge,
            timeout_s=self.timeout_s,
        )


def message_id(key: str) -> str:
    """Return the key, or its hash if the key is too long for Segment."""
    return key if len(key) <= MAX_MESSAGE_ID else sha256(key.encode()).hexdigest()


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok and answer.get("success") is True:
        return Accepted()
    if response.ok:
        return Unknown("Segment answered 200 without success")
    return judge_failure(response, repeatable=True, reason=short_reason(f"HTTP {response.status}", answer.get("code")))


def _fault(item: SegmentCall) -> str | None:
    if item.user_id is None and item.anonymous_id is None:
        return f"call {item.key!r} has neither user_id nor anonymous_id"
    if item.type == "track" and not item.event:
        return f"call {item.key!r} tracks no event; give it a name"
    return None


def _written(item: SegmentCall) -> dict[str, Any]:
    written: dict[str, Any] = {
        "type": item.type,
        "messageId": message_id(item.key),
        "timestamp": item.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "properties" if item.type == "track" else "traits": dict(item.values),
    }
    if item.event:
        written["event"] = item.event
    if item.user_id is not None:
        written["userId"] = item.user_id
    if item.anonymous_id is not None:
        written["anonymousId"] = item.anonymous_id
    return written

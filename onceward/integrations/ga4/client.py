"""Google Analytics 4, Measurement Protocol. It answers 2xx to every request and silently drops what exceeds a limit,
so this client checks the limits."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, call, judge_failure, unverified, write_json
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

BASE_URL = "https://www.google-analytics.com"

MAX_EVENTS = 25
MAX_PARAMS = 25
MAX_USER_PROPERTIES = 25
MAX_NAME_CHARACTERS = 40
MAX_VALUE_CHARACTERS = 100
MAX_BODY_BYTES = 130_000
MAX_AGE = timedelta(hours=72)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")


@dataclass(frozen=True, slots=True)
class Ga4Event:
    """One event with its parameters."""

    name: str
    params: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Ga4:
    """Sends to one measurement id. Only `purchase` is deduplicated, by its `transaction_id`."""

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    measurement_id: str
    api_secret: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 10.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["measurement_id"], account["api_secret"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Let Google validate an event, which it does not record."""
        body = b'{"client_id":"onceward-check","events":[{"name":"check","params":{}}]}'
        answer = await self._post("/debug/mp/collect", body)
        if isinstance(answer, Accepted):
            return unverified("Google checks the form of events, but neither the measurement id nor the API secret")
        return answer

    async def send(
        self,
        events: Sequence[Ga4Event],
        *,
        client_id: str,
        user_id: str | None = None,
        user_properties: Mapping[str, Any] | None = None,
        at: datetime | None = None,
    ) -> ServiceAnswer:
        """Send up to 25 events of one visitor."""
        body: dict[str, Any] = {
            "client_id": client_id,
            "events": [{"name": event.name, "params": dict(event.params)} for event in events],
        }
        if user_id is not None:
            body["user_id"] = user_id
        if user_properties:
            body["user_properties"] = {name: {"value": value} for name, value in user_properties.items()}
        if at is not None:
            body["timestamp_micros"] = int(at.timestamp() * 1_000_000)
        packed = write_json(body)
        fault = over_limit(events, user_properties or {}, at=at) or _too_large(packed)
        if fault is not None:
            return Refused(fault, permanent=True)
        return await self._post("/mp/collect", packed)

    async def _post(self, path: str, body: bytes) -> ServiceAnswer:
        query = urlencode({"measurement_id": self.measurement_id, "api_secret": self.api_secret})
        return await call(
            self.client,
            "POST",
            f"{self.base_url}{path}?{query}",
            headers={"Content-Type": "application/json"},
            body=body,
            judge=judge,
            timeout_s=self.timeout_s,
        )


def judge(response: Response) -> ServiceAnswer:
    return Accepted() if response.ok else judge_failure(response, repeatable=False)


def over_limit(
    events: Sequence[Ga4Event], user_properties: Mapping[str, Any], *, at: datetime | None = None
) -> str | None:
    """Describe the first limit that a request exceeds. Return None if Google accepts all of it."""
    if not 1 <= len(events) <= MAX_EVENTS:
        return f"request has {len(events)} events, GA4 takes 1 to {MAX_EVENTS}"
    if len(user_properties) > MAX_USER_PROPERTIES:
        return f"request has {len(user_properties)} user properties, GA4 takes {MAX_USER_PROPERTIES}"
    if at is not None and datetime.now(UTC) - at > MAX_AGE:
        return f"event is from {at.isoformat()}, GA4 takes {MAX_AGE.total_seconds() / 3600:.0f} h back"
    for event in events:
        if len(event.params) > MAX_PARAMS:
            return f"event {event.name!r} has {len(event.params)} params, GA4 takes {MAX_PARAMS}"
        for name in (event.name, *event.params):
            if len(name) > MAX_NAME_CHARACTERS or not _NAME.match(name):
                return f"name {name[:60]!r}: GA4 takes letters, digits and _, at most {MAX_NAME_CHARACTERS}"
        for name, value in event.params.items():
            if isinstance(value, str) and len(value) > MAX_VALUE_CHARACTERS:
                return f"param {name!r} has {len(value)} characters, GA4 takes {MAX_VALUE_CHARACTERS}"
    return None


def _too_large(packed: bytes) -> str | None:
    if len(packed) > MAX_BODY_BYTES:
        return f"request has {len(packed)} bytes, GA4 takes {MAX_BODY_BYTES}"
    return None

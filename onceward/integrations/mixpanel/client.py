"""Mixpanel: events imported in batches; `$insert_id` drops repeats of the same event, time and person."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, ClassVar, Self
from urllib.parse import urlencode

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.analytics import AnalyticsEvent, send_batch
from onceward.services.call import Client, Judge, judge_failure, objects, read_json, short_reason, write_json
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

BASE_URLS = {
    "us": "https://api.mixpanel.com",
    "eu": "https://api-eu.mixpanel.com",
    "in": "https://api-in.mixpanel.com",
}

MAX_EVENTS = 2000
MAX_BODY_BYTES = 10_000_000
MAX_EVENT_BYTES = 1_000_000
MAX_PROPERTIES = 255
MAX_INSERT_ID = 36


@dataclass(frozen=True, slots=True)
class Mixpanel:
    """Imports events with a project's token, or with a service account (`username`, `secret`) and project id."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    secret: str = field(repr=False)
    username: str | None = None
    project_id: str | None = None
    base_url: str = BASE_URLS["us"]
    timeout_s: float = 30.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(
            http,
            account["secret"],
            username=account.get("username"),
            project_id=account.get("project_id"),
            base_url=account.url or BASE_URLS[account.settings.region],
        )

    async def check(self) -> ServiceAnswer:
        """Import no events. Mixpanel checks the credentials before the events."""
        return await self._post(b"[]", judge=judge_check)

    async def import_events(self, events: Sequence[AnalyticsEvent]) -> ServiceAnswer:
        """Import up to 2000 events. If Mixpanel refuses some of them, `detail["failed"]` has their positions."""
        packed: list[bytes] = []
        for event in events:
            line = write_json(_written(event))
            if len(event.properties) > MAX_PROPERTIES or len(line) > MAX_EVENT_BYTES:
                return Refused(
                    f"event {event.name!r} has {len(event.properties)} properties and {len(line)} bytes, "
                    f"Mixpanel takes {MAX_PROPERTIES} and {MAX_EVENT_BYTES}",
                    permanent=True,
                )
            packed.append(line)
        body = b"[" + b",".join(packed) + b"]"
        if not events:
            return Accepted(None, {"imported": 0})
        if len(events) > MAX_EVENTS or len(body) > MAX_BODY_BYTES:
            return Refused(
                f"batch has {len(events)} events and {len(body)} bytes, "
                f"Mixpanel takes {MAX_EVENTS} and {MAX_BODY_BYTES}",
                permanent=True,
            )
        return await self._post(body, judge=judge)

    async def _post(self, body: bytes, *, judge: Judge) -> ServiceAnswer:
        query = {"strict": "1"} | ({"project_id": self.project_id} if self.project_id else {})
        login = f"{self.username}:{self.secret}" if self.username else f"{self.secret}:"
        return await send_batch(
            self.client,
            f"{self.base_url}/import?{urlencode(query)}",
            body,
            headers={"Authorization": "Basic " + b64encode(login.encode()).decode("ascii")},
            judge=judge,
            timeout_s=self.timeout_s,
        )


def insert_id(key: str) -> str:
    """Convert a key to the characters and length that Mixpanel accepts."""
    return sha256(key.encode()).hexdigest()[:MAX_INSERT_ID]


def judge_check(response: Response) -> ServiceAnswer:
    """A 400 concerns the empty batch, so the credentials were accepted."""
    return Accepted() if response.status == 400 else judge(response)


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok:
        return Accepted(None, {"imported": answer.get("num_records_imported")})
    reason = short_reason(f"HTTP {response.status}", answer.get("error"))
    failed = [record["index"] for record in objects(answer, "failed_records") if "index" in record]
    if response.status == 400:
        return Refused(reason, permanent=True, detail={"failed": failed})
    return judge_failure(response, repeatable=True, reason=reason)


def _written(event: AnalyticsEvent) -> dict[str, Any]:
    return {
        "event": event.name,
        "properties": {
            **event.properties,
            "time": int(event.at.timestamp() * 1000),
            "distinct_id": event.distinct_id,
            "$insert_id": insert_id(event.key),
        },
    }

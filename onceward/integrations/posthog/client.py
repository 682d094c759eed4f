"""PostHog: capture events in batches. Events with the same uuid, name, time and person are eventually merged.

PostHog answers 200 to events without a name or person, so this client refuses them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any, ClassVar, Self
from uuid import NAMESPACE_URL, UUID, uuid5

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.analytics import AnalyticsEvent, send_batch
from onceward.services.call import Client, judge_failure, read_json, short_reason, write_json
from onceward.services.outcome import Accepted, Refused, ServiceAnswer

BASE_URL = "https://us.i.posthog.com"

MAX_BODY_BYTES = 20_000_000
MAX_NAME_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class PostHog:
    """Captures events with one project's token. `historical` marks events older than two days."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    project_token: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 15.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["project_token"], base_url=account.url or account.settings.url)

    async def check(self) -> ServiceAnswer:
        """Ask for the feature flags of nobody.

        PostHog answers 401 to a token that it does not know, and stores nothing.
        """
        body = write_json({"api_key": self.project_token, "distinct_id": "onceward-check"})
        return await send_batch(self.client, f"{self.base_url}/flags?v=2", body, judge=judge, timeout_s=self.timeout_s)

    async def capture(self, events: Sequence[AnalyticsEvent], *, historical: bool = False) -> ServiceAnswer:
        if not events:
            return Accepted(None, {"captured": 0})
        for event in events:
            if not event.name or len(event.name) > MAX_NAME_CHARACTERS or not event.distinct_id:
                return Refused(
                    f"event {event.key!r} needs a distinct_id and a name up to {MAX_NAME_CHARACTERS} long",
                    permanent=True,
                )
        body = write_json(
            {
                "api_key": self.project_token,
                "historical_migration": historical,
                "batch": [_written(event) for event in events],
            }
        )
        if len(body) > MAX_BODY_BYTES:
            return Refused(f"batch has {len(body)} bytes, PostHog takes {MAX_BODY_BYTES}", permanent=True)
        return await send_batch(self.client, f"{self.base_url}/batch/", body, judge=judge, timeout_s=self.timeout_s)


def event_uuid(key: str) -> UUID:
    """Return a uuid that depends only on the key."""
    return uuid5(NAMESPACE_URL, f"onceward:{key}")


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok and (limited := answer.get("quota_limited")):
        # The project's quota is used up: PostHog drops events although it answers 200.
        return Refused(short_reason("PostHog quota is used up", limited), permanent=False, retry_after_s=3600.0)
    if response.ok:
        return Accepted()
    return judge_failure(response, repeatable=True, reason=short_reason(f"HTTP {response.status}", answer.get("code")))


def _written(event: AnalyticsEvent) -> dict[str, Any]:
    return {
        "event": event.name,
        "uuid": str(event_uuid(event.key)),
        "timestamp": event.at.astimezone(UTC).isoformat(),
        "properties": {**event.properties, "distinct_id": event.distinct_id},
    }

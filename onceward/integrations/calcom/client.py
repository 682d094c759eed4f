"""Cal.com v2: bookings. It has no idempotency keys; ours is stored in the booking's metadata, for a lookup."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar, Self
from urllib.parse import quote, urlencode

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import (
    Client,
    accepted,
    call,
    inner,
    judge_failure,
    objects,
    read_json,
    short_reason,
    write_json,
)
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer, Throttled

BASE_URL = "https://api.cal.com"

KEY_METADATA = "externalId"
_MAX_METADATA_CHARACTERS = 500
# Cal.com blocks an API key for a minute after it exceeds its limit.
_BLOCK_S = 60.0


@dataclass(frozen=True, slots=True)
class Attendee:
    """Who a booking is for."""

    name: str
    email: str
    time_zone: str = "UTC"
    language: str = "en"


@dataclass(frozen=True, slots=True)
class CalCom:
    """Calls Cal.com with one API key."""

    repeatable: ClassVar[bool] = False

    client: Client = field(repr=False)
    api_key: str = field(repr=False)
    base_url: str = BASE_URL
    api_version: str = "2024-08-13"
    timeout_s: float = 30.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["api_key"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the profile of the key's owner."""
        return await self._get("/v2/me")

    async def create_booking(
        self,
        *,
        key: str,
        event_type_id: int,
        start: datetime,
        attendee: Attendee,
        metadata: Mapping[str, str] | None = None,
        responses: Mapping[str, Any] | None = None,
    ) -> ServiceAnswer:
        """Create a booking. The reference is its uid. After Unknown, call `find_booking` before a retry."""
        if len(key) > _MAX_METADATA_CHARACTERS:
            raise ValueError(f"key must have at most {_MAX_METADATA_CHARACTERS} characters, not {len(key)}")
        body: dict[str, Any] = {
            "start": _utc(start),
            "eventTypeId": event_type_id,
            "attendee": {
                "name": attendee.name,
                "email": attendee.email,
                "timeZone": attendee.time_zone,
                "language": attendee.language,
            },
            "metadata": {**(metadata or {}), KEY_METADATA: key},
        }
        if responses:
            body["bookingFieldsResponses"] = dict(responses)
        return await self._post("/v2/bookings", body)

    async def find_booking(self, *, key: str, attendee_email: str, event_type_id: int) -> Lookup:
        """Return the booking that was created with a key."""
        query = urlencode({"attendeeEmail": attendee_email, "eventTypeId": event_type_id, "take": 100})
        outcome = await self._get(f"/v2/bookings?{query}")
        if not isinstance(outcome, Accepted):
            return outcome
        for booking in objects(outcome.detail, "items"):
            if inner(booking, "metadata").get(KEY_METADATA) == key:
                return accepted(booking.get("uid"), booking)
        return Absent()

    async def get_booking(self, uid: str) -> ServiceAnswer:
        return await self._get(f"/v2/bookings/{quote(uid, safe='')}")

    async def cancel_booking(self, uid: str, *, reason: str) -> ServiceAnswer:
        """Cancel a booking. An already cancelled booking counts as success, so this call may be repeated."""
        outcome = await self._post(f"/v2/bookings/{quote(uid, safe='')}/cancel", {"cancellationReason": reason})
        if isinstance(outcome, Refused) and "already" in outcome.reason and "cancel" in outcome.reason:
            return Accepted(uid, {"status": "cancelled", "already": True})
        return outcome

    async def reschedule_booking(self, uid: str, *, start: datetime, reason: str) -> ServiceAnswer:
        """Move a booking. The reference is the new booking's uid; the old booking stays as cancelled."""
        body = {"start": _utc(start), "reschedulingReason": reason}
        return await self._post(f"/v2/bookings/{quote(uid, safe='')}/reschedule", body)

    async def confirm_booking(self, uid: str) -> ServiceAnswer:
        return await self._post(f"/v2/bookings/{quote(uid, safe='')}/confirm", {})

    async def decline_booking(self, uid: str, *, reason: str) -> ServiceAnswer:
        return await self._post(f"/v2/bookings/{quote(uid, safe='')}/decline", {"reason": reason})

    async def mark_absent(self, uid: str, *, emails: list[str], host: bool = False) -> ServiceAnswer:
        absent = [{"email": email, "absent": True} for email in emails]
        return await self._post(f"/v2/bookings/{quote(uid, safe='')}/mark-absent", {"host": host, "attendees": absent})

    async def _post(self, path: str, body: Mapping[str, Any]) -> ServiceAnswer:
        return await call(
            self.client,
            "POST",
            f"{self.base_url}{path}",
            headers={**self._headers(), "Content-Type": "application/json"},
            body=write_json(body),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def _get(self, path: str) -> ServiceAnswer:
        return await call(
            self.client,
            "GET",
            f"{self.base_url}{path}",
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}", "cal-api-version": self.api_version}


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    if response.ok and answer.get("status") == "success":
        data = answer.get("data")
        if isinstance(data, list):
            return Accepted(None, {"items": data})
        booking = inner(answer, "data")
        return accepted(booking.get("uid"), booking)
    error = inner(answer, "error")
    message = error.get("message") or answer.get("message") or "no success in the answer"
    reason = short_reason(f"HTTP {response.status}", error.get("code"), message)
    if response.ok:
        return Refused(reason, permanent=True)
    failure = judge_failure(response, repeatable=False, reason=reason)
    if isinstance(failure, Throttled) and failure.retry_after_s is None:
        return Throttled(_BLOCK_S)
    return failure


def _utc(moment: datetime) -> str:
    if moment.tzinfo is None:
        raise ValueError(f"start {moment.isoformat()} has no time zone: pass an aware datetime")
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

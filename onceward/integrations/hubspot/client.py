"""HubSpot: contacts and deals upserted in batches by a unique property, so repeating changes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, cast
from urllib.parse import quote

from onceward.http import Response
from onceward.services.accounts import ServiceAccount
from onceward.services.call import Client, call, inner, judge_failure, objects, read_json, short_reason, write_json
from onceward.services.outcome import Accepted, Refused, ServiceAnswer, Throttled

BASE_URL = "https://api.hubapi.com"

MAX_INPUTS = 100
# The rate limit applies to ten seconds. After a response without Retry-After we wait for the next ten.
_WINDOW_S = 10.0


@dataclass(frozen=True, slots=True)
class CrmRecord:
    """One object. `id` is the value of its unique property."""

    id: str = field(repr=False)
    properties: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class HubSpot:
    """Calls HubSpot with one private app's token."""

    repeatable: ClassVar[bool] = True

    client: Client = field(repr=False)
    token: str = field(repr=False)
    base_url: str = BASE_URL
    timeout_s: float = 30.0

    @classmethod
    def connect(cls, http: Client, account: ServiceAccount) -> Self:
        return cls(http, account["token"], base_url=account.url or BASE_URL)

    async def check(self) -> ServiceAnswer:
        """Read the details of the account, which every app may do."""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/account-info/v3/details",
            headers={"Authorization": f"Bearer {self.token}"},
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def upsert(
        self, object_type: str, records: Sequence[CrmRecord], *, id_property: str = "email"
    ) -> ServiceAnswer:
        """Create or update up to 100 records.

        The outcome is Accepted only if all records succeed. If some fail it is Refused, with their positions in
        `detail["failed"]` and HubSpot's ids of the others in `detail["upserted"]`. It is permanent if
        every failed record has invalid data.
        """
        if not records:
            return Accepted(None, {"upserted": []})
        if len(records) > MAX_INPUTS:
            return Refused(f"batch has {len(records)} records, HubSpot takes {MAX_INPUTS}", permanent=True)
        inputs = [
            {
                "id": record.id,
                "idProperty": id_property,
                "properties": dict(record.properties),
                # An error contains this value, so it identifies the record.
                "objectWriteTraceId": str(position),
            }
            for position, record in enumerate(records)
        ]
        return await call(
            self.client,
            "POST",
            f"{self.base_url}/crm/v3/objects/{quote(object_type, safe='')}/batch/upsert",
            headers={"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            body=write_json({"inputs": inputs}),
            judge=judge,
            timeout_s=self.timeout_s,
        )


def judge(response: Response) -> ServiceAnswer:
    answer = read_json(response)
    upserted = [str(item["id"]) for item in objects(answer, "results") if item.get("id")]
    errors = objects(answer, "errors")
    if response.ok and not errors and not answer.get("numErrors"):
        return Accepted(None, {"upserted": upserted})
    if response.ok:
        return _partly(errors, upserted)
    reason = short_reason(f"HTTP {response.status}", answer.get("category"))
    failure = judge_failure(response, repeatable=True, reason=reason)
    if isinstance(failure, Throttled) and failure.retry_after_s is None:
        return Throttled(_WINDOW_S)
    return failure


def _partly(errors: Sequence[Mapping[str, Any]], upserted: list[str]) -> Refused:
    failed: set[int] = set()
    for error in errors:
        traces = error.get("objectWriteTraceId") or inner(error, "context").get("objectWriteTraceId")
        for trace in cast("list[Any]", traces) if isinstance(traces, list) else [traces]:
            if isinstance(trace, str) and trace.isdecimal():
                failed.add(int(trace))
    categories = sorted({str(error.get("category") or "UNKNOWN") for error in errors})
    return Refused(
        short_reason(f"{len(errors)} of a batch failed", ", ".join(categories)),
        permanent=bool(errors) and all(category in _DATA_AT_FAULT for category in categories),
        detail={"failed": sorted(failed), "upserted": upserted},
    )


_DATA_AT_FAULT = frozenset({"VALIDATION_ERROR", "OBJECT_NOT_FOUND", "CONFLICT", "INVALID_PARAMETER"})

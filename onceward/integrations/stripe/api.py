"""Call Stripe's API: authorization, idempotency keys, lists page by page, and the meaning of each response."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

from onceward.http import Response
from onceward.services.call import (
    Client,
    accepted,
    call,
    flatten_form,
    inner,
    judge_payment_failure,
    objects,
    read_json,
    short_reason,
    write_form,
)
from onceward.services.outcome import Absent, Accepted, Lookup, Refused, ServiceAnswer

BASE_URL = "https://api.stripe.com"

KEY_METADATA = "onceward_key"
MAX_KEY_CHARACTERS = 255
PAGE_OBJECTS = 100
"""The largest page of a list."""


@dataclass(frozen=True, slots=True)
class StripeApi:
    """Calls Stripe's API with one secret key. With `account` it acts for a connected account."""

    client: Client = field(repr=False)
    secret_key: str = field(repr=False)
    base_url: str = BASE_URL
    api_version: str | None = None
    account: str | None = None
    timeout_s: float = 30.0

    async def create(self, path: str, fields: Mapping[str, Any], *, key: str, method: str = "POST") -> ServiceAnswer:
        if not 0 < len(key) <= MAX_KEY_CHARACTERS:
            raise ValueError(f"key must have 1 to {MAX_KEY_CHARACTERS} characters, not {len(key)}")
        headers = {
            **self._headers(),
            "Idempotency-Key": key,
            "Content-Type": "application/x-www-form-urlencoded",
        }
        return await call(
            self.client,
            method,
            f"{self.base_url}/v1/{path}",
            headers=headers,
            body=write_form(flatten_form(fields)),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def get(self, path: str, fields: Mapping[str, Any] | None = None) -> ServiceAnswer:
        query = f"?{urlencode(flatten_form(fields))}" if fields else ""
        return await call(
            self.client,
            "GET",
            f"{self.base_url}/v1/{path}{query}",
            headers=self._headers(),
            judge=judge,
            timeout_s=self.timeout_s,
        )

    async def list_all(
        self, path: str, fields: Mapping[str, Any], name: str, *, reference: str | None
    ) -> ServiceAnswer:
        """Return all objects of a list, page by page, in `detail[name]`, newest first."""
        query = {**fields, "limit": PAGE_OBJECTS}
        listed: list[dict[str, Any]] = []
        while True:
            answer = await self.get(path, query)
            if not isinstance(answer, Accepted):
                return answer
            page = objects(answer.detail, "data")
            listed += page
            if not answer.detail.get("has_more") or not page:
                return Accepted(reference, {name: listed})
            query["starting_after"] = page[-1].get("id")

    async def list_after(self, path: str, fields: Mapping[str, Any], name: str, *, after: str | None) -> ServiceAnswer:
        """Return the next page after an object, or the oldest page, in `detail[name]`, oldest first; and `has_more`.

        Stripe lists the newest first, so the oldest page is found by reading all. Each further page is one call.
        """
        query = {**fields, "limit": PAGE_OBJECTS} | ({} if after is None else {"ending_before": after})
        has_newer = False
        while True:
            answer = await self.get(path, query)
            if not isinstance(answer, Accepted):
                return answer
            page, has_more = objects(answer.detail, "data"), bool(answer.detail.get("has_more"))
            if after is not None or not has_more:
                return Accepted(after, {name: page[::-1], "has_more": has_more if after is not None else has_newer})
            has_newer, query["starting_after"] = True, page[-1].get("id")

    async def find(self, path: str, fields: Mapping[str, Any], *, key: str) -> Lookup:
        """Search a list, page by page, for the object with the key in its metadata."""
        query = dict(fields)
        while True:
            answer = await self.get(path, query)
            if not isinstance(answer, Accepted):
                return answer
            listed = objects(answer.detail, "data")
            for item in listed:
                if inner(item, "metadata").get(KEY_METADATA) == key:
                    return accepted(item.get("id"), item)
            if not answer.detail.get("has_more") or not listed:
                return Absent()
            if next_page := answer.detail.get("next_page"):
                query["page"] = next_page
            else:
                query["starting_after"] = listed[-1].get("id")

    def _headers(self) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.secret_key}"}
        if self.api_version:
            headers["Stripe-Version"] = self.api_version
        if self.account:
            headers["Stripe-Account"] = self.account
        return headers


def judge(response: Response) -> ServiceAnswer:
    """Convert a response. `Stripe-Should-Retry` decides if it is present.

    A 409 means that a call with the same key still runs.
    """
    answer = read_json(response)
    if response.ok:
        is_replay = response.headers.get("idempotent-replayed") == "true"
        return replace(accepted(answer.get("id"), answer), is_replay=is_replay)
    error = inner(answer, "error") | {"replayed": response.headers.get("idempotent-replayed") == "true"}
    reason = short_reason(f"HTTP {response.status}", error.get("code") or error.get("type"), error.get("message"))
    failure = judge_payment_failure(response, reason)
    if not isinstance(failure, Refused):
        return failure
    if failure.account:
        return replace(failure, detail=error)
    match response.headers.get("stripe-should-retry", "").lower():
        case "true":
            return replace(failure, permanent=False, detail=error)
        case "false":
            return replace(failure, permanent=True, detail=error)
        case _:
            return replace(failure, detail=error)

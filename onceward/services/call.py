"""Make one HTTP call to a service and convert every possible result to an ServiceAnswer."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, cast
from urllib.parse import urlencode

import orjson

from onceward.http import Ambiguous, HostUnreachable, Response, UrlRefused

from .outcome import Accepted, Refused, ServiceAnswer, Throttled, Unknown, Unreachable

MAX_RETRY_AFTER_S = 24 * 3600.0
_REASON_CHARACTERS = 300


class Client(Protocol):
    """The HTTP client of a service: a ServiceClient, or a GuardedClient if the URL comes from data."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response: ...


Judge = Callable[[Response], ServiceAnswer]


async def call(
    client: Client,
    method: str,
    url: str,
    *,
    judge: Judge,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float | None = None,
) -> ServiceAnswer:
    """Send a request once and let `judge` convert the response. A failure of the service never raises."""
    try:
        response = await client.request(method, url, headers=headers, body=body, timeout_s=timeout_s)
    except UrlRefused as error:
        return Refused(error.reason, permanent=True)
    except HostUnreachable as error:
        return Unreachable(error.reason)
    except Ambiguous as error:
        return Unknown(error.reason)
    return judge(response)


def judge_failure(response: Response, *, repeatable: bool, reason: str | None = None) -> ServiceAnswer:
    """Convert a response that is not a success, by the rule for services without their own.

    A 500, 502 or 504 may be sent after the service has acted (a gateway timed out while the server continued). Without
    an idempotency key the outcome is Unknown. A 503 means that the service did not act.
    """
    why = reason or f"HTTP {response.status}"
    retry_after_s = retry_after(response.headers)
    match response.status:
        case 429:
            return Throttled(retry_after_s)
        case 503 | 425:
            return Refused(why, permanent=False, retry_after_s=retry_after_s)
        case 408 | 409 if repeatable:
            return Refused(why, permanent=False, retry_after_s=retry_after_s)
        case 408:
            return Unknown(why)
        case status if status >= 500:
            if repeatable:
                return Refused(why, permanent=False, retry_after_s=retry_after_s)
            return Unknown(why)
        case _:
            return Refused(why, permanent=True)


def judge_payment_failure(response: Response, reason: str) -> ServiceAnswer:
    """Convert a failure of a payment service. It is repeatable, and a 401 or 403 concerns the account, not the
    payment."""
    if response.status in (401, 403):
        return Refused(reason, permanent=False, account=True)
    return judge_failure(response, repeatable=True, reason=reason)


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Return the seconds to wait from a Retry-After header (a number or a date), at most one day."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            until = parsedate_to_datetime(text)
        except ValueError:
            return None
        if until.tzinfo is None:
            until = until.replace(tzinfo=UTC)
        seconds = (until - (now or datetime.now(UTC))).total_seconds()
    if not seconds >= 0:
        return 0.0
    return min(seconds, MAX_RETRY_AFTER_S)


def read_json(response: Response) -> dict[str, Any]:
    """Return the body as a JSON object, or an empty object if it is anything else."""
    try:
        value = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def inner(value: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """Return the object at a path of a response, or an empty object if it is missing."""
    current: Any = value
    for name in path:
        current = cast("dict[str, Any]", current).get(name) if isinstance(current, dict) else None
    return cast("dict[str, Any]", current) if isinstance(current, dict) else {}


def objects(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of objects under a name, or an empty list if it is missing."""
    items = value.get(name)
    if not isinstance(items, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[Any]", items) if isinstance(item, dict)]


def short_reason(*parts: object) -> str:
    """Join parts of a response to one short line that states the reason."""
    text = ": ".join(str(part) for part in parts if part not in (None, ""))
    return " ".join(text.split())[:_REASON_CHARACTERS]


def write_json(value: object) -> bytes:
    return orjson.dumps(value)


def flatten_form(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return nested values as form fields with brackets (`line_items[0][quantity]`). None is left out."""
    fields: list[tuple[str, str]] = []

    def add(name: str, item: Any) -> None:
        if item is None:
            return
        if isinstance(item, Mapping):
            for key, part in cast("Mapping[str, Any]", item).items():
                add(f"{name}[{key}]", part)
        elif isinstance(item, Sequence) and not isinstance(item, str | bytes):
            for index, part in enumerate(cast("Sequence[Any]", item)):
                add(f"{name}[{index}]", part)
        elif isinstance(item, bool):
            fields.append((name, "true" if item else "false"))
        else:
            fields.append((name, str(item)))

    for name, item in value.items():
        add(name, item)
    return fields


def write_form(fields: Sequence[tuple[str, str]]) -> bytes:
    return urlencode(fields).encode("ascii")


def accepted(reference: object, detail: Mapping[str, Any]) -> Accepted:
    return Accepted(str(reference) if reference not in (None, "") else None, detail)


def unverified(reason: str) -> Accepted:
    """Return the answer of a `check()` that reached the service, which does not say if the credentials are right."""
    return Accepted(None, {"unverified": reason})

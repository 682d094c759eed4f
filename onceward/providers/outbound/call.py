"""One HTTP call to a service, with every way it can end put into an Outcome by one rule."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, cast
from urllib.parse import urlencode

import orjson

from onceward.http import Ambiguous, Response, UrlRefused
from onceward.http import Unreachable as NotSent

from .outcome import Accepted, Outcome, Refused, Throttled, Unknown, Unreachable

MAX_RETRY_AFTER_S = 24 * 3600.0
_REASON_CHARACTERS = 300


class Client(Protocol):
    """What a service is called through: a ServiceClient, or a GuardedClient where the URL came from data."""

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        timeout_s: float | None = None,
    ) -> Response: ...


Judge = Callable[[Response], Outcome]


async def call(
    client: Client,
    method: str,
    url: str,
    *,
    judge: Judge,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    timeout_s: float | None = None,
) -> Outcome:
    """Send once and let `judge` read the answer. Never raises for anything the outside does."""
    try:
        response = await client.request(method, url, headers=headers, body=body, timeout_s=timeout_s)
    except UrlRefused as error:
        return Refused(error.reason, permanent=True)
    except NotSent as error:
        return Unreachable(error.reason)
    except Ambiguous as error:
        return Unknown(error.reason)
    return judge(response)


def judge_failure(response: Response, *, repeatable: bool, reason: str | None = None) -> Outcome:
    """The rule for an answer that is not a success, where the service has no rule of its own.

    A 500, 502 or 504 may come after the deed (a gateway gave up on a server that went on): without a key to
    repeat under it is Unknown. 503 says that the service took nothing on.
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


def judge_payment_failure(response: Response, reason: str) -> Outcome:
    """The rule for payment services: they are repeatable, and a 401 or 403 is about the account, not the payment."""
    if response.status in (401, 403):
        return Refused(reason, permanent=False, account=True)
    return judge_failure(response, repeatable=True, reason=reason)


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Seconds to wait by a Retry-After header (a number or a date), bounded to a day."""
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
    """The body as a JSON object; an empty one when it is anything else."""
    try:
        value = orjson.loads(response.body)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def inner(value: Mapping[str, Any], *path: str) -> dict[str, Any]:
    """The object at a path of an answer; an empty one where the service left it out."""
    found: Any = value
    for name in path:
        found = cast("dict[str, Any]", found).get(name) if isinstance(found, dict) else None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def objects(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The list of objects under a name; empty where the service left it out."""
    found = value.get(name)
    if not isinstance(found, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[Any]", found) if isinstance(item, dict)]


def said(*parts: object) -> str:
    """A reason made of what the service said, kept to one short line."""
    text = ": ".join(str(part) for part in parts if part not in (None, ""))
    return " ".join(text.split())[:_REASON_CHARACTERS]


def write_json(value: object) -> bytes:
    return orjson.dumps(value)


def flatten_form(value: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Nested values as form fields in brackets (`line_items[0][quantity]`); None is left out."""
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

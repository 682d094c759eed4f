"""Requests: retries, idempotency keys, errors and pages. The generated operations call it."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx

from onceward_client.errors import ConnectionFailed, OncewardError

RETRIED = frozenset({429, 502, 503, 504})
FIRST_PAUSE_S = 0.2
LONGEST_PAUSE_S = 10.0
LONGEST_RETRY_AFTER_S = 60.0
NEXT = re.compile(r'<([^>]+)>;\s*rel="next"')
REPEATABLE = ""
"""As an idempotency key: the request may be repeated without one."""

Query = Mapping[str, Any]


class Prepared:
    """One request with all that its attempts share."""

    def __init__(
        self,
        method: str,
        path: str,
        values: Mapping[str, Any],
        query: Query,
        *,
        body: Any = None,
        idempotency_key: str | None = None,
    ) -> None:
        self.what = f"{method} {path}"
        self.method = method
        filled = {name: quote(str(value), safe="") for name, value in values.items()}
        self.path = re.sub(r"\{(\w+)\}", lambda found: filled[found[1]], path).lstrip("/")
        self.query = {name: _text(value) for name, value in query.items() if value is not None}
        self.body = body
        self.headers: dict[str, str] = {}
        if method == "POST" and idempotency_key != REPEATABLE:
            # One key for all attempts: the server does what it asks for once.
            self.headers["Idempotency-Key"] = idempotency_key or str(uuid4())

    def arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {"params": self.query, "headers": self.headers}
        if self.body is not None:
            given["json"] = self.body
        return given

    def pause_s(self, attempt: int, most: int, failure: httpx.Response | Exception) -> float:
        """Return the pause before the next attempt, or raise the error of this one."""
        problem: Mapping[str, Any] = {}
        asked: str | None = None
        may_repeat = True
        if isinstance(failure, httpx.Response):
            problem = _problem(failure)
            asked = failure.headers.get("retry-after")
            may_repeat = failure.status_code in RETRIED or problem.get("type") == "key-in-use"
        if self.method == "PATCH" or not may_repeat or attempt >= most:
            if isinstance(failure, httpx.Response):
                raise OncewardError(failure.status_code, problem, self.what)
            raise ConnectionFailed(f"{self.what}: no answer: {failure or type(failure).__name__}") from failure
        if asked is not None and asked.isdecimal():
            return min(float(asked), LONGEST_RETRY_AFTER_S)
        return min(FIRST_PAUSE_S * 2**attempt, LONGEST_PAUSE_S) * random.uniform(0.5, 1)


class Settings:
    """What all requests of a client share."""

    def __init__(self, url: str, key: str | None, organization: str | None, timeout_s: float, retries: int) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url {url!r} must begin with http:// or https://")
        self.base = url.rstrip("/") + "/"
        self.timeout_s = timeout_s
        self.retries = retries
        self.headers = {"Accept": "application/json"}
        if key is not None:
            self.headers["Authorization"] = f"Bearer {key}"
        if organization is not None:
            self.headers["X-Organization"] = organization

    def next_page(self, response: httpx.Response) -> httpx.URL | None:
        """Return the address of the next page. A server below a path sends links without it."""
        found = NEXT.search(response.headers.get("link", ""))
        if found is None:
            return None
        base = httpx.URL(self.base)
        url = base.join(found[1])
        if (url.scheme, url.host, url.port) != (base.scheme, base.host, base.port):
            raise ValueError(f"the next page {url} is on another server")
        prefix = base.path.rstrip("/")
        return url.copy_with(path=prefix + url.path) if prefix and not url.path.startswith(prefix + "/") else url


class Transport:
    """Sends requests and waits for them."""

    def __init__(self, settings: Settings, http: httpx.Client) -> None:
        self._settings = settings
        self._http = http

    def request(self, *given: Any, timeout_s: float | None = None, retries: int | None = None, **options: Any) -> Any:
        """Send one request. Return the parsed answer."""
        return _read(self._respond(Prepared(*given, **options), timeout_s=timeout_s, retries=retries))

    def pages(self, *given: Any, **options: Any) -> Iterator[Any]:
        """Yield the entries of a list, page after page."""
        prepared = Prepared(*given, **options)
        response = self._respond(prepared)
        while True:
            yield from _read(response)
            url = self._settings.next_page(response)
            if url is None:
                return
            prepared.query = {}
            response = self._respond(prepared, url=url)

    def _respond(
        self,
        prepared: Prepared,
        *,
        url: httpx.URL | None = None,
        timeout_s: float | None = None,
        retries: int | None = None,
    ) -> httpx.Response:
        settings = self._settings
        most = settings.retries if retries is None else retries
        given = prepared.arguments()
        if url is not None:
            given.pop("params")
        for attempt in range(most + 1):
            failure: httpx.Response | Exception
            try:
                failure = self._http.request(
                    prepared.method,
                    url or settings.base + prepared.path,
                    timeout=timeout_s or settings.timeout_s,
                    **given,
                )
            except httpx.TransportError as error:
                failure = error
            if isinstance(failure, httpx.Response) and failure.is_success:
                return failure
            time.sleep(prepared.pause_s(attempt, most, failure))
        raise AssertionError("the last attempt raises")


class AsyncTransport:
    """Sends requests without blocking the event loop."""

    def __init__(self, settings: Settings, http: httpx.AsyncClient) -> None:
        self._settings = settings
        self._http = http

    async def request(
        self, *given: Any, timeout_s: float | None = None, retries: int | None = None, **options: Any
    ) -> Any:
        """Send one request. Return the parsed answer."""
        return _read(await self._respond(Prepared(*given, **options), timeout_s=timeout_s, retries=retries))

    async def pages(self, *given: Any, **options: Any) -> AsyncIterator[Any]:
        """Yield the entries of a list, page after page."""
        prepared = Prepared(*given, **options)
        response = await self._respond(prepared)
        while True:
            for each in _read(response):
                yield each
            url = self._settings.next_page(response)
            if url is None:
                return
            prepared.query = {}
            response = await self._respond(prepared, url=url)

    async def _respond(
        self,
        prepared: Prepared,
        *,
        url: httpx.URL | None = None,
        timeout_s: float | None = None,
        retries: int | None = None,
    ) -> httpx.Response:
        settings = self._settings
        most = settings.retries if retries is None else retries
        given = prepared.arguments()
        if url is not None:
            given.pop("params")
        for attempt in range(most + 1):
            failure: httpx.Response | Exception
            try:
                failure = await self._http.request(
                    prepared.method,
                    url or settings.base + prepared.path,
                    timeout=timeout_s or settings.timeout_s,
                    **given,
                )
            except httpx.TransportError as error:
                failure = error
            if isinstance(failure, httpx.Response) and failure.is_success:
                return failure
            await asyncio.sleep(prepared.pause_s(attempt, most, failure))
        raise AssertionError("the last attempt raises")


def _text(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return [_text(each) for each in value] if isinstance(value, (list, tuple)) else str(value)


def _read(response: httpx.Response) -> Any:
    if response.status_code == 204 or not response.content:
        return None
    return response.json() if "json" in response.headers.get("content-type", "") else response.text


def _problem(response: httpx.Response) -> Mapping[str, Any]:
    try:
        read: Any = response.json()
    except ValueError:
        return {"title": response.reason_phrase}  # a proxy in between answered
    return read if isinstance(read, dict) else {}

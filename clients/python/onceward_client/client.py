"""The clients: every operation of the API as a method, such as `client.events.list_(limit=10)`."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import httpx

from onceward_client.operations import OPERATIONS, AsyncOperations, Operations
from onceward_client.transport import AsyncTransport, Settings, Transport


def _operation(name: str, query: dict[str, Any]) -> tuple[str, str, dict[str, Any], dict[str, Any]]:
    """Return method, path, values of the path and query of an operation that is called by its name."""
    if name not in OPERATIONS:
        raise ValueError(f"there is no operation {name!r}; GET /api/v1/openapi.json lists them")
    method, path = OPERATIONS[name]
    values = {each: query.pop(each) for each in list(query) if f"{{{each}}}" in path}
    return method, path, values, query


class Client(Operations):
    """Calls the API. Close it, or use it in a `with` block."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        organization: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 4,
        http: httpx.Client | None = None,
    ) -> None:
        settings = Settings(url, key, organization, timeout_s, retries)
        self._http = http or httpx.Client()
        self._http.headers.update(settings.headers)
        self.transport = Transport(settings, self._http)
        super().__init__(self.transport)

    def call(self, operation: str, /, *, body: Any = None, idempotency_key: str | None = None, **given: Any) -> Any:
        """Call an operation by its name: `client.call("events.get", event="4711")`."""
        return self.transport.request(*_operation(operation, given), body=body, idempotency_key=idempotency_key)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(AsyncOperations):
    """Calls the API without blocking the event loop. Close it, or use it in an `async with` block."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        organization: str | None = None,
        timeout_s: float = 30.0,
        retries: int = 4,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        settings = Settings(url, key, organization, timeout_s, retries)
        self._http = http or httpx.AsyncClient()
        self._http.headers.update(settings.headers)
        self.transport = AsyncTransport(settings, self._http)
        super().__init__(self.transport)

    async def call(
        self, operation: str, /, *, body: Any = None, idempotency_key: str | None = None, **given: Any
    ) -> Any:
        """Call an operation by its name."""
        return await self.transport.request(*_operation(operation, given), body=body, idempotency_key=idempotency_key)

    async def aclose(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

"""The base of the simulators: an HTTP server on loopback that can fail, hang or drop connections on request."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, cast
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_MAX_BODY_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Received:
    """One received request. Header names are in lower case."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def json(self) -> dict[str, Any]:
        return cast("dict[str, Any]", orjson.loads(self.body))

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: Literal["fail", "hang", "hang_after", "drop", "drop_after", "limit"]
    status: int = 500
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


class Simulator(ABC):
    """One simulated service. `received` holds every request to its API, including those answered by a fault.

    Each request uses up one fault, in the order of the calls that added them.
    """

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._faults: deque[_Fault] = deque()
        self._runner: web.AppRunner | None = None
        self._url: str | None = None
        self._stopping = asyncio.Event()

    @property
    def url(self) -> str:
        """The address of the server. Pass it to a client as `base_url`."""
        if self._url is None:
            raise RuntimeError(f"{self.__class__.__name__} has not been started")
        return self._url

    def fail_next(self, count: int = 1, *, status: int = 500) -> None:
        """Answer the next requests with an error status, without carrying them out."""
        self._faults.extend([_Fault("fail", status)] * count)

    def rate_limit(self, count: int = 1, *, retry_after_s: int | None = 1) -> None:
        """Answer the next requests with 429, without carrying them out."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self._faults.extend([_Fault("limit", 429, headers)] * count)

    def hang(self, count: int = 1, *, act: bool = False) -> None:
        """Do not answer the next requests. With `act`, carry them out first."""
        self._faults.extend([_Fault("hang_after" if act else "hang")] * count)

    def drop_before_send(self, count: int = 1) -> None:
        """Drop the connection of the next requests, without carrying them out."""
        self._faults.extend([_Fault("drop")] * count)

    def drop_after_send(self, count: int = 1) -> None:
        """Carry out the next requests, then drop their connections: the outcome is unknown to the caller."""
        self._faults.extend([_Fault("drop_after")] * count)

    def clear_faults(self) -> None:
        self._faults.clear()

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start the server. Port 0 selects a free port."""
        self._stopping.clear()
        app = web.Application(middlewares=[self._middleware()], client_max_size=_MAX_BODY_BYTES)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5, auto_decompress=False
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self._url = f"http://{host}:{cast('int', self._runner.addresses[0][1])}"

    async def stop(self) -> None:
        self._stopping.set()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @abstractmethod
    def routes(self) -> list[web.RouteDef]:
        """Return the routes of the service."""

    def is_api(self, path: str) -> bool:
        """Whether the path belongs to the API. Faults do not apply to pages for people."""
        return True

    def failure(self, status: int) -> web.Response:
        """Return an error response in the format of this service."""
        return answer({"error": {"message": f"simulated failure {status}"}}, status=status)

    def _middleware(self) -> Any:
        @web.middleware
        async def apply_fault(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self.is_api(request.path):
                return await handler(request)
            self.received.append(
                Received(
                    method=request.method,
                    path=request.path,
                    query=dict(request.query),
                    headers={name.lower(): value for name, value in request.headers.items()},
                    body=await request.read(),
                )
            )
            fault = self._faults.popleft() if self._faults else None
            return await self._answer(request, handler, fault)

        return apply_fault

    async def _answer(self, request: web.Request, handler: Handler, fault: _Fault | None) -> web.StreamResponse:
        if fault is None:
            return await handler(request)
        if fault.kind in ("fail", "limit"):
            response = self.failure(fault.status)
            response.headers.update(fault.headers)
            return response
        if fault.kind.endswith("_after"):
            await handler(request)
        if fault.kind.startswith("drop"):
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=500)
        await self._stopping.wait()
        return web.Response(status=503)


def answer(value: object, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def part(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a copy of the object in a field; empty if the field has no object."""
    field_value = value.get(name)
    return dict(cast("dict[str, Any]", field_value)) if isinstance(field_value, dict) else {}


def parts(value: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the objects of the list in a field; empty if the field has no list."""
    field_value = value.get(name)
    if not isinstance(field_value, list):
        return []
    return [cast("dict[str, Any]", item) for item in cast("list[Any]", field_value) if isinstance(item, dict)]


async def read_object(request: web.Request) -> dict[str, Any]:
    """Return the body as a JSON object. Any other body is answered with 400."""
    try:
        value = orjson.loads(await request.read())
    except orjson.JSONDecodeError:
        raise web.HTTPBadRequest(text="the body is not JSON") from None
    if not isinstance(value, dict):
        raise web.HTTPBadRequest(text="the body is not a JSON object")
    return cast("dict[str, Any]", value)

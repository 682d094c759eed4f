"""The base of the simulators: an HTTP server on loopback that can fail, hang or drop connections on request."""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from onceward.background import spawn

from . import state

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_MAX_BODY_BYTES = 32 * 1024 * 1024
SAVE_EVERY_S = 5.0


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
    on: str = ""
    """The method and the beginning of the path of the request, for example `POST /v1/refunds`. Empty: any request."""
    about: str = ""
    """What the body of the request contains."""

    def meets(self, request: Received) -> bool:
        return f"{request.method} {request.path}".startswith(self.on) and self.about.encode() in request.body


class Simulator(ABC):
    """One simulated service. `received` holds every request to its API, including those answered by a fault.

    Each request uses up one fault, in the order of the calls that added them. A fault with `on` waits for a request
    whose method and path begin so (`POST /v1/refunds`), one with `about` for a request whose body contains this text.
    After `keep_in`, the attributes in `kept` and the port survive a restart.
    """

    kept: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.name = ""
        """The name of its integration: two integrations may use one class."""
        self._faults: deque[_Fault] = deque()
        self._refusal: int | str | None = None
        self._runner: web.AppRunner | None = None
        self._url: str | None = None
        self._stopping = asyncio.Event()
        self._state_file: Path | None = None
        self._port = 0
        self._saving: asyncio.Task[None] | None = None

    def keep_in(self, folder: Path) -> None:
        """Keep the state in a file of this folder. Call it before `start`."""
        self._state_file = folder / f"{self.name or self.__class__.__name__.removesuffix('Simulator').lower()}.json"

    @property
    def url(self) -> str:
        """The address of the server. Pass it to a client as `base_url`."""
        if self._url is None:
            raise RuntimeError(f"{self.__class__.__name__} has not been started")
        return self._url

    def sample_source(self) -> dict[str, Any]:
        """Return the options of `TestInbox.add_source` for a source that signs as this simulator does."""
        return {}

    def fail_next(self, count: int = 1, *, status: int = 500, on: str = "", about: str = "") -> None:
        """Answer the next requests with an error status, without carrying them out."""
        self._faults.extend([_Fault("fail", status, on=on, about=about)] * count)

    def refuse_all(self, code: int | str | None) -> None:
        """Answer every request with this error of the service, until `refuse_all(None)`: an expired token, a paused
        template."""
        self._refusal = code

    def rate_limit(self, count: int = 1, *, retry_after_s: int | None = 1) -> None:
        """Answer the next requests with 429, without carrying them out."""
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        self._faults.extend([_Fault("limit", 429, headers)] * count)

    def hang(self, count: int = 1, *, act: bool = False, on: str = "") -> None:
        """Do not answer the next requests. With `act`, carry them out first."""
        self._faults.extend([_Fault("hang_after" if act else "hang", on=on)] * count)

    def drop_before_send(self, count: int = 1, *, on: str = "") -> None:
        """Drop the connection of the next requests, without carrying them out."""
        self._faults.extend([_Fault("drop", on=on)] * count)

    def drop_after_send(self, count: int = 1, *, on: str = "", about: str = "") -> None:
        """Carry out the next requests, then drop their connections: the outcome is unknown to the caller."""
        self._faults.extend([_Fault("drop_after", on=on, about=about)] * count)

    def clear_faults(self) -> None:
        self._faults.clear()

    async def start(self, *, host: str = "127.0.0.1", port: int = 0) -> None:
        """Start the server. Port 0 selects the port of the last start if the state is kept, else a free port."""
        self._stopping.clear()
        if self._state_file is not None:
            state.load(self._state_file, self, (*self.kept, "_port"))
        app = web.Application(middlewares=[self._middleware()], client_max_size=_MAX_BODY_BYTES)
        app.add_routes(self.routes())
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5, auto_decompress=False
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port or self._port).start()
        except OSError:
            if port or not self._port:
                raise
            await web.TCPSite(self._runner, host, 0).start()  # another program has taken the port of the last start
        self._port = cast("int", self._runner.addresses[0][1])
        self._url = f"http://{host}:{self._port}"
        if self._state_file is not None:
            self._saving = spawn(self._save_often())

    async def stop(self) -> None:
        self._stopping.set()
        if self._saving is not None:
            await self._saving
            self._saving = None
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

    def refusal(self, request: web.Request, code: int | str) -> web.Response:
        """Return the response with an error code of this service, for `refuse_all`."""
        raise NotImplementedError(f"{self.__class__.__name__} has no error codes")

    def failure(self, status: int) -> web.Response:
        """Return an error response in the format of this service."""
        return answer({"error": {"message": f"simulated failure {status}"}}, status=status)

    async def _save_often(self) -> None:
        """Save the state every few seconds, and once more at the end: a killed demo forgets only the last calls of
        its API."""
        while not self._stopping.is_set():
            self._save()
            with suppress(TimeoutError):
                async with asyncio.timeout(SAVE_EVERY_S):
                    await self._stopping.wait()
        self._save()

    def _save(self) -> None:
        if self._state_file is not None:
            state.save(self._state_file, self, (*self.kept, "_port"))

    def _middleware(self) -> Any:
        @web.middleware
        async def apply_fault(request: web.Request, handler: Handler) -> web.StreamResponse:
            if not self.is_api(request.path):
                try:
                    return await handler(request)
                finally:
                    self._save()  # what a person has seen must survive a kill of the demo
            received = Received(
                method=request.method,
                path=request.path,
                query=dict(request.query),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=await request.read(),
            )
            self.received.append(received)
            if self._refusal is not None:
                return self.refusal(request, self._refusal)
            return await self._answer(request, handler, self._next_fault(received))

        return apply_fault

    def _next_fault(self, request: Received) -> _Fault | None:
        fault = next((each for each in self._faults if each.meets(request)), None)
        if fault is not None:
            self._faults.remove(fault)
        return fault

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

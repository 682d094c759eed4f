"""The dispatcher: it chooses the application for a request by the path alone.

Paths that must be fast or use another protocol (`/webhooks/...`, `/live...`) are mounted here as plain ASGI callables,
without the cost of a framework. All other requests go to FastAPI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from onceward.web.exposure import ExposedRoute


@dataclass(frozen=True, slots=True)
class Mount:
    """Everything at `prefix` and below it goes to `app` (`/live` takes `/live` and `/live/sse`, not `/lively`).

    Small requests that have arrived are first offered to `direct`, without ASGI; see `protocol.py`.
    """

    prefix: str
    app: ASGIApp
    direct: Callable[..., bool] | None = None
    exposes: tuple[ExposedRoute, ...] = ()
    """What the table of routes in docs/security.md says about it."""

    def __post_init__(self) -> None:
        if not self.prefix.startswith("/") or self.prefix.endswith("/"):
            raise ValueError(f"prefix {self.prefix!r} must start with a slash and must not end with one")


class Dispatcher:
    """Passes each connection to the application mounted at its prefix, or to the API."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._mounted: list[tuple[str, ASGIApp]] = []
        self.direct: tuple[str, Callable[..., bool]] | None = None
        """A prefix, and the callable that is first offered its small requests that have arrived; see `protocol.py`."""

    def mount(self, mount: Mount) -> None:
        """Pass everything at the mount's prefix to its application. A prefix can be mounted only once."""
        if any(mount.prefix == taken for taken, _ in self._mounted):
            raise ValueError(f"prefix {mount.prefix!r} is already mounted")
        self._mounted.append((mount.prefix, mount.app))
        if mount.direct is not None:
            self.direct = (mount.prefix, mount.direct)
        self._mounted.sort(key=lambda entry: -len(entry[0]))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        for prefix, app in self._mounted:
            if path.startswith(prefix) and path[len(prefix) : len(prefix) + 1] in ("", "/"):
                await app(scope, receive, send)
                return
        if scope["type"] == "websocket":
            await _refuse_websocket(receive, send)
            return
        await self._api(scope, receive, send)


async def _refuse_websocket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 4404, "reason": "no WebSocket at this path"})

"""The first thing a request meets: a look at its path, nothing more.

What must be fast or speaks another protocol (`/webhooks/...`, `/live...`) is mounted here as a bare ASGI callable and
pays for no framework; everything else goes to FastAPI.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send


class Dispatcher:
    """Hands each connection to the callable whose prefix it carries, or to the API."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._mounted: list[tuple[str, ASGIApp]] = []
        self.direct: tuple[str, Callable[..., bool]] | None = None
        """A prefix whose requests, if they arrive whole, are offered to a callable first; see `protocol.py`."""

    def mount(self, prefix: str, app: ASGIApp, *, direct: Callable[..., bool] | None = None) -> None:
        """Give everything at `prefix` and below it (`/live` takes `/live` and `/live/sse`, not `/lively`) to `app`."""
        if not prefix.startswith("/") or prefix.endswith("/"):
            raise ValueError(f"prefix {prefix!r} must start with a slash and not end in one")
        if any(prefix == taken for taken, _ in self._mounted):
            raise ValueError(f"prefix {prefix!r} is already taken")
        self._mounted.append((prefix, app))
        if direct is not None:
            self.direct = (prefix, direct)
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
    await send({"type": "websocket.close", "code": 4404, "reason": "nothing here"})

"""The first thing a request meets: a look at its path, nothing more.

What must be fast or speaks another protocol (`/webhooks/...`, `/live...`) is mounted here as a bare ASGI callable and
pays for no framework; everything else goes to FastAPI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True)
class Mount:
    """Everything at `prefix` and below it goes to `app` (`/live` takes `/live` and `/live/sse`, not `/lively`).

    `direct` is offered requests that arrive whole before ASGI is set up; see `protocol.py`.
    """

    prefix: str
    app: ASGIApp
    direct: Callable[..., bool] | None = None

    def __post_init__(self) -> None:
        if not self.prefix.startswith("/") or self.prefix.endswith("/"):
            raise ValueError(f"prefix {self.prefix!r} must start with a slash and not end in one")


class Dispatcher:
    """Hands each connection to the callable whose prefix it carries, or to the API."""

    def __init__(self, api: ASGIApp) -> None:
        self._api = api
        self._mounted: list[tuple[str, ASGIApp]] = []
        self.direct: tuple[str, Callable[..., bool]] | None = None
        """A prefix whose requests, if they arrive whole, are offered to a callable first; see `protocol.py`."""

    def mount(self, mount: Mount) -> None:
        """Give everything at the mount's prefix to its application; a prefix can be given once."""
        if any(mount.prefix == taken for taken, _ in self._mounted):
            raise ValueError(f"prefix {mount.prefix!r} is already taken")
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
    await send({"type": "websocket.close", "code": 4404, "reason": "nothing here"})

"""Redirect `/login/` to `/login`. `Location` is a path only, because the `Host` of the request is not trusted."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import RedirectResponse
from starlette.routing import Match, Router
from starlette.types import Receive, Scope, Send


class SlashRedirect:
    """Handles a path without a route: redirects to the path without its last slash, or with one, if that exists."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = self._other(scope) if scope["type"] == "http" else None
        if path is None:
            await self._router.not_found(scope, receive, send)
            return
        query: bytes = scope["query_string"]
        location = quote(path) + (f"?{query.decode('latin-1')}" if query else "")
        await RedirectResponse(location)(scope, receive, send)

    def _other(self, scope: Scope) -> str | None:
        path: str = scope["path"]
        other = path.rstrip("/") if path.endswith("/") else f"{path}/"
        if not other or other.startswith("//"):  # two slashes at the start would be another host
            return None
        changed = {**scope, "path": other}
        found = any(route.matches(changed)[0] is not Match.NONE for route in self._router.routes)
        return other if found else None

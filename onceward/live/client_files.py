"""Serve the files of the JavaScript client: `/live/client.js`, `/live/react.js` and their types."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from starlette.types import Scope, Send

TYPES = {".js": b"text/javascript; charset=utf-8", ".ts": b"text/plain; charset=utf-8"}
NAMES = frozenset({"client.js", "client.d.ts", "react.js", "react.d.ts", "push.js", "push.d.ts", "service-worker.js"})


def folder() -> Path:
    """Return the folder of the files: in the installed package, or in the repository."""
    packaged = Path(__file__).parent / "js"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "clients" / "js"


@cache
def _content(name: str) -> bytes | None:
    path = folder() / name
    return path.read_bytes() if name in NAMES and path.is_file() else None


async def serve(path: str, scope: Scope, send: Send) -> None:
    """Respond with a file of the client, or 404. A plain HTTP request to the address of the WebSocket gets 426."""
    name = path.removeprefix("/live").removeprefix("/")
    body = _content(name) if scope["method"] in ("GET", "HEAD") else None
    status = 200 if body is not None else 426 if not name else 404
    content = (
        body if body is not None else b"this address accepts WebSocket connections only" if not name else b"not found"
    )
    headers = [
        (b"content-type", TYPES.get(Path(name).suffix, b"text/plain") if body is not None else b"text/plain"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"max-age=300"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})

"""The minimum cost of a Python server: read the body and give a fixed answer."""

from __future__ import annotations

from typing import Any


async def app(_scope: Any, receive: Any, send: Any) -> None:
    await receive()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"15")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"status":"ok"}'})


async def make(_url: str) -> Any:
    return app

"""The span of an outgoing request, and the headers that continue the trace at the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from onceward.telemetry.tracing import is_tracing, outgoing_headers, span

from .exchange import Response
from .streaming import StreamedResponse

Answer = TypeVar("Answer", Response, StreamedResponse)

__all__ = ["is_tracing", "traced"]


async def traced(
    send: Callable[[Mapping[str, str]], Awaitable[Answer]],
    method: str,
    host: str | None,
    port: int | None,
    headers: Mapping[str, str],
) -> Answer:
    """Send a request within a span. The span names the host only: path and query may contain secrets."""
    attributes: dict[str, str | int] = {"http.request.method": method, "server.address": host or ""}
    if port is not None:
        attributes["server.port"] = port
    with span(method, attributes, kind="client") as recorded:
        given = {name.lower() for name in headers}
        context = {name: value for name, value in outgoing_headers().items() if name not in given}
        answer = await send({**headers, **context})
        recorded.set({"http.response.status_code": answer.status})
        if answer.status >= 400:
            recorded.fail(str(answer.status))
        return answer

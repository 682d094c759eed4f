"""Read an answer while it arrives, for services that stream: server-sent events, long downloads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onceward.lazy import lazy_module

from .errors import Ambiguous
from .exchange import Response, attempting, joined_headers

if TYPE_CHECKING:
    import aiohttp
    import yarl
else:
    aiohttp = lazy_module("aiohttp")
    yarl = lazy_module("yarl")

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StreamedResponse:
    """An answer whose body is still arriving. `headers` have lower-case names.

    Reading raises Ambiguous if the connection breaks, if the service sends nothing for `idle_timeout_s`, or if the
    whole answer takes longer than `timeout_s`.
    """

    status: int
    headers: Mapping[str, str]
    _answer: aiohttp.ClientResponse = field(repr=False)
    _where: str
    _deadline: float
    _idle_timeout_s: float
    _started: float

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    async def chunks(self) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives."""
        loop = asyncio.get_running_loop()
        while True:
            idle_at = loop.time() + self._idle_timeout_s
            try:
                async with asyncio.timeout_at(min(self._deadline, idle_at)):
                    chunk = await self._answer.content.read(_CHUNK_BYTES)
            except TimeoutError:
                limit = "the answer did not end in time" if self._deadline <= idle_at else "the answer stopped arriving"
                raise Ambiguous(f"{self._where}: {limit}", status=self.status) from None
            except (aiohttp.ClientError, OSError) as error:
                raise Ambiguous(
                    f"{self._where}: the connection broke during the answer ({error.__class__.__name__})",
                    status=self.status,
                ) from None
            if not chunk:
                return
            yield chunk

    async def read(self, *, max_bytes: int) -> Response:
        """Read the rest of the body, at most `max_bytes`, for example that of an error."""
        body = bytearray()
        async for chunk in self.chunks():
            body += chunk
            if len(body) > max_bytes:
                break
        return Response(
            status=self.status,
            headers=self.headers,
            body=bytes(body[:max_bytes]),
            elapsed_ms=round((time.monotonic() - self._started) * 1000),
            truncated=len(body) > max_bytes,
        )


@asynccontextmanager
async def open_stream(
    session: aiohttp.ClientSession,
    method: str,
    url: yarl.URL,
    *,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout_s: float,
    idle_timeout_s: float,
) -> AsyncGenerator[StreamedResponse]:
    """Send one request and give the answer as soon as its headers have arrived.

    Leaving the block closes the connection.
    """
    started = time.monotonic()
    deadline = asyncio.get_running_loop().time() + timeout_s
    with attempting(session, url, timeout_s):
        async with asyncio.timeout_at(deadline):
            answer = await session.request(method, url, headers=headers, data=body, allow_redirects=False)
    try:
        yield StreamedResponse(
            status=answer.status,
            headers=joined_headers(answer),
            _answer=answer,
            _where=f"{url.raw_host}:{url.port}",
            _deadline=deadline,
            _idle_timeout_s=idle_timeout_s,
            _started=started,
        )
    finally:
        if answer.content.at_eof():
            answer.release()
        else:
            answer.close()

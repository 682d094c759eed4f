"""Fetch the certificates and keys that some senders sign with, and the events that others only name.

Through the guarded client: public addresses and https only, with limits on time, size and the number of requests at
once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from onceward.webhooks.provider import Rejected

if TYPE_CHECKING:
    from onceward.http import GuardedClient

MAX_BYTES = 256 * 1024
TIMEOUT_S = 5.0


class CertificateFetcher:
    """Fetches a document: `await fetch(url)`. The provider has checked the URL, the client checks the IP address."""

    def __init__(self) -> None:
        self._client: GuardedClient | None = None

    async def __call__(
        self, url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> bytes:
        if self._client is None:
            from onceward.http import GuardedClient  # slow to import, and few sources need it

            self._client = GuardedClient(timeout_s=TIMEOUT_S, max_response_bytes=MAX_BYTES, concurrency=8)
        answer = await self._client.request(method, url, headers=headers, body=body)
        if not answer.ok or answer.truncated:
            raise Rejected("certificate_unavailable", f"the sender's host answered {answer.status}")
        return answer.body

    async def aclose(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

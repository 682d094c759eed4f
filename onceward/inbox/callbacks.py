"""Find the address to which a service sends its status callbacks: the source of its provider."""

from __future__ import annotations

import time
from uuid import UUID

from onceward.db import Database
from onceward.statements import read_statement

FIND = read_statement("inbox", "find_callback_source")
KEPT_S = 10.0
MOST_KEPT = 1000


class StatusCallbacks:
    """The callback address of one provider for each organization, read from the sources at most every ten seconds."""

    def __init__(self, db: Database, provider: str) -> None:
        self._db = db
        self._provider = provider
        self._kept: dict[UUID | None, tuple[float, str | None]] = {}

    async def url(self, organization: UUID | None) -> str | None:
        """Return `<public_url>/webhooks/<source>`, or None if the provider has no source for this organization."""
        now = time.monotonic()
        kept = self._kept.get(organization)
        if kept is not None and kept[0] > now:
            return kept[1]
        url: str | None = await self._db.fetchval(FIND, self._provider, organization)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[organization] = (now + KEPT_S, url)
        return url

"""Copies of the head of the audit chain outside the database, which show that its end was cut off or written again.

Every node writes the head to its log at level warning and, with ONCEWARD_AUDIT_ANCHOR_URL, to a folder or bucket.
Before it replaces an anchor, it checks that the chain still contains it.
"""

from __future__ import annotations

from onceward.background import Loop
from onceward.db import Connection, Database
from onceward.services.files import Files
from onceward.settings import Settings
from onceward.telemetry import get_logger
from onceward.trust.chain import Head
from onceward.trust.sealer import head
from onceward.trust.settings import TrustSettings

FILE = "audit-head.txt"

log = get_logger("onceward.audit")


def anchor_files(settings: Settings) -> Files | None:
    """Return where the anchor is stored, or None if only the log has it."""
    url = settings.of(TrustSettings).audit_anchor_url
    return None if url is None else Files.at(url, settings.data_dir)


async def read_anchor(files: Files) -> Head | None:
    """Return the stored head. Raises ValueError if the file contains something else."""
    content = await files.get(FILE)
    return None if content is None else Head.parse(content.decode("utf-8", "replace"))


async def contains(conn: Connection, known: Head) -> bool:
    """Return whether the chain still has this link."""
    stored = await conn.fetchval("select hash from onceward.audit_seals where number = $1", known.number)
    return stored == known.hash


class Anchors:
    """The background loop that copies the head out of the database."""

    def __init__(self, db: Database, files: Files | None, *, every_s: float) -> None:
        self.db = db
        self.files = files
        self._last: Head | None = None
        self._loop = Loop("audit anchors", self.step, every_s=every_s, waits_first=True)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()

    async def step(self) -> Head | None:
        """Anchor the head if it has changed.

        Returns None if there is nothing new, or if the chain lacks the last anchor.
        """
        known = self._last if self.files is None else await read_anchor(self.files) or self._last
        async with self.db.acquire() as conn:
            now = await head(conn)
            if known is not None and not await contains(conn, known):
                # The anchor is the evidence, so it stays.
                log.error("audit.rewritten", anchor=str(known), head=str(now), remedy="onceward audit verify --full")
                return None
        if now.number == 0 or now == known:
            return None
        if self.files is not None:
            await self.files.put(FILE, f"{now}\n".encode(), content_type="text/plain")
        self._last = now
        log.warning("audit.anchored", head=str(now))
        return now

"""Chain committed audit entries. Every node runs the sealer, one at a time; a missed tick costs one interval.

Chaining inside the writing transactions would make them wait for each other. Instead the sealer takes entries from
`audit_pending` after their commit, so it seals every entry exactly once, in whatever order transactions commit.
"""

from __future__ import annotations

from onceward.background import Loop
from onceward.db import Connection, Database
from onceward.statements import read_statement
from onceward.telemetry import get_logger
from onceward.trust.chain import FRAME, HASH_BYTES, START, Head, entry_hash, link_hash
from onceward.trust.chain_keys import current_key
from onceward.trust.errors import ChainRewritten
from onceward.trust.secrets import SecretBox

LOCK = 0x7365616C  # "seal"
MISSING = bytes(HASH_BYTES)
GRACE_S = 10.0
"""How long a stop waits for the batch that is being sealed."""

TAKE = read_statement("trust", "take_pending")

log = get_logger("onceward.audit")


class Sealer:
    """The background loop that seals audit entries."""

    def __init__(self, db: Database, box: SecretBox, *, interval_s: float = 2.0, batch: int = 1000) -> None:
        self.db = db
        self.box = box
        self._last: Head | None = None
        self.batch = batch
        self._loop = Loop("audit sealer", self._seal_pending, every_s=interval_s)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        """Stop after the current batch."""
        await self._loop.stop(grace_s=GRACE_S)

    async def step(self) -> int:
        """Seal up to one batch. Returns how many entries: 0 if none is pending or another node is sealing."""
        async with self.db.acquire() as conn, conn.transaction():
            if not await conn.fetchval("select pg_try_advisory_xact_lock($1)", LOCK):
                return 0
            ids = sorted(row["id"] for row in await conn.fetch(TAKE, self.batch))
            if not ids:
                return 0
            head = await self._seal(conn, ids)
        self._last = head
        log.info("audit.sealed", head=str(head), entries=len(ids))
        return len(ids)

    async def _seal(self, conn: Connection, ids: list[int]) -> Head:
        rows = await conn.fetch(f"select {FRAME} from onceward.audit_log where id = any($1)", ids)
        last = await head(conn)
        await self._check_continues(conn)
        number, previous = last.number + 1, last.hash
        key_id, key = await current_key(conn, self.box)
        by_id = {row["id"]: entry_hash(row["frame"], row["who_hash"], row["content_hash"]) for row in rows}
        # An entry that was deleted before its seal keeps its place in the chain, so `prove` reports it.
        hashes = b"".join(by_id.get(one, MISSING) for one in ids)
        link = link_hash(key, previous, key_id, number, ids, hashes)
        await conn.execute(
            "insert into onceward.audit_seals (number, key_id, ids, hashes, previous, hash)"
            " values ($1, $2, $3, $4, $5, $6)",
            number,
            key_id,
            ids,
            hashes,
            previous,
            link,
        )
        return Head(number, link)

    async def _check_continues(self, conn: Connection) -> None:
        """Raise if the chain lacks the last link that this process made: nobody may have changed entries sealed
        again."""
        if self._last is None:
            return
        stored = await conn.fetchval("select hash from onceward.audit_seals where number = $1", self._last.number)
        if stored != self._last.hash:
            raise ChainRewritten(
                f"the audit chain no longer has the link {self._last} that this process has made: run `onceward audit"
                f" verify --full --head {self._last}`; after a restore of the database, restart the process"
            )

    async def _seal_pending(self) -> None:
        """Seal until a batch is not full.

        The next full batch follows at the next turn, so that a stop need not wait for it.
        """
        if await self.step() >= self.batch:
            self._loop.nudge()


async def head(conn: Connection) -> Head:
    """Return the current end of the chain."""
    row = await conn.fetchrow("select number, hash from onceward.audit_seals order by number desc limit 1")
    return Head(0, START) if row is None else Head(row["number"], row["hash"])

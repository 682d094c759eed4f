"""What the handlers of the crossings leave behind, and how they write it."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg

CREATE = """
create table effects (seq bigserial primary key, n int not null, id bigint not null);
create table runs (seq bigserial primary key, n int not null, id bigint not null, node int not null,
                   began timestamptz not null default clock_timestamp(), ended timestamptz);
create table failures (n int not null);
create table counter (n int not null);
insert into counter values (0);
create table limits (node int primary key, times int not null);
grant all on effects, runs, failures, counter to onceward_app;
grant all on all sequences in schema public to onceward_app;

-- Pruning deletes the history of a job, but not this one.
create table history (seq bigserial primary key, work_id bigint not null, kind text not null, outcome text not null,
                      shared smallint);
create function keep_history() returns trigger language plpgsql security definer set search_path = public as
$$ begin insert into history (work_id, kind, outcome, shared) values (new.work_id, new.kind, new.outcome, new.shared); return null; end $$;
create trigger keep_history after insert on onceward.attempts for each row execute function keep_history();
"""


class Failure(Exception):
    """A failure that the verb asked for."""


class Records:
    """Writes outside of a handler's transaction, so that the records survive its rollback."""

    def __init__(self, url: str, node: int) -> None:
        self._url = url
        self._node = node
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pool = await asyncpg.create_pool(self._url, min_size=1, max_size=4)

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()

    async def run(self, n: int, id: int, *, fails: int, pause_s: float = 0.0) -> None:
        """Record a run of item `n`. Raises `Failure` the first `fails` times."""
        assert self._pool is not None
        row = await self._pool.fetchval(
            "insert into runs (n, id, node) values ($1, $2, $3) returning seq", n, id, self._node
        )
        await asyncio.sleep(pause_s)
        try:
            if fails and await self._pool.fetchval("select count(*) from failures where n = $1", n) < fails:
                await self._pool.execute("insert into failures (n) values ($1)", n)
                raise Failure(f"item {n} fails {fails} times")
        finally:
            await self._pool.execute("update runs set ended = clock_timestamp() where seq = $1", row)

    async def note_limits(self, times: int) -> None:
        """Record how often row locks have limited groups in this node."""
        assert self._pool is not None
        await self._pool.execute(
            "insert into limits values ($1, $2) on conflict (node) do update set times = excluded.times",
            self._node,
            times,
        )

    def run_in_thread(self, n: int, id: int, *, fails: int, pause_s: float = 0.0) -> None:
        """Record a run from a thread."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.run(n, id, fails=fails, pause_s=pause_s), self._loop).result()


async def effect(tx: Any, n: int, id: int) -> None:
    """Write the effect of item `n` in the handler's transaction."""
    await tx.execute("insert into effects (n, id) values ($1, $2)", n, id)

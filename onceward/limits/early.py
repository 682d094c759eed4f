"""Refuse early: a copy of the slots in Redis or Valkey refuses requests without a query to PostgreSQL.

Redis never grants a slot: PostgreSQL decides about every request that Redis does not refuse. The copy expires after a few
seconds and is rewritten from PostgreSQL. Without Redis, or when it does not answer, only the load on the database changes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast
from uuid import UUID

import structlog

from onceward.background import Loop
from onceward.db import Database
from onceward.limits.admission import GLOBAL, Limit, LimitReached
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

PREFIX = "onceward:limit:"
MEMBER_LIFE_S = 5.0
EVERY_S = 2.0
SILENT_FOR_S = 5.0

FULL = """
-- Return the index of the first of KEYS that has as many members as ARGV allows, or 0. Expired members do not count.
local now = redis.call('TIME')
now = tonumber(now[1]) + tonumber(now[2]) / 1000000
for i, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  local most = tonumber(ARGV[i])
  if most > 0 and redis.call('ZCARD', key) >= most then
    return i
  end
end
return 0
"""

HOLD = """
-- Add the members ARGV[2..] to KEYS[1] for ARGV[1] seconds. If ARGV[2] is '*', they replace all members.
local now = redis.call('TIME')
local till = tonumber(now[1]) + tonumber(now[2]) / 1000000 + tonumber(ARGV[1])
local first = 2
if ARGV[2] == '*' then
  redis.call('DEL', KEYS[1])
  first = 3
end
for i = first, #ARGV do
  redis.call('ZADD', KEYS[1], till, ARGV[i])
end
redis.call('EXPIRE', KEYS[1], math.ceil(tonumber(ARGV[1])) + 1)
return #ARGV - first + 1
"""

SLOTS = read_statement("limits", "list_slot_owners")


class EarlyRefusal:
    """The copy of the slots in Redis. Call `check` before slots are taken, and `note` after the commit."""

    def __init__(self, url: str, db: Database | None = None, *, timeout_s: float = 0.25) -> None:
        from redis.asyncio import Redis

        connect = cast(Any, Redis)
        self._redis: Any = connect.from_url(url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s)
        self._full: Callable[..., Awaitable[Any]] = self._redis.register_script(FULL)
        self._hold: Callable[..., Awaitable[Any]] = self._redis.register_script(HOLD)
        self._db = db
        self._silent_until = 0.0
        self._copied_keys: set[str] = set()
        self._loop = Loop("early refusal", self.sync, every_s=EVERY_S)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        await self._redis.aclose()

    async def check(self, limits: Sequence[Limit], organization: UUID | None) -> None:
        """Raise `LimitReached` if the copy shows a full limit. Limits without `at_most` are not checked."""
        numbered = [limit for limit in limits if limit.at_most is not None]
        if not numbered:
            return
        full_index = await self._call(
            self._full,
            [PREFIX + _scoped(limit, organization) for limit in numbered],
            [limit.at_most for limit in numbered],
        )
        if full_index:
            limit = numbered[int(full_index) - 1]
            at_most = cast(int, limit.at_most)
            raise LimitReached(limit.key, at_most, at_most)

    async def note(self, limits: Sequence[Limit], organization: UUID | None, work_id: int) -> None:
        """Add a slot of this work under each limit. Call it after the commit."""
        for limit in limits:
            key = _scoped(limit, organization)
            self._copied_keys.add(key)
            await self._call(self._hold, [PREFIX + key], [MEMBER_LIFE_S, str(work_id)])

    async def sync(self) -> None:
        """Rewrite the copy from PostgreSQL, without the slots of ended work."""
        if self._db is None:
            return
        rows = await self._db.fetch(SLOTS)
        held = {row["key"]: row["owners"] for row in rows}
        for key in self._copied_keys - held.keys():
            await self._call(self._hold, [PREFIX + key], [MEMBER_LIFE_S, "*"])
        for key, owners in held.items():
            await self._call(self._hold, [PREFIX + key], [MEMBER_LIFE_S, "*", *owners])
        if not held and not self._copied_keys:  # So that an outage of Redis is logged before the first limit is used.
            await self._call(self._ping, [], [])
        self._copied_keys = set(held)

    async def _ping(self, *, keys: list[str], args: list[Any]) -> Any:
        return await self._redis.ping()

    async def _call(self, script: Callable[..., Awaitable[Any]], keys: list[str], args: list[Any]) -> Any:
        """Run a script. Return None when Redis does not answer, and then send nothing for a few seconds."""
        if time.monotonic() < self._silent_until:
            return None
        from redis.exceptions import RedisError

        try:
            return await script(keys=keys, args=args)
        except (RedisError, OSError, TimeoutError) as error:
            self._silent_until = time.monotonic() + SILENT_FOR_S
            log.warning(
                "early_refusal.suspended",
                error=type(error).__name__,
                hint="limits still hold: PostgreSQL alone decides, and gets the requests that Redis would have refused",
            )
            return None


def _scoped(limit: Limit, organization: UUID | None) -> str:
    """Return the key of the slots: prefixed with the organization, or with the zero UUID for shared limits."""
    owner = UUID(int=0) if organization is None or limit.key == GLOBAL else organization
    return f"{owner}:{limit.key}"

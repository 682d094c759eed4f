"""What a handler causes things with. All of it is written through one transaction, and exists when that commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from onceward import outbox, work
from onceward.db import Cause, Connection, Role, Transaction
from onceward.work import Enqueued, JobTask, Order

if TYPE_CHECKING:
    from onceward.engine import Engine


class Tx(Transaction):
    """A database transaction with verbs: enqueue, send, publish, broadcast, post, audit."""

    __slots__ = ("engine",)

    def __init__(
        self,
        conn: Connection,
        engine: Engine,
        *,
        role: Role = "app",
        organization: UUID | None = None,
        cause: Cause | None = None,
    ) -> None:
        super().__init__(conn, role=role, organization=organization, cause=cause)
        self.engine = engine

    async def enqueue(self, what: JobTask | Order, /, **arguments: Any) -> Enqueued:
        """A job, in this commit. `remind.later(hours=24).once("key")` carries options."""
        [done] = await self.enqueue_many(what, [arguments])
        return done

    async def enqueue_many(self, what: JobTask | Order, arguments: Sequence[dict[str, Any]], /) -> list[Enqueued]:
        """The same job many times, in one statement."""
        caused_by = None if self.cause is None else self.cause.id
        wanted = work.items(what, arguments, organization=self.organization, caused_by=caused_by)
        return await work.enqueue(self, wanted, waker=self.engine.waker) if wanted else []

    async def enqueue_then(
        self, members: Sequence[tuple[JobTask | Order, dict[str, Any]]], then: JobTask | Order, /, **arguments: Any
    ) -> Enqueued:
        """Enqueue all members; `then` runs when every one of them is finished, whichever way it ended."""
        items = [self._item(what, each) for what, each in members]
        return await work.bundle(self, items, self._item(then, arguments), waker=self.engine.waker)

    # -- outbound webhooks -----------------------------------------------------------------------------------------

    async def publish(
        self, type: str, data: Any, *, key: str | None = None, channels: Sequence[str] = ()
    ) -> outbox.Published:
        """Tell every endpoint of the organization that asked for this type, if and only if this commits.

        The same `key` again publishes nothing and gives the first one back.
        """
        return await outbox.publish(
            self,
            type,
            data,
            key=key,
            channels=channels,
            catalogue=self.engine.event_types,
            waker=self.engine.waker,
        )

    def _item(self, what: JobTask | Order, arguments: dict[str, Any]) -> work.Item:
        caused_by = None if self.cause is None else self.cause.id
        return work.item(what, arguments, organization=self.organization, caused_by=caused_by)

"""What a handler causes things with. All of it is written through one transaction, and exists when that commits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast
from uuid import UUID

from onceward import ledger, limits, live, messages, outbox, trust, work, workflows
from onceward.db import Cause, Connection, Role, Transaction
from onceward.ledger import Entry, Journal
from onceward.messages import ChannelName, Queued, Sending
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
        """The same job many times."""
        caused_by = None if self.cause is None else self.cause.id
        done = await work.insert_alike(self.conn, what, arguments, organization=self.organization, caused_by=caused_by)
        if done:
            self.after_commit(partial(self.engine.waker.wake, work.queue_of(what)))
        return done

    async def enqueue_then(
        self, members: Sequence[tuple[JobTask | Order, dict[str, Any]]], then: JobTask | Order, /, **arguments: Any
    ) -> Enqueued:
        """Enqueue all members; `then` runs when every one of them is finished, whichever way it ended."""
        items = [self._item(what, each) for what, each in members]
        return await work.bundle(self, items, self._item(then, arguments), waker=self.engine.waker)

    async def start_workflow(
        self, what: workflows.WorkflowTask | workflows.Start, /, **arguments: Any
    ) -> workflows.Started:
        """A workflow, in this commit. `refund_cohort.once("key")` carries options."""
        caused_by = None if self.cause is None else self.cause.id
        wanted = workflows.wanted(what, arguments, organization=self.organization, caused_by=caused_by)
        return await workflows.start(self, wanted, wake=self.engine.waker.wake)

    async def signal_workflow(self, id: int, name: str, payload: Any = None, /) -> str:
        """Answer a workflow's `wait_for`, or keep the signal for it: `delivered`, `kept`, or `gone`."""
        return await workflows.signal(self, id, name, payload, wake=self.engine.waker.wake)

    async def announce(self, name: str, payload: Any, /) -> list[int]:
        """Answer every workflow of this organization whose `wait_for(name, match=...)` fits; returns their ids."""
        return await workflows.announce(self, name, payload, wake=self.engine.waker.wake)

    async def send(
        self,
        template: str,
        *,
        to: Any,
        key: str,
        data: Mapping[str, Any] | None = None,
        channel: ChannelName | Literal["preferred"] | None = None,
        locale: str | None = None,
        not_before: datetime | None = None,
    ) -> Queued:
        """A message, in this commit. The same key twice is one message, ever; `to` is an address, a ref or a person.

        Without a `channel` the template's; "preferred" is the one that the recipient (a ref) has chosen, if any.
        """
        if channel == "preferred":
            channel = cast("ChannelName | None", await messages.preferred_channel(self, str(to)))
        sending = Sending(to=to, key=key, data=data or {}, locale=locale, not_before=not_before)
        [done] = await self.send_many(template, [sending], channel=channel)
        return done

    async def send_many(
        self, template: str, sendings: Sequence[Sending], /, *, channel: ChannelName | None = None
    ) -> list[Queued]:
        """The same template to many, in few statements."""
        found = self.engine.templates.get(template)
        return await messages.queue(self, found, sendings, channel=channel, waker=self.engine.waker)

    async def cancel_message(self, key: str, *, reason: str = "cancelled") -> bool:
        """Keep a queued message from being sent. False: too late, or there is none."""
        return await messages.cancel(self, key, reason=reason)

    async def notify_admins(
        self,
        type: str,
        severity: str,
        title: str,
        details: Mapping[str, Any] | None = None,
        channels: Sequence[ChannelName] | None = None,
        *,
        audience: messages.Audience = "admin",
    ) -> int:
        """Tell the administrators, in this commit. Many of one type shortly after each other become one message.

        `audience` fraud, accounting or security reaches those who are set for it, or else the administrators.
        """
        return await messages.notify_admins(self, type, severity, title, details, channels, audience=audience)

    async def reserve(
        self,
        job: Enqueued | int,
        /,
        *,
        key: str,
        tier: str | None = None,
        at_most: int | None = None,
        everywhere: bool = True,
    ) -> None:
        """An admission slot for a job of this commit, held until the job ends; raises `LimitReached` (429) if none.

        `at_most` slots under the key, or as many as the tier allows; with `everywhere` one of the global limit too.
        """
        id = job if isinstance(job, int) else job.id
        number = at_most if at_most is not None else self.engine.tiers.of(tier)
        wanted = [limits.Limit(key, number), *([limits.Limit(limits.GLOBAL)] if everywhere else [])]
        early = self.engine.early
        try:
            if early is not None:
                await early.check(wanted, self.organization)
            await limits.reserve(self, id, wanted)
        except limits.LimitReached as refused:
            self.engine.note_refusal(refused, {"tier": tier, "user_limit": number, "requested_by": key})
            raise
        if early is not None:
            self.after_commit(lambda: self.engine.later(early.note(wanted, self.organization, id)))

    # -- outbound webhooks -----------------------------------------------------------------------------------------

    async def publish(
        self,
        type: str,
        data: Any,
        *,
        key: str | None = None,
        channels: Sequence[str] = (),
        endpoint: UUID | None = None,
    ) -> outbox.Published:
        """Tell every endpoint of the organization that asked for this type, if and only if this commits.

        The same `key` again publishes nothing and gives the first one back. `endpoint` addresses a single one, such as
        `outbox.endpoints.for_url(...)` made for an address that came with a request.
        """
        return await outbox.publish(
            self,
            type,
            data,
            key=key,
            channels=channels,
            endpoint=endpoint,
            catalogue=self.engine.event_types,
            waker=self.engine.waker,
        )

    async def act_for(self, organization: UUID | str, /) -> None:
        """On a platform-wide source: from here on this transaction is one organization's. Once, audited."""
        await trust.act_for(self, organization)

    async def audit(
        self,
        action: str,
        *,
        entity_type: str,
        entity_id: object,
        changes: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """An audit entry, in this commit. Without an `actor` it is what caused the transaction."""
        await trust.record(
            self,
            action,
            entity_type=entity_type,
            entity_id=entity_id,
            changes=changes,
            metadata=metadata,
            reason=reason,
            actor=actor,
        )

    async def post(
        self, entries: Sequence[Entry], /, *, key: str | None = None, memo: str | None = None, pending: bool = False
    ) -> Journal:
        """A journal of ledger entries, in this commit. Without a key it is the one journal of what caused all this."""
        if key is None:
            if self.cause is None:
                raise ledger.InvalidEntry("nothing caused this transaction: give the journal a key")
            key = self.cause.key("post")
        return await ledger.post(self, entries, key=key, memo=memo, pending=pending)

    async def broadcast(self, topic: str, payload: Any, /) -> None:
        """A message to everyone who follows `topic`, in this commit; never sent if it rolls back."""
        await live.broadcast(self, topic, payload)
        self.engine.wakes_live = True

    async def version(self) -> str:
        """What to hand to the client that asked for this write: it can wait until its live results include it."""
        return str(await self.fetchval("select pg_current_xact_id()::text"))

    async def commit(self, last: str = "", *, then: Transaction | None = None) -> None:
        await super().commit(last, then=then)
        if self.engine.wakes_live:
            self.engine.waker.wake(live.WAKE)

    def _item(self, what: JobTask | Order, arguments: dict[str, Any]) -> work.Item:
        caused_by = None if self.cause is None else self.cause.id
        return work.item(what, arguments, organization=self.organization, caused_by=caused_by)

"""The transaction of a handler. Everything that a handler causes is written through it and takes effect at its
commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar, cast
from uuid import UUID

from onceward import ledger, limits, live, messages, outbox, trust, work, workflows
from onceward.db import Cause, Connection, Role, Transaction
from onceward.ledger import Entry, Journal
from onceward.messages import Attachment, ChannelName, Queued, Sending
from onceward.payments.requests import TxPayments
from onceward.telemetry.caller import caller_fields
from onceward.work import BoundJob, ConfiguredJob, Enqueued
from onceward.workflows import ConfiguredWorkflow, Started

if TYPE_CHECKING:
    from onceward.engine import Engine

P = ParamSpec("P")
R = TypeVar("R")


class Tx(Transaction):
    """A database transaction that can also enqueue, send, publish, broadcast, post and audit.

    Each of these takes effect if and only if the transaction commits.
    """

    __slots__ = ("engine",)

    def __init__(
        self,
        conn: Connection,
        engine: Engine,
        *,
        role: Role = "app",
        organization: UUID | None = None,
        cause: Cause | None = None,
        idle_limit_s: float | None = None,
    ) -> None:
        super().__init__(conn, role=role, organization=organization, cause=cause, idle_limit_s=idle_limit_s)
        self.engine = engine

    @property
    def payments(self) -> TxPayments:
        """Open pages on which people pay, refund payments and read them (docs/payments.md)."""
        return TxPayments(self)

    async def enqueue(self, job: ConfiguredJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue a job with its arguments. Set options on the job: `remind.schedule_in(hours=24).unique("key")`."""
        if args:
            raise work.positional(job.name)
        caused_by = None if self.cause is None else self.cause.id
        entry = work.item(job, kwargs, organization=self.organization, caused_by=caused_by)
        [done] = await work.insert(self.conn, [entry])
        self.after_commit(partial(self.engine.waker.wake, entry.queue))
        return done

    async def enqueue_many(self, calls: Iterable[BoundJob[R]], /) -> list[Enqueued[R]]:
        """Enqueue calls of any mix of jobs: `[pack.call(order=1), pack.call(order=2)]`, in few statements."""
        calls = list(calls)
        caused_by = None if self.cause is None else self.cause.id
        entries = work.items(calls, organization=self.organization, caused_by=caused_by)
        done = await work.insert(self.conn, entries, count=len(calls))
        for queue in work.queues_of(calls):
            self.after_commit(partial(self.engine.waker.wake, queue))
        return done

    async def enqueue_then(self, members: Iterable[BoundJob[Any]], then: BoundJob[R], /) -> Enqueued[R]:
        """Enqueue all members. `then` runs when every member has finished, whether it succeeded or failed."""
        items = [self._item(member) for member in members]
        return await work.bundle(self, items, self._item(then), waker=self.engine.waker)

    async def start_workflow(
        self, workflow: ConfiguredWorkflow[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Started[R]:
        """Start a workflow with its arguments. Set options on the workflow: `refund_cohort.unique("key")`."""
        if args:
            raise work.positional(workflow.name)
        caused_by = None if self.cause is None else self.cause.id
        request = workflows.start_request(workflow, kwargs, organization=self.organization, caused_by=caused_by)
        return await workflows.start(self, request, wake=self.engine.waker.wake)

    async def signal_workflow(self, id: int, name: str, payload: Any = None, /) -> str:
        """Send a signal to a workflow. Returns `delivered`, `kept` (until the workflow waits for it) or `gone`."""
        return await workflows.signal(self, id, name, payload, wake=self.engine.waker.wake)

    async def announce(self, name: str, payload: Any, /) -> list[int]:
        """Signal every workflow of this organization whose `wait_for(name, match=...)` matches. Returns their ids."""
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
        expires_at: datetime | None = None,
        within: timedelta | None = None,
        attachments: Sequence[Attachment] = (),
    ) -> Queued:
        """Queue a message. A key is used for one message only, ever. `to` is an address, a ref or a person.

        The default `channel` is the template's; "preferred" is the channel that the recipient (a ref) has chosen.
        `attachments` are files of the file store that go with a mail. A message that was not sent before `expires_at`,
        or `within` this time from `not_before` (without it: from now), is never sent and ends as `expired`.
        """
        if channel == "preferred":
            channel = cast("ChannelName | None", await messages.preferred_channel(self, str(to)))
        sending = Sending(
            to=to,
            key=key,
            data=data or {},
            locale=locale,
            not_before=not_before,
            expires_at=await messages.deadline(self, expires_at=expires_at, within=within, not_before=not_before),
            attachments=attachments,
        )
        [done] = await self.send_many(template, [sending], channel=channel)
        return done

    async def send_many(
        self, template: str, sendings: Sequence[Sending], /, *, channel: ChannelName | None = None
    ) -> list[Queued]:
        """Queue messages from one template to many recipients, in few statements."""
        loaded = self.engine.templates.get(template)
        return await messages.queue(self, loaded, sendings, channel=channel, waker=self.engine.waker)

    async def cancel_message(self, key: str, *, reason: str = "cancelled") -> bool:
        """Cancel a queued message. Returns False if it does not exist or can no longer be cancelled."""
        return await messages.cancel(self, key, reason=reason)

    async def cancel_messages(self, keys: Sequence[str], *, reason: str = "cancelled") -> int:
        """Cancel many queued messages in one statement. Returns how many of them were cancelled."""
        return await messages.cancel_many(self, keys, reason=reason)

    async def report_delivery(
        self, *, status: str, reference: str | None = None, key: str | None = None, error: str | None = None
    ) -> messages.DeliveryReport | None:
        """Apply a service's report (`delivered`, `failed`, ...) to a message and run the `on_message` hooks.

        `reference` is the id of the message at the service; `key` is ours: `message:<id>:send`. Sources of an
        integration with delivery reports do this without a handler. Returns None if there is no such message.
        """
        hooks = self.engine.registry.message_hooks
        return await messages.report_delivery(
            self, status=status, reference=reference, key=key, error=error, hooks=hooks
        )

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
        """Notify the administrators. Several notifications of one type within a short time become one message.

        The audiences fraud, accounting and security have recipients of their own in the settings; without them, the
        administrators are notified.
        """
        return await messages.notify_admins(self, type, severity, title, details, channels, audience=audience)

    async def reserve(
        self,
        job: Enqueued[Any] | int,
        /,
        *,
        key: str,
        at_most: int = 1,
        everywhere: bool = True,
        refusal: limits.Refusal | None = None,
    ) -> None:
        """Reserve an admission slot for a job of this transaction until the job ends, or raise `LimitReached` (429).

        The key has `at_most` slots. With `everywhere`, the job also takes a global slot. A refusal is recorded in
        `system_metrics` with the limits and the caller; `refusal` adds a user, a subject and other fields.
        """
        id = job if isinstance(job, int) else job.id
        needed = [limits.Limit(key, at_most), *([limits.Limit(limits.GLOBAL)] if everywhere else [])]
        try:
            await limits.reserve(self, id, needed)
        except limits.LimitReached as refused:
            caller = {name: value for name, value in caller_fields().items() if name in ("request", "user")}
            recorded = {"key_limit": at_most, "requested_by": key, **caller}
            self.engine.note_refusal(refused, recorded, refusal)
            raise

    async def run_now(self, job: Enqueued[Any] | int, /) -> bool:
        """Make a waiting job due at once, whatever it waits for. False: it runs already, or has ended."""
        id = job if isinstance(job, int) else job.id
        return bool(await self.fetchval("select onceward.run_now($1)", id))

    async def cancel(self, job: Enqueued[Any] | int, /) -> str:
        """Cancel a job of this organization. Returns `cancelled`, `asked` (it runs; its worker stops it) or `gone`."""
        id = job if isinstance(job, int) else job.id
        return str(await self.fetchval("select onceward.cancel($1)", id))

    # -- outbound webhooks -----------------------------------------------------------------------------------------

    async def publish(
        self,
        type: str,
        data: Any,
        *,
        key: str | None = None,
        channels: Sequence[str] = (),
        endpoint: UUID | None = None,
        url: str | None = None,
    ) -> outbox.Published:
        """Publish an event to every endpoint of the organization that subscribes to this type.

        A second call with the same `key` publishes nothing and returns the first event. `endpoint` limits the event to
        one endpoint. `url` sends it to one address, such as the `webhookUrl` of a request. The address is checked like
        that of any endpoint: `outbox.Invalid` says why it is refused. Its endpoint is created by the same commit.
        """
        if url is not None:
            if endpoint is not None:
                raise outbox.Invalid("url", "cannot be combined with endpoint: publish to one of the two")
            endpoint = await self._endpoint_for(url)
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

    async def _endpoint_for(self, url: str) -> UUID:
        if self.engine.endpoints is None:
            raise outbox.OutboxError("tx.publish(url=...) needs an outbox: run it in a process of Onceward")
        actor = "app" if self.cause is None else f"{self.cause.kind}:{self.cause.id}"
        return await self.engine.endpoints.for_url_in(self, url, actor=actor)

    async def act_for(self, organization: UUID | str, /) -> None:
        """Bind this transaction to one organization, for an event of a platform-wide source. Once only; audited."""
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
        user_id: str | None = None,
    ) -> None:
        """Write an audit entry. The default `actor` is the cause of the transaction; `user_id` is the person behind."""
        await trust.record(
            self,
            action,
            entity_type=entity_type,
            entity_id=entity_id,
            changes=changes,
            metadata=metadata,
            reason=reason,
            actor=actor,
            user_id=user_id,
        )

    async def audit_many(
        self,
        action: str,
        *,
        entity_type: str,
        changes: Mapping[object, Mapping[str, Any]],
        reason: str | None = None,
        actor: str | None = None,
    ) -> None:
        """Write one audit entry for each entity, in one statement. `changes` maps the id of an entity to its
        changes."""
        await trust.record_many(self, action, entity_type=entity_type, changes=changes, reason=reason, actor=actor)

    async def post(
        self, entries: Sequence[Entry], /, *, key: str | None = None, memo: str | None = None, pending: bool = False
    ) -> Journal:
        """Post a journal of ledger entries. Without a key, the cause of the transaction can post one journal only."""
        if key is None:
            if self.cause is None:
                raise ledger.InvalidEntry("this transaction has no cause to derive a key from: give the journal a key")
            key = self.cause.key("post")
        return await ledger.post(self, entries, key=key, memo=memo, pending=pending)

    async def broadcast(self, topic: str, payload: Any, /) -> None:
        """Send a message to every subscriber of `topic`."""
        await live.broadcast(self, topic, payload)
        self.engine.wakes_live = True

    async def version(self) -> str:
        """Return the version of this write. A client can wait until its live results include this version."""
        return str(await self.fetchval("select pg_current_xact_id()::text"))

    def committed(self) -> None:
        if self.engine.wakes_live:
            self.engine.waker.wake(live.WAKE)

    def _item(self, call: BoundJob[Any]) -> work.Item:
        caused_by = None if self.cause is None else self.cause.id
        return work.item(call.job, call.arguments, organization=self.organization, caused_by=caused_by)

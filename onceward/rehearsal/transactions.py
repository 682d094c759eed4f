"""The database of a rehearsal: every transaction that a handler opens is a part of one, which is never committed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

from onceward import exact_json, limits, workflows
from onceward.db import Cause, Connection, Database, Role, Transaction
from onceward.engine import Engine
from onceward.http.errors import HttpError
from onceward.http.urls import parse_url
from onceward.ledger import Entry, Journal
from onceward.messages import Queued, Sending
from onceward.messages.recipient import ChannelName, as_recipient
from onceward.outbox import Endpoints, Invalid, Published
from onceward.rehearsal.connection import PART, RehearsalConnection
from onceward.rehearsal.effects import EntryEffect, JobEffect, JournalEffect, MessageEffect, PublishedEffect
from onceward.rehearsal.mask import masked
from onceward.trust.secrets import SecretBox
from onceward.tx import Tx
from onceward.work import BoundJob, Claimed, ConfiguredJob, Enqueued, Waker, insert, item, positional, queue_of

P = ParamSpec("P")
R = TypeVar("R")

_HOLDER: ContextVar[object | None] = ContextVar("holder of the rehearsal's connection", default=None)


class SilentWaker(Waker):
    """Wakes nobody: what a rehearsal enqueues is rolled back."""

    def wake(self, queue: str) -> None:
        """Do nothing."""

    async def start(self) -> None:
        """Listen to nobody."""


class _Part(Transaction):
    """A transaction whose begin, commit and rollback are those of a savepoint."""

    __slots__ = ()

    @property
    def savepoint_name(self) -> str:
        return f"{PART}{id(self)}"

    def _note(self, *, is_open: bool) -> None:
        """Tell the rehearsal for whom its handler acts."""
        watch = cast("RehearsalConnection", self.conn).rehearsed
        if watch is not None and is_open:
            watch.entered(self.role, self.organization)
        elif watch is not None:
            watch.left()

    async def open(self, first: str = "", last: str = "") -> str:
        """Set a savepoint, and role and organization, in one round trip."""
        tag = await self.conn.execute(f"savepoint {self.savepoint_name}; {self.opening(first, last)[len('begin; ') :]}")
        self._opened = True
        self._note(is_open=True)
        return tag

    async def commit(self, last: str = "", *, then: Transaction | None = None) -> None:
        """Keep what was written in the rehearsal, and act as the engine again. Calls of `after_commit` are dropped."""
        reset = "set local onceward.organization = ''; set local onceward.cause = ''"
        await self.conn.execute(
            f"{self.leaving()}; {last and f'{last}; '}release savepoint {self.savepoint_name}; {reset}"
        )
        self._opened = False
        self._note(is_open=False)
        self._after.clear()
        if then is not None:
            await then.open()

    async def rollback(self) -> None:
        """Undo what was written since `open`."""
        if not self._opened:
            return
        self._opened = False
        self._after.clear()
        name = self.savepoint_name
        try:
            await self.conn.execute(f"rollback to savepoint {name}; release savepoint {name}")
        finally:
            self._note(is_open=False)


class RehearsalTransaction(_Part):
    """A plain transaction of the engine inside a rehearsal."""

    __slots__ = ()


class RehearsalTx(_Part, Tx):
    """The `Tx` of a handler inside a rehearsal. It notes effects whose keys exist already: they leave no row."""

    __slots__ = ()

    engine: RehearsalEngine

    async def enqueue(self, job: ConfiguredJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue a job, or note that its unique key exists."""
        done = await super().enqueue(job, *args, **kwargs)
        if done.duplicate:
            self.engine.note_duplicate(job, kwargs)
        return done

    async def enqueue_many(self, calls: Iterable[BoundJob[R]], /) -> list[Enqueued[R]]:
        """Enqueue jobs, and note those whose unique key exists."""
        calls = list(calls)
        done = await super().enqueue_many(calls)
        for call, each in zip(calls, done, strict=True):
            if each.duplicate:
                self.engine.note_duplicate(call.job, call.arguments)
        return done

    async def send_many(
        self, template: str, sendings: Sequence[Sending], /, *, channel: ChannelName | None = None
    ) -> list[Queued]:
        """Queue messages, and note those whose key exists."""
        done = await super().send_many(template, sendings, channel=channel)
        used = channel or self.engine.templates.get(template).channel
        for sending, each in zip(sendings, done, strict=True):
            if each.duplicate:
                name = masked(as_recipient(sending.to, used).name(used))
                self.engine.existing.append(MessageEffect(template, used, name, sending.key, existing=True))
        return done

    async def publish(
        self,
        type: str,
        data: Any,
        *,
        key: str | None = None,
        channels: Sequence[str] = (),
        endpoint: UUID | None = None,
        url: str | None = None,
    ) -> Published:
        """Publish an event, or note that its key exists."""
        done = await super().publish(type, data, key=key, channels=channels, endpoint=endpoint, url=url)
        if done.duplicate:
            self.engine.existing.append(PublishedEffect(type, data, key, done.deliveries, existing=True))
        return done

    async def post(
        self, entries: Sequence[Entry], /, *, key: str | None = None, memo: str | None = None, pending: bool = False
    ) -> Journal:
        """Post a journal, or note that its key exists."""
        done = await super().post(entries, key=key, memo=memo, pending=pending)
        if not done.fresh:
            posted = tuple(EntryEffect(e.debit, e.credit, e.amount, e.currency) for e in entries)
            kind = "pending" if pending else "posted"
            self.engine.existing.append(JournalEffect(done.key, kind, posted, memo, existing=True))
        return done

    def committed(self) -> None:
        """Wake nobody."""


class RehearsalDatabase(Database):
    """One connection in place of a pool. Statements of several tasks follow each other on it."""

    def __init__(self, conn: Connection, like: Database) -> None:
        self._conn = conn
        self.url = like.url
        self.pgbouncer = like.pgbouncer
        self._free = asyncio.Lock()

    async def borrow(self) -> Connection:
        """Return the connection of the rehearsal."""
        return self._conn

    async def give_back(self, conn: Connection) -> None:
        """Do nothing: the rehearsal owns the connection."""

    @property
    def crowded(self) -> bool:
        return False

    @property
    def most_connections(self) -> int:
        return 1

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """Lend the connection to one task at a time. What that task has started may use it too."""
        if _HOLDER.get() is self:
            yield self._conn
            return
        async with self._free:
            token = _HOLDER.set(self)
            try:
                yield self._conn
            finally:
                _HOLDER.reset(token)

    @asynccontextmanager
    async def transaction(
        self, *, role: Role = "app", organization: UUID | None = None, cause: Cause | None = None
    ) -> AsyncGenerator[Transaction]:
        """Open a part of the rehearsal."""
        async with (
            self.acquire() as conn,
            RehearsalTransaction(conn, role=role, organization=organization, cause=cause) as tx,
        ):
            yield tx


class RehearsalEndpoints(Endpoints):
    """The endpoints of `tx.publish(url=...)` in a rehearsal: no address is looked up, no secret is kept."""

    def __init__(self, db: Database) -> None:
        client: Any = None  # nothing is sent
        super().__init__(db, box=SecretBox([secrets.token_hex(32)]), client=client)

    async def _checked(self, url: str) -> str:
        try:
            return str(parse_url(url, allow_loopback_http=True).url)
        except HttpError as error:
            raise Invalid("url", error.reason) from None


class RehearsalEngine(Engine):
    """The engine that handlers get in a rehearsal."""

    def __init__(self, like: Engine, db: RehearsalDatabase) -> None:
        super().__init__(db, like.registry, waker=SilentWaker(db, notify=False), event_types=like.event_types)
        self.sealed_columns = like.sealed_columns
        self.endpoints = RehearsalEndpoints(db)
        self._templates = like.templates
        self.existing: list[Any] = []
        """Effects that the handler asked for and that exist already."""

    def note_duplicate(self, job: ConfiguredJob[..., Any], arguments: dict[str, Any]) -> None:
        """Note a job that exists already."""
        key = job.options.unique_key
        plain = exact_json.loads(job.job.dump(arguments))
        self.existing.append(JobEffect(job.name, plain, queue_of(job), key, existing=True))

    def open_tx(self, conn: Connection, work: Claimed) -> RehearsalTx:
        """Return the transaction of a handler as a part of the rehearsal."""
        return RehearsalTx(conn, self, organization=work.organization, cause=work.cause)

    @asynccontextmanager
    async def transaction(self, *, organization: UUID | None = None, cause: Cause | None = None) -> AsyncGenerator[Tx]:
        """Open a `Tx` as a part of the rehearsal."""
        async with self.db.acquire() as conn, RehearsalTx(conn, self, organization=organization, cause=cause) as tx:
            yield tx

    async def enqueue(self, job: ConfiguredJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Enqueued[R]:
        """Enqueue one job as a part of the rehearsal."""
        if args:
            raise positional(job.name)
        async with self.db.transaction(role="engine") as tx:
            [done] = await insert(tx.conn, [item(job, kwargs)])
        if done.duplicate:
            self.note_duplicate(job, kwargs)
        return done

    async def start_workflow(
        self, workflow: workflows.ConfiguredWorkflow[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> workflows.Started[R]:
        """Start one workflow as a part of the rehearsal."""
        if args:
            raise positional(workflow.name)
        async with self.db.transaction(role="engine") as tx:
            [started] = await workflows.insert(tx.conn, [workflows.start_request(workflow, kwargs)])
        return started

    def note_refusal(
        self, refused: limits.LimitReached, metadata: dict[str, Any], refusal: limits.Refusal | None = None
    ) -> None:
        """Note nothing: the refusal is part of the result."""

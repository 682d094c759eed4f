"""Rehearse work: run its handler in a transaction that is always rolled back, and return what it would have caused.

    begin ─▶ seal ─▶ handler ─▶ deferred checks ─▶ read what it wrote ─▶ roll back

The seal is a row whose deferred trigger refuses every COMMIT, so not even a mistake of ours could commit a rehearsal.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import asyncpg
import structlog

from onceward.db import Connection, Database
from onceward.db.lost import is_gone
from onceward.db.transaction import to_its_end
from onceward.engine import Engine
from onceward.outside import OutsideCall, OutsideRefused
from onceward.rehearsal.causes import effects_of
from onceward.rehearsal.conflicts import CONFLICTS, Conflict, is_committed, table_of
from onceward.rehearsal.connection import RehearsalConnection, RehearsalWatch, SeenKeys
from onceward.rehearsal.effects import UNHANDLED, Effects, Failure, Rehearsal, State, stored
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.outside_calls import RefusedCalls, refusing, unwatched_library
from onceward.rehearsal.recorded_work import RecordedWork
from onceward.rehearsal.relations import read_relations
from onceward.rehearsal.row_changes import RowRecorder, Written
from onceward.rehearsal.settings import RehearsalSettings
from onceward.rehearsal.simulator_addresses import SimulatorAddresses
from onceward.rehearsal.tasks import task_named
from onceward.rehearsal.transactions import RehearsalDatabase, RehearsalEngine
from onceward.statements import named, read_statement
from onceward.telemetry.logs import running
from onceward.work import Claimed, Host, JobEnd, Retry, Snooze, Task, TimedOut
from onceward.work.claim import new_lease
from onceward.work.failure_text import kept_frames, loggable, own_frame
from onceward.work.isolation import Isolation
from onceward.work.outcomes import Settled
from onceward.work.task import BatchResults
from onceward.work.threads import HandlerThreads

DEFERRED = read_statement("rehearsal", "deferred_constraints")
HOLD = named(read_statement("rehearsal", "hold_work"))
SEAL = "insert into onceward.rehearsal_seals (work_id) values ({id})"
NOT_READ = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, TimeoutError)
GRACE_MS = 1000
"""After the timeout of the rehearsal, the server itself ends the session: this process may be stopped or busy."""
RELATIONS_KEPT_S = 60.0
WITH_WHOLE_LIMIT = 17
"""Since this version PostgreSQL limits a whole transaction; before, single statements and pauses between them."""
MANY = 2

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Run:
    """What a handler did in one rehearsal."""

    result: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    written: Written | None = None
    effects: Effects | None = None
    at: datetime | None = None
    is_conflict_committed: bool = False
    """Whether a unique key made the handler fail whose row others see: this is not its first run."""


class HookFailed(RehearsalError):
    """The handler works, and its `on_end` hook would fail: it becomes a job of its own."""


class NoProcesses:
    """Starts no process for a job with `process=True`: what it does there cannot be seen or refused."""

    async def call(self, isolation: Isolation, *_: Any) -> Any:
        """Refuse the call."""
        raise OutsideRefused(OutsideCall("RUN", f"process {isolation.module}.{isolation.qualname}"))


class Rehearser:
    """Rehearses work one after the other, on two connections of its own."""

    def __init__(
        self,
        engine: Engine,
        settings: RehearsalSettings | None = None,
        *,
        simulators: Mapping[str, str] | None = None,
    ) -> None:
        self._like = engine
        self._settings = settings or RehearsalSettings()
        self._simulators = SimulatorAddresses.of(simulators)
        self._conn: Any = None
        self._outside: Connection | None = None
        self._recorder: RowRecorder | None = None
        self._recorder_until = 0.0
        self._deferred: list[str] = []
        self._threads = HandlerThreads()

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for conn in (self._conn, self._outside):
            if conn is not None and not is_gone(conn):
                await conn.close()

    async def rehearse(self, recorded: RecordedWork) -> Rehearsal:
        """Run the handler of this work and return what it would cause. Nothing of it is committed."""
        task = None if recorded.task is None else task_named(self._like.registry, recorded.task)
        if task is None and recorded.kind == "event":  # a worker acknowledges it, and nothing happens
            return _rehearsal(recorded, "nothing", Effects(), result=UNHANDLED)
        if task is None:
            failure = Failure("NoHandler", f"the app has no handler for {recorded.claimed.task}")
            return _rehearsal(recorded, "failed", Effects(), failure=failure)
        calls = RefusedCalls(self._simulators)
        engine = RehearsalEngine(self._like, RehearsalDatabase(await self._connection(), self._like.db))
        watch = RehearsalWatch(recorded.claimed.organization)
        run = await self._run(engine, task, recorded, calls, watch)
        return _judged(recorded, run, calls, watch)

    async def _run(
        self, engine: RehearsalEngine, task: Task, recorded: RecordedWork, calls: RefusedCalls, watch: RehearsalWatch
    ) -> _Run:
        conn, recorder, run = self._conn, self._recorder, _Run()
        assert recorder is not None
        limit_s = self._settings.rehearsal_timeout_s
        until = time.monotonic() + limit_s
        await conn.execute(f"{self._begin(conn)}; {SEAL.format(id=int(recorded.id))}")
        try:
            try:
                await self._hold(recorded)
            except asyncpg.LockNotAvailableError:
                run.error = Snooze(0, "a worker runs it at the moment")
                return run
            run.at = await recorder.begin()
            conn.seen = SeenKeys()
            conn.watch(watch)
            conn.rehearsed = watch
            began = time.monotonic()
            try:
                handler_s = min(task.timeout_s or limit_s, max(0.0, until - began))
                with refusing(calls):
                    run.result = await self._handle(engine, task, recorded, handler_s, calls)
            except Settled:
                pass  # the handler has written its outcome itself
            except (Exception, OutsideRefused, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and (this := asyncio.current_task()) and this.cancelling():
                    raise
                run.error = error
            finally:
                conn.watch(None)
                conn.rehearsed = None
                run.seconds = time.monotonic() - began
            seen, conn.seen = conn.seen, None
            if run.error is None or isinstance(run.error, OutsideRefused | Snooze):
                try:
                    async with asyncio.timeout_at(asyncio.get_running_loop().time() + until - time.monotonic()):
                        await self._read(run, engine, seen, calls, recorded.id)
                except NOT_READ:
                    run.effects = None
                    run.error = TimedOut(f"what the handler wrote was not found within {limit_s:g} s of its start")
            if isinstance(run.error, CONFLICTS):
                run.is_conflict_committed = await self._is_committed(run.error)
        finally:
            conn.seen = None
            if not is_gone(conn):
                await to_its_end(conn, self._roll_back())
        return run

    def _begin(self, conn: Connection) -> str:
        """Return the statements that begin a rehearsal and bound how long it holds its locks."""
        limit_ms = round(self._settings.rehearsal_timeout_s * 1000)
        whole = f" set local transaction_timeout = {limit_ms + GRACE_MS};" if _knows_whole_limit(conn) else ""
        return (
            f"begin; set local lock_timeout = {self._settings.rehearsal_lock_wait_ms};"
            f" set local statement_timeout = {limit_ms};{whole}"
            f" set local idle_in_transaction_session_timeout = {limit_ms + GRACE_MS};"
            " set local synchronous_commit = off"
        )

    async def _is_committed(self, conflict: Conflict) -> bool:
        """Return whether others have committed the row that holds the unique key."""
        assert self._recorder is not None
        assert self._outside is not None
        try:
            written = await self._recorder.writes_to(table_of(conflict))
        except asyncpg.InFailedSQLTransactionError:
            written = MANY
        try:
            return await is_committed(self._outside, conflict, written=written)
        except asyncpg.PostgresError as error:
            log.info("rehearsal.conflict_unknown", constraint=conflict.constraint_name, error=str(error))
            return False

    async def _hold(self, recorded: RecordedWork) -> None:
        """Take a lease on the work, as a worker does. Raises `LockNotAvailableError` while a worker runs it."""
        work = recorded.claimed
        work.lease = new_lease()
        values = HOLD.values(
            id=work.id,
            organization=work.organization,
            kind=work.kind,
            task=work.task,
            attempts=work.attempts,
            lease=work.lease,
        )
        await self._conn.execute(HOLD.text, *values)

    async def _handle(
        self, engine: RehearsalEngine, task: Task, recorded: RecordedWork, limit_s: float, calls: RefusedCalls
    ) -> Any:
        work = recorded.claimed
        work.db = engine.db
        work.open_tx = engine.open_tx
        processes: Any = NoProcesses()
        work.host = Host(engine.db, 0, engine.open_tx, engine.waker.wake, self._threads, processes)
        work.began_s = time.monotonic()
        work.prepared = None
        token = running.set(work)
        try:
            async with asyncio.timeout(limit_s):
                if task.prepare is not None:
                    work.prepared = task.prepare(work)
                given: Any = [work] if task.batch > 1 else work
                if not task.transactional:
                    if (library := unwatched_library()) is not None:
                        calls.call(OutsideCall("RUN", f"a handler without `tx`: {library} may open any connection"))
                    result = await task.run(given, None)
                else:
                    async with engine.open_tx(self._conn, work) as tx:
                        result = await task.run(given, tx)
                if task.batch > 1:  # its members have results of their own
                    result = result.values[0] if isinstance(result, BatchResults) else None
                await _end(engine, task, work, result)
                return result
        except TimeoutError as error:
            raise TimedOut(f"the handler ran longer than {limit_s:g} s") from error
        finally:
            running.reset(token)

    async def _read(self, run: _Run, engine: RehearsalEngine, seen: SeenKeys, calls: RefusedCalls, id: int) -> None:
        """Read what the handler wrote. A deferred constraint that fails here would fail at the commit."""
        conn, recorder = self._conn, self._recorder
        assert recorder is not None
        try:
            if self._deferred and run.error is None:
                await conn.execute(f"reset role; set constraints {', '.join(self._deferred)} immediate")
            else:
                await conn.execute("reset role")
        except asyncpg.PostgresError as error:
            run.error = error
            return
        run.written = (await recorder.written(seen)).without_work(id)
        run.effects = await effects_of(
            conn, run.written, templates=engine.templates, existing=engine.existing, outside=calls.calls
        )

    async def _roll_back(self) -> None:
        await self._conn.execute("rollback" if self._like.db.pgbouncer else "rollback; select pg_advisory_unlock_all()")

    async def _connection(self) -> Any:
        if is_gone(self._conn) or (self._outside is not None and is_gone(self._outside)):
            await self._open()
        elif time.monotonic() > self._recorder_until:  # a migration may have created tables
            await self._read_schema()
        return self._conn

    async def _open(self) -> None:
        db: Database = self._like.db
        self._conn = await db.connect(application_name="onceward-rehearsal", connection_class=RehearsalConnection)
        self._outside = await db.connect(application_name="onceward-rehearsal-reader")
        wait_ms = self._settings.rehearsal_lock_wait_ms
        limit_ms = round(self._settings.rehearsal_timeout_s * 1000)
        if not db.pgbouncer:  # there the setting would stay for other clients
            await self._outside.execute(f"set lock_timeout = {wait_ms}; set statement_timeout = {limit_ms}")
        await self._read_schema()

    async def _read_schema(self) -> None:
        assert self._outside is not None
        relations = await read_relations(self._outside)
        scan_bytes = self._settings.rehearsal_scan_mb << 20
        self._recorder = RowRecorder(self._conn, self._outside, relations, scan_bytes=scan_bytes)
        self._recorder_until = time.monotonic() + RELATIONS_KEPT_S
        self._deferred = [row["name"] for row in await self._outside.fetch(DEFERRED)]


def _knows_whole_limit(conn: Connection) -> bool:
    return conn.get_server_version().major >= WITH_WHOLE_LIMIT


async def _end(engine: RehearsalEngine, task: Task, work: Claimed, result: Any) -> None:
    """Run the `on_end` hook of work that would succeed. One that fails would become a job, and has no effects here."""
    hook = engine.registry.end_hooks.get(task.name)
    if hook is None:
        return
    end = JobEnd(
        id=work.id,
        task=task.name,
        arguments=work.args or {},
        outcome="success",
        reason=None,
        error=None,
        attempts=work.attempt,
        result=stored(result),
        organization=work.organization,
    )
    try:
        async with engine.db.acquire() as conn, engine.open_tx(conn, work) as tx:
            await hook.run(tx, end)
    except Exception as error:
        raise HookFailed(f"its on_end hook would fail and become a job: {type(error).__name__}: {error}") from error


def _judged(recorded: RecordedWork, run: _Run, calls: RefusedCalls, watch: RehearsalWatch) -> Rehearsal:
    effects = run.effects or Effects(outside=tuple(calls.calls))
    state: State
    failure, already = None, None
    match run.error:
        case None:
            state = "nothing" if effects.is_empty and not effects.outside else "caused"
            if calls.refused:  # in a thread, or the handler has caught it
                state = "outside"
        case OutsideRefused():
            state = "outside"
        case Snooze() | Retry():
            state, failure = "put_off", _failure(run.error)
        case _:
            state, failure = "failed", _failure(run.error)
    if isinstance(run.error, CONFLICTS) and recorded.outcome == "success" and run.is_conflict_committed:
        already = f"{run.error.constraint_name or 'a unique key'} of {run.error.table_name or 'a table'}"
    elif run.error is None and (existing := effects.existing()) and effects.is_empty:
        already = f"{len(existing)} effects exist already, by their keys"
    return _rehearsal(
        recorded,
        state,
        effects,
        result=run.result,
        failure=failure,
        already_done=already,
        duration_ms=round(run.seconds * 1000, 2),
        statements=watch.statements,
        crosses=watch.crosses or (run.written is not None and run.written.is_of_others(watch.organization)),
        locks=() if run.written is None else run.written.locks,
        locked_rows=0 if run.written is None else run.written.locked,
        at=run.at,
        generated=frozenset() if run.written is None else run.written.generated(),
    )


def _failure(error: BaseException) -> Failure:
    import traceback

    at = own_frame(kept_frames(traceback.extract_tb(error.__traceback__)))
    name = None if at is None else at.rpartition("/")[2]
    return Failure(type(error).__name__, loggable(str(error)), name)


def _rehearsal(recorded: RecordedWork, state: State, effects: Effects, **more: Any) -> Rehearsal:
    task = recorded.task or recorded.claimed.task
    return Rehearsal(recorded.id, recorded.kind, task, recorded.label, state, effects, **more)

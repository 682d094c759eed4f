"""Write the outcomes of attempts. The lease fences every statement; if it is lost, the outcome is `superseded`."""

from __future__ import annotations

import asyncio
import json
import time
import traceback
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, assert_never, cast

import asyncpg
import structlog

from onceward.background import Tasks
from onceward.db import Connection, Database, RawJson, clean_json, clean_text, dump_json, loudness, quote, retry
from onceward.work.attempt_outcome import (
    AttemptOutcome,
    CancelledOutcome,
    CrashedOutcome,
    DeadLetterOutcome,
    RetryOutcome,
    SnoozedOutcome,
    SuccessOutcome,
    UnknownOutcome,
    name_of,
)
from onceward.work.claimed import Claimed
from onceward.work.failure_text import kept_frames, permission_hint
from onceward.work.leases import Leases
from onceward.work.record import Written, is_refused, record
from onceward.work.statements import FINISH, RUN_AGAIN, SETTLE
from onceward.work.task import BatchResults

log = structlog.get_logger(__name__)

MAX_RESULT_BYTES = 64 << 10
MAX_MESSAGE = 4000


def describe(error: BaseException, reason: str | None = None) -> dict[str, Any]:
    """Return the type, message and stack of an error as JSON that PostgreSQL can store."""
    frames = traceback.extract_tb(error.__traceback__)
    kept: dict[str, Any] = {"type": clean_text(type(error).__name__), "message": _message(error)}
    if reason is not None:
        kept["reason"] = reason
    stack = [clean_text(frame) for frame in kept_frames(frames)]
    details: object = getattr(error, "details", None)
    if isinstance(details, dict):
        # The handler described this outcome itself: a stack would not help.
        return kept | _kept_details(cast("dict[str, Any]", details))
    kept["stack"] = stack
    if isinstance(error, asyncpg.PostgresError):
        kept["sqlstate"] = getattr(error, "sqlstate", None)
        kept["constraint"] = getattr(error, "constraint_name", None)
        if (hint := permission_hint(error)) is not None:
            kept["hint"] = hint
    return kept


def _message(error: BaseException) -> str:
    try:
        return clean_text(str(error)[:MAX_MESSAGE])
    except Exception as failure:  # the __str__ of a foreign exception may raise
        return f"the message of this error cannot be read: {type(failure).__name__}"


def _kept_details(details: dict[str, Any]) -> dict[str, Any]:
    try:
        text = clean_json(details)
    except (TypeError, ValueError) as error:
        return {"not_kept": clean_text(f"the details are not JSON: {error}")}
    if len(text) > MAX_RESULT_BYTES:
        return {"not_kept": f"the details take {len(text)} bytes, more than {MAX_RESULT_BYTES}"}
    return json.loads(text)  # unlike orjson, json keeps all digits of integers


def result_json(result: Any) -> str | None:
    """Return a handler's result as JSON that PostgreSQL can store, or a note (`not_kept`) that says why it cannot."""
    if result is None:
        return None
    try:
        text = clean_json(result)
    except (TypeError, ValueError) as error:
        return dump_json({"not_kept": clean_text(f"the result is not JSON: {error}")})
    if len(text) > MAX_RESULT_BYTES:
        return dump_json({"not_kept": f"the result takes {len(text)} bytes, more than {MAX_RESULT_BYTES}"})
    return text


def final_statement(work: Claimed, worker: int, result: Any) -> str:
    """Return the fenced acknowledgement as SQL text, for the round trip that commits a handler's transaction.

    It calls a procedure of the package that owns the kind.
    """
    text = None if result is None else result_json(result)
    kept = "null" if text is None else f"{quote(text)}::jsonb"
    started = f"clock_timestamp() - interval '{work.elapsed_s:.6f}'"
    return f"call onceward.succeed_{work.kind}({work.id}, {work.lease}, {worker}, {started}, {kept})"


def group_statement(group: Sequence[tuple[Claimed, Any]], worker: int) -> str:
    """Return the fenced acknowledgement of handlers that share a transaction, each with its result, as SQL text."""
    works = [work for work, _ in group]
    elapsed = ",".join(f"{work.elapsed_s:.6f}" for work in works)
    return _finish_batch(works, worker, results_json(group), f", '{{{elapsed}}}'")


def parted_statement(work: Claimed) -> str:
    """Return SQL that adds to the new success of work why its group had been rolled back before."""
    described = quote(dump_json({"group": work.parted}))
    newest = f"select a.ctid from onceward.attempts a where a.work_id = {work.id} order by a.finished_at desc limit 1"
    return f"; update onceward.attempts set error = {described}::jsonb where ctid = ({newest}) and outcome = 'success'"


def batch_statement(works: Sequence[Claimed], worker: int, results: Any) -> str:
    """Return the fenced acknowledgement of a batch as SQL text, for the round trip that commits the batch."""
    kept = None
    if isinstance(results, BatchResults):
        kept = result_json({str(work.id): value for work, value in zip(works, results.values, strict=True)})
    return _finish_batch(works, worker, kept, "")


def _finish_batch(works: Sequence[Claimed], worker: int, results: str | None, elapsed: str) -> str:
    ids = ",".join(str(work.id) for work in works)
    leases = ",".join(str(lease) for lease in {work.lease for work in works})
    kept = "null" if results is None else f"{quote(results)}::jsonb"
    return f"select onceward.finish_batch('{{{ids}}}', '{{{leases}}}', {worker}, {kept}{elapsed})"


def results_json(results: Iterable[tuple[Claimed, Any]]) -> str | None:
    """Return the results of several pieces of work as one JSON object by id, or None if none has a result."""
    kept = {work.id: result_json(result) for work, result in results if result is not None}
    return "{" + ",".join(f'"{id}":{text}' for id, text in kept.items()) + "}" if kept else None


async def settle(
    conn: Connection, work: Claimed, worker: int, outcome: AttemptOutcome, *, critical: bool = True
) -> bool:
    """Write one outcome. Return False if the lease was lost and nothing was written."""
    result: Any = None
    error: dict[str, Any] | None = None
    due_in_s = 0.0
    reason: str | None = None
    match outcome:
        case SuccessOutcome(result):
            pass
        case RetryOutcome(due_in_s, error) | SnoozedOutcome(due_in_s, error):
            pass
        case CrashedOutcome(due_in_s, error):
            reason = "connection_lost"
        case DeadLetterOutcome(reason, error, result):
            pass
        case CancelledOutcome(error) | UnknownOutcome(error):
            pass
        case _:
            assert_never(outcome)
    name = name_of(outcome, critical=critical)
    text = result_json(result)
    kept: bool = await conn.fetchval(
        SETTLE,
        work.id,
        work.lease,
        worker,
        name,
        work.elapsed_s,
        None if text is None else RawJson(text),
        None if error is None else RawJson(clean_json(error)),
        due_in_s,
        reason,
    )
    if not kept:
        log.info("work.superseded", kind=work.kind, id=work.id, task=work.task, outcome=name)
    return kept


class Acknowledger:
    """Collects successes for a few milliseconds and acknowledges them in one statement."""

    def __init__(
        self,
        db: Database,
        worker: int,
        leases: Leases,
        *,
        kinds: Mapping[str, Any] | None = None,
        most_at_once: int = 500,
        within_s: float = 0.005,
    ) -> None:
        self._db = db
        self._statements = {"job": FINISH} | {
            name: kind.finish for name, kind in (kinds or {}).items() if hasattr(kind, "finish")
        }
        self._worker = worker
        self._leases = leases
        self._most = most_at_once
        self._within_s = within_s
        self._ready: list[tuple[Claimed, Any]] = []
        self._flushing = Tasks("acknowledgement")
        self._timer: asyncio.TimerHandle | None = None

    def takes(self, work: Claimed, *, outside: bool) -> bool:
        """Return whether this success may be acknowledged together with others.

        A job may, unless it calls outside services or is in a bundle. Another kind may if it has a `finish` statement.
        """
        if work.bundle is not None:
            return False
        return not outside if work.kind == "job" else work.kind in self._statements

    def add(self, work: Claimed, result: Any) -> None:
        """Acknowledge this success with the next batch."""
        work.acknowledging = True
        self._ready.append((work, result))
        if len(self._ready) >= self._most:
            self._begin()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._within_s, self._begin)

    @property
    def congested(self) -> bool:
        """Return whether many batches are being written. The caller then waits with `settle_down`."""
        return len(self._flushing) > 4

    async def settle_down(self) -> None:
        while self._flushing:
            await asyncio.wait(set(self._flushing), return_when=asyncio.FIRST_COMPLETED)
            if not self.congested:
                return

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        ready, self._ready = self._ready, []
        for kind in {work.kind for work, _ in ready}:
            alike = [each for each in ready if each[0].kind == kind]
            self._flushing.start(self._flush_or_give_up(self._statements[kind], alike))

    async def _flush_or_give_up(self, statement: str, ready: Sequence[tuple[Claimed, Any]]) -> None:
        try:
            await self._flush(statement, ready)
        except BaseException:
            # The worker's claims loop releases the rows. What was acknowledged is gone and stays so.
            for work, _ in ready:
                self._leases.give_up(work)
            raise

    async def _flush(self, statement: str, ready: Sequence[tuple[Claimed, Any]]) -> None:
        """Acknowledge these successes. A refused batch is halved until the refused one is alone; the others succeed."""
        ids = [work.id for work, _ in ready]
        leases = list({work.lease for work, _ in ready})
        results = results_json(ready)
        since = time.monotonic()

        async def attempt() -> int:
            async with self._db.acquire() as conn:
                given = (ids, leases, self._worker, None if results is None else RawJson(results))
                acknowledged: int = await conn.fetchval(statement, *given)
                if acknowledged < len(ids) and statement is FINISH:
                    acknowledged += await conn.fetchval(RUN_AGAIN, *given)
                return acknowledged

        def on_failure(error: Exception, _pause_s: float) -> None:
            if is_refused(error, waited_s=time.monotonic() - since):
                raise error
            # A retry is safe: acknowledged rows are gone, and the statement touches only rows with this lease.
            log.log(loudness(error), "acknowledgement.delayed", count=len(ids), error=type(error).__name__)

        try:
            acknowledged = await retry(attempt, on_failure)
        except Exception as error:
            await self._flush_apart(statement, ready, error)
            return
        for work, _ in ready:
            self._leases.done(work)
        if acknowledged < len(ids):
            log.info("work.superseded", count=len(ids) - acknowledged)

    async def _flush_apart(self, statement: str, ready: Sequence[tuple[Claimed, Any]], error: Exception) -> None:
        if len(ready) > 1:
            middle = len(ready) // 2
            await self._flush(statement, ready[:middle])
            await self._flush(statement, ready[middle:])
            return
        work, result = ready[0]
        log.error("acknowledgement.refused", id=work.id, kind=work.kind, task=work.task, error=type(error).__name__)

        async def write(conn: Connection, outcome: AttemptOutcome) -> Written:
            return Written(outcome, await settle(conn, work, self._worker, outcome))

        await record(self._db, work, SuccessOutcome(result), write)
        self._leases.done(work)

    async def close(self) -> None:
        self._begin()
        await self._flushing.wait()

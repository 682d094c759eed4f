"""Run the on_end hook of work in the transaction of its outcome. A hook that fails becomes a job of its own.

The outcome is written first. The hook runs in a savepoint, as the app role and for the organization of the work. If the
hook raises, its savepoint is rolled back, and the same commit keeps the outcome and enqueues the job `<task>#on_end`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol
from uuid import UUID

import asyncpg
import structlog

from onceward.background import TimeLimit
from onceward.db import Database, Transaction, TransactionEnded
from onceward.db.join import ENDED
from onceward.db.lost import is_gone
from onceward.statements import read_statement
from onceward.work.claimed import Claimed
from onceward.work.endings import JobEnd
from onceward.work.gate import gate
from onceward.work.leaks import failure_of
from onceward.work.task import AppRegistry, EndHook

log = structlog.get_logger(__name__)

END_OF_WORK = read_statement("work", "end_of_work")
DEFER = read_statement("work", "defer_end_hook")
REGISTER = read_statement("work", "register_end_hooks")
TIMEOUT_S = 30.0


class RunHook(Protocol):
    """Runs or defers the hook of work whose outcome the transaction has written."""

    async def __call__(
        self, tx: Transaction, work: Claimed, worker: int, hook: EndHook, *, wake: Callable[[str], None]
    ) -> None: ...


async def run_end_hook(
    tx: Transaction, work: Claimed, worker: int, hook: EndHook, *, wake: Callable[[str], None]
) -> None:
    """Run the hook if the outcome that this transaction has written ends the work. The transaction runs as the
    engine."""
    try:
        end = await tx.fetchval(END_OF_WORK, work.id, worker)
    except (ValueError, RecursionError) as error:  # the arguments cannot be read: no hook can get them
        log.error("on_end.skipped", id=work.id, task=work.task, error=type(error).__name__)
        return
    if end is None:
        return
    try:
        async with tx.savepoint("on_end"), TimeLimit(TIMEOUT_S, of=work):
            await _act_for(tx, work.organization)
            await tx.become_app()
            await hook.run(tx, JobEnd.load(end))
            await tx.become_engine()
    except BaseException as raised:
        error = failure_of(raised)
        if is_gone(tx.conn):
            raise
        # If the hook has ended the transaction and begun another, the savepoint is missing.
        has_ended = isinstance(error, asyncpg.InvalidSavepointSpecificationError | TransactionEnded)
        if has_ended or not tx.conn.is_in_transaction():
            raise TransactionEnded(f"the on_end hook of {work.task} ended the transaction. {ENDED}") from error
        log.warning("on_end.deferred", id=work.id, task=work.task, error=type(error).__name__)
        await _defer(tx, work, hook, end, wake)
    gate("after-end-hook")


async def defer_end_hook(
    tx: Transaction, work: Claimed, worker: int, hook: EndHook, *, wake: Callable[[str], None]
) -> None:
    """Enqueue the job that runs the hook, instead of running it."""
    end = await tx.fetchval(END_OF_WORK, work.id, worker)
    if end is not None:
        log.warning("on_end.deferred", id=work.id, task=work.task, error="TransactionEnded")
        await _defer(tx, work, hook, end, wake)


async def _defer(tx: Transaction, work: Claimed, hook: EndHook, end: Any, wake: Callable[[str], None]) -> None:
    await tx.execute(DEFER, hook.job, end, hook.queue, work.organization, work.id)
    tx.after_commit(lambda: wake(hook.queue))


async def _act_for(tx: Transaction, organization: UUID | None) -> None:
    await tx.execute("select set_config('onceward.organization', $1, true)", str(organization or ""))
    tx.organization = organization


async def register_end_hooks(db: Database, registry: AppRegistry) -> None:
    """Let SQL that ends work know which tasks have a hook."""
    hooks = registry.end_hooks
    without = [name for name in registry.tasks if name not in hooks]
    await db.execute(REGISTER, list(hooks), [hook.queue for hook in hooks.values()], without)

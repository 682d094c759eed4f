"""Personal data in the tables of work: arguments of jobs, results and errors of attempts, and unique keys."""

from __future__ import annotations

from onceward.trust.erase import Eraser

UNFINISHED = "exists (select from onceward.work w where w.id = t.{id})"

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="jobs",
        table="onceward.jobs",
        columns={"args": "json", "tags": "list"},
        blank={"args": """'{"erased": true}'""", "tags": "null"},
        together=True,
        waits=UNFINISHED.format(id="id"),
    ),
    Eraser(
        name="callers of jobs",
        table="onceward.jobs",
        columns={"context": "json"},
        blank={"context": "null"},
    ),
    Eraser(
        name="attempts",
        table="onceward.attempts",
        columns={"result": "json", "error": "json"},
        blank={"result": "null", "error": "null"},
    ),
    Eraser(
        name="checkpoints",
        table="onceward.checkpoints",
        columns={"cursor": "json"},
        delete=True,
        waits=UNFINISHED.format(id="work_id"),
    ),
    # The row itself is deleted when the work ends or its dead letter is discarded.
    Eraser(
        name="unfinished work",
        table="onceward.work",
        columns={"lane": "text", "parent": "text", "unique_key": "text"},
        delete=True,
        waits="true",
    ),
    Eraser(
        name="unique keys",
        table="onceward.unique_keys",
        columns={"key": "text"},
        kept="Without its key the same job could be enqueued a second time.",
        scope="t.organization_id = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')",
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.jobs.task": "a name given by code",
    "onceward.attempts.kind": "a closed set",
    "onceward.attempts.task": "a name given by code",
    "onceward.end_hooks.queue": "a name given by code",
    "onceward.end_hooks.task": "a name given by code",
    "onceward.work.task": "a name given by code",
    "onceward.work.queue": "a name given by code",
    "onceward.work.dead_reason": "a closed set",
    "onceward.workers.*": "processes, not people",
    "onceward.apps.*": "names given by code",
    "onceward.unserved.*": "names given by code",
    "onceward.queues.name": "a name given by code",
    "onceward.queues.paused_by": "the operator who paused it; cleared when it is resumed",
    "onceward.queues.parked_for": "the type of a service's error",
    "onceward.lanes.*": "lanes that an operator configured",
    "onceward.external_tasks.*": "names given by code",
    "onceward.external_claims.worker": "programs, not people",
    "onceward.external_turns.*": "names of queues and numbers of owners",
    "onceward.prune_marks.*": "names of tables",
    "onceward.prune_later.*": "names of tables",
}

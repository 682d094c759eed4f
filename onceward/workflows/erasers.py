"""The personal data in workflows: arguments, step results, signals. Erasure waits until the workflow has ended."""

from __future__ import annotations

from onceward.trust.erase import Eraser

UNFINISHED = "exists (select from onceward.work w where w.id = t.{id})"

ERASERS: tuple[Eraser, ...] = (
    Eraser(
        name="workflows",
        table="onceward.workflows",
        columns={"args": "json", "attributes": "json", "result": "json", "error": "json"},
        blank={"args": """'{"erased": true}'""", "attributes": "null", "result": "null", "error": "null"},
        waits=UNFINISHED.format(id="id"),
    ),
    Eraser(
        name="workflow keys",
        table="onceward.workflows",
        columns={"key": "text"},
        kept="Without its key the same workflow could be started a second time.",
    ),
    Eraser(
        name="workflow steps",
        table="onceward.workflow_steps",
        columns={"key": "text", "result": "json", "error": "json", "match": "json"},
        blank={"key": "m.mark", "result": "null", "error": "null", "match": "null"},
        waits=UNFINISHED.format(id="workflow_id"),
    ),
    Eraser(
        name="workflow signals",
        table="onceward.workflow_signals",
        columns={"payload": "json"},
        delete=True,
        waits=UNFINISHED.format(id="workflow_id"),
    ),
)

UNSEARCHED: dict[str, str] = {
    "onceward.workflows.name": "a name from the code",
    "onceward.workflows.version": "a name from the code",
    "onceward.workflow_steps.name": "a name from the code",
    "onceward.workflow_signals.name": "a name from the code",
    "onceward.workflow_rates.*": "names from the code",
}

"""How each table of the feature `work` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.jobs": "deleted by `prune` after ONCEWARD_RETENTION_DAYS, when finished; dead letters stay",
    "onceward.work": "deleted by the outcome; dead letters stay until an operator replays or discards them",
    "onceward.attempts": "deleted with the job, event, message, delivery or workflow that they belong to",
    "onceward.end_hooks": "kept: one row for each task with a hook",
    "onceward.external_tasks": "kept: one row for each job of another language",
    "onceward.external_claims": "deleted when the job has ended or the claim has expired",
    "onceward.external_turns": "kept: one row for each external job and organization that claims it",
    "onceward.claims": "deleted when the work of the claim has ended",
    "onceward.workers": "deleted when the worker stops or is declared dead",
    "onceward.apps": "kept: one row for each app",
    "onceward.unserved": "deleted when the work is served again",
    "onceward.server_timeline": "one row",
    "onceward.queues": "kept: one row for each queue with settings",
    "onceward.lanes": "kept: one row for each lane with settings",
    "onceward.paused_sources": "deleted when the source is resumed",
    "onceward.unique_keys": "deleted by `prune` when they expire; those for ever stay, as the caller asked",
    "onceward.bundles": "deleted when the last member has ended",
    "onceward.checkpoints": "deleted with their job by `prune`",
    "onceward.prune_marks": "kept: one row for each retention",
    "onceward.usage": "deleted by `prune` after 31 days: at most 200 rows an hour for each process",
    "onceward.prune_later": "deleted when the row that had to stay has ended",
}

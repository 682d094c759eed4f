"""SQL statements of work, one file each in `sql/`, read at import. The first line of each file states its promise."""

from __future__ import annotations

from onceward.db.sql_files import load_sql

BEAT = load_sql(__file__, "beat")
CLAIM = load_sql(__file__, "claim")
CLAIM_LANES = "select * from onceward.claim_lanes($1, $2, $3, $4, $5, $6, $7)"
CLAIM_SUSPECT = load_sql(__file__, "claim_suspect")
DEAD_LETTER_GROUPS = load_sql(__file__, "dead_letter_groups")
ENQUEUE = load_sql(__file__, "enqueue")
ENQUEUE_UNIQUE = load_sql(__file__, "enqueue_unique")
FIND_DEAD_LETTERS = load_sql(__file__, "find_dead_letters")
FINISH = load_sql(__file__, "finish")
HISTORY = load_sql(__file__, "history")
JOBS = load_sql(__file__, "jobs")
OBSERVE_WORKERS = load_sql(__file__, "observe_workers")
PRUNE_JOBS = load_sql(__file__, "prune_jobs")
PRUNE_LATER = load_sql(__file__, "prune_later")
QUEUES = load_sql(__file__, "queues")
RELEASE = load_sql(__file__, "release")
RELEASE_ORPHANS = load_sql(__file__, "release_orphans")
RELEASE_UNKNOWN = load_sql(__file__, "release_unknown")
SAVE_CHECKPOINT = load_sql(__file__, "save_checkpoint")
SET_ASIDE_UNCLAIMED = load_sql(__file__, "set_aside_unclaimed")
SETTLE = "select onceward.settle($1, $2, $3, $4, $5, $6, $7, onceward.now() + make_interval(secs => $8), $9)"
WORK_STATES = load_sql(__file__, "work_states")
TRACED_COLUMNS = load_sql(__file__, "traced_columns")
WORKERS = load_sql(__file__, "workers")

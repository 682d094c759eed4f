"""SQL statements of work, one file each in `sql/`, read at import. The first line of each file states its promise."""

from __future__ import annotations

from onceward.statements import named, read_statement

BEAT = read_statement("work", "beat")
BUNDLE_THAT_WAITS = read_statement("work", "bundle_that_waits")
CLAIM = read_statement("work", "claim")
CLAIM_LANES = read_statement("work", "claim_lanes")
DEAD_LETTER_GROUPS = read_statement("work", "dead_letter_groups")
END_OF_WINDOW = read_statement("work", "end_of_window")
ENQUEUE = read_statement("work", "enqueue")
ENQUEUE_ELSEWHERE = named(read_statement("work", "enqueue_elsewhere"))
ENQUEUE_UNIQUE = named(read_statement("work", "enqueue_unique"))
FIND_DEAD_LETTERS = read_statement("work", "find_dead_letters")
FIND_LINES = read_statement("work", "find_lines")
FINISH = read_statement("work", "finish")
FORGET_SERVED = read_statement("work", "forget_served")
HELD_LONG = read_statement("work", "held_long")
FORGET_UNIQUE_KEYS = read_statement("work", "forget_unique_keys")
HISTORY = read_statement("work", "history")
HOLD_LEASE = read_statement("work", "hold_lease")
JOBS = read_statement("work", "jobs")
LANES_AFTER = read_statement("work", "lanes_after")
LONG_UNSERVED = read_statement("work", "long_unserved")
MOVING_QUEUES = read_statement("work", "moving_queues")
NEWEST_LINES = read_statement("work", "newest_lines")
NOTE_APPS = read_statement("work", "note_apps")
OBSERVE_WORKERS = read_statement("work", "observe_workers")
PRUNE_JOBS = read_statement("work", "prune_jobs")
QUEUES = read_statement("work", "queues")
RELEASE = read_statement("work", "release")
RELEASE_ORPHANS = read_statement("work", "release_orphans")
RELEASE_UNKNOWN = read_statement("work", "release_unknown")
RUN_AGAIN = read_statement("work", "run_again")
SAVE_CHECKPOINT = read_statement("work", "save_checkpoint")
SETTLE = (
    "select onceward.settle($1, $2, $3, $4, clock_timestamp() - make_interval(secs => $5), $6, $7,"
    " onceward.now() + make_interval(secs => $8), $9)"
)
VISIT_UNSERVED = read_statement("work", "visit_unserved")
WAITING_QUEUES = read_statement("work", "waiting_queues")
WORK_STATES = read_statement("work", "work_states")
TRACED_COLUMNS = read_statement("work", "traced_columns")
WORKERS = read_statement("work", "workers")
WAITING_LANES = read_statement("work", "waiting_lanes")
WAITING_ORGANIZATIONS = read_statement("work", "waiting_organizations")
WAITING_PLAIN = read_statement("work", "waiting_plain")

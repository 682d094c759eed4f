-- Return the outcome of one run.
select id, schedule, due_at, status, reason, started_at, duration_ms, processed, succeeded, failed, skipped, error
  from onceward.runs where id = $1

-- List the latest runs of a schedule.
select id, due_at, origin, status, reason, attempts, started_at, finished_at, duration_ms, processed, succeeded, failed,
       skipped, result, error
  from onceward.runs where schedule = $1 and ($3::bigint is null or id < $3) order by id desc limit $2

-- Store the outcome of a run.
update onceward.runs
   set status = $2, reason = $3, finished_at = onceward.now(), duration_ms = coalesce(duration_ms, 0) + $4,
       processed = $5, succeeded = $6, failed = $7, skipped = $8, result = $9, error = $10
 where id = $1

-- Store the outcome of a run.
update onceward.runs
   set status = $status, reason = $reason, finished_at = onceward.now(), duration_ms = coalesce(duration_ms, 0) + $duration_ms,
       processed = $processed, succeeded = $succeeded, failed = $failed, skipped = $skipped, result = $result, error = $error
 where id = $id

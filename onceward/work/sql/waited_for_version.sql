-- Return for how many seconds the work $1 has waited for a version of its task that accepts it.
select coalesce(extract(epoch from clock_timestamp() - min(finished_at)), 0)::float8 from onceward.attempts
 where work_id = $1 and outcome = 'snoozed' and error ->> 'reason' = 'payload_invalid'

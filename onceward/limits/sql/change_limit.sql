-- Change a limit only if it still has the expected value and has not changed for a minute.
update onceward.limits set at_most = $2, changed_at = clock_timestamp(), reason = $4
 where name = $1 and at_most = $3 and changed_at < clock_timestamp() - interval '1 minute'
returning at_most

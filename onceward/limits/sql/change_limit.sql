-- Change a limit only if it still has the expected value and has not changed for a minute. The change goes into the history.
with changed as (
    update onceward.limits set at_most = $2, changed_at = clock_timestamp(), reason = $4
     where name = $1 and at_most = $3 and changed_at < clock_timestamp() - interval '1 minute'
    returning name, at_most, changed_at, reason
), kept as (
    insert into onceward.limit_changes (name, changed_at, before, after, reason)
    select name, changed_at, $3, at_most, reason from changed
)
select at_most from changed

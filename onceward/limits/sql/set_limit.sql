-- Set a limit, whatever its value is, and put the change into the history.
with previous as (
    select at_most from onceward.limits where name = $1
), written as (
    insert into onceward.limits (name, at_most, reason) values ($1, $2, $3)
    on conflict (name) do update set at_most = excluded.at_most, changed_at = clock_timestamp(), reason = excluded.reason
    returning name, at_most, changed_at, reason
)
insert into onceward.limit_changes (name, changed_at, before, after, reason)
select name, changed_at, (select at_most from previous), at_most, reason from written

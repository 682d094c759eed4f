-- Forget those of the examined rows $2 that were pruned; the rows $3 stay, and are examined again after $4.
with gone as (
    delete from onceward.prune_later where name = $1 and id = any($2::bigint[]) and not id = any($3::bigint[])
)
update onceward.prune_later set due_at = onceward.now() + $4::interval where name = $1 and id = any($3::bigint[])

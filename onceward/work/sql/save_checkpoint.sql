-- Save the checkpoint of a running job, fenced by its lease. No row: the lease was lost and nothing was written.
-- A job that got new arguments while it ran starts from the beginning with them, so this attempt saves nothing any more.
with held as (
    select w.id, w.organization_id, w.replaced_under is not distinct from w.lease as is_replaced
      from onceward.work w where w.id = $1 and w.lease = $2
), saved as (
    insert into onceward.checkpoints as c (work_id, organization_id, cursor)
    select h.id, h.organization_id, $3 from held h where not h.is_replaced
    on conflict (work_id) do update set cursor = excluded.cursor, saved_at = clock_timestamp()
)
select id from held

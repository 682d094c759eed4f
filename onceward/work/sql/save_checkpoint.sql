-- Save the checkpoint of a running job, fenced by its lease. No row: the lease was lost and nothing was written.
insert into onceward.checkpoints as c (work_id, organization_id, cursor)
select w.id, w.organization_id, $3 from onceward.work w where w.id = $1 and w.lease = $2
on conflict (work_id) do update set cursor = excluded.cursor, saved_at = clock_timestamp()
returning work_id

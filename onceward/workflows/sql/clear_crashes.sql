-- Forget the crashes of workflows whose runs got further than the runs that crashed. Locked in the order of `record`.
with held as materialized (
    select w.id from onceward.work w
      join unnest($1::bigint[], $2::bigint[]) as i (id, lease) on i.id = w.id and i.lease = w.lease
     where w.crashes > 0 order by w.id for no key update of w
)
update onceward.work w set crashes = 0 from held h where w.id = h.id

-- Let the lanes of an account run again. A lane without settings of its own needs no row.
with plain as (
    delete from onceward.lanes l
     where l.queue = $1 and l.lane = any($2::text[]) and l.paused_at is null and l.cap is null and l.weight = 1 and l.rate_per_s is null
)
update onceward.lanes l set open_until = null, failures = 0
 where l.queue = $1 and l.lane = any($2::text[])
   and (l.paused_at is not null or l.cap is not null or l.weight <> 1 or l.rate_per_s is not null)

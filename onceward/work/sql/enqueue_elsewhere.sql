-- Insert one job through a connection that is not ours, as enqueue_unique.sql does, and wake idle workers at its commit.
select r.id, r.duplicate
  from onceward.enqueue_one($1, $2::jsonb, $3,
           case when $4::timestamptz is null and $5::float8 > 0 then onceward.now() + make_interval(secs => $5)
                when $4 > onceward.now() then $4 end,
           $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16::text[], $17, $18, $19, $20::jsonb) r,
       onceward.wake_idle_workers($3)

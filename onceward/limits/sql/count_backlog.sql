-- Count work that is due and waits for a worker, up to 1000.
select count(*) from (
    select from onceward.work w
     where w.lease is null and w.dead_reason is null and w.sort_at <= onceward.now() limit 1000) due

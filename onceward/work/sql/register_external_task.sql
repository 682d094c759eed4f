-- Keep the retry policy of an external job, for the SQL that settles it.
insert into onceward.external_tasks as t (task, max_attempts, waits_s, jitter, lease_s, critical)
values ($1, $2, $3, $4, $5, $6)
on conflict (task) do update
   set max_attempts = excluded.max_attempts, waits_s = excluded.waits_s, jitter = excluded.jitter,
       lease_s = excluded.lease_s, critical = excluded.critical

-- Note that this process runs now, and which of its loops keep failing or hang, and which of its handlers are overdue.
insert into onceward.processes (id, service, host, pid, version, knows, failing, overdue, outside, pool)
values ($id, $service, $host, $pid, $version, $knows, $failing, $overdue, $outside, $pool)
on conflict (id) do update set seen_at = clock_timestamp(), failing = excluded.failing, overdue = excluded.overdue

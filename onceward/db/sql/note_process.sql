-- Note that this process runs now.
insert into onceward.processes (id, service, host, pid, version, knows) values ($1, $2, $3, $4, $5, $6)
on conflict (id) do update set seen_at = clock_timestamp()

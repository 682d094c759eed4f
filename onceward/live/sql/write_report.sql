-- Store the report of this node, and extend its lease.
insert into onceward.live_nodes (node, name, expires_at, report)
values ($1, $2, onceward.now() + make_interval(secs => $3), $4::jsonb)
on conflict (node) do update set seen_at = clock_timestamp(), expires_at = excluded.expires_at, report = excluded.report

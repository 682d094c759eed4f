-- Add what organizations used to the current hour: $1 organizations, $2 handled, $3 and $4 seconds of handlers and of connections.
insert into onceward.usage as u (hour, organization_id, handled, work_s, connections_s)
select date_trunc('hour', onceward.now()), i.organization_id, i.handled, i.work_s, i.connections_s
  from unnest($1::uuid[], $2::bigint[], $3::float8[], $4::float8[]) i (organization_id, handled, work_s, connections_s)
 order by i.organization_id   -- the same order everywhere: processes write the same rows and must not deadlock
on conflict (hour, (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'::uuid))) do update
    set handled = u.handled + excluded.handled, work_s = u.work_s + excluded.work_s,
        connections_s = u.connections_s + excluded.connections_s

-- Park the lanes of an organization's own account, for a period that doubles. Only the first of parallel failures counts.
insert into onceward.lanes as l (queue, lane, open_until, failures)
select $1, lane, clock_timestamp() + make_interval(secs => coalesce($3::float8, $4::float8)), 1
  from unnest($2::text[]) lane order by lane
on conflict (queue, lane) do update
    set open_until = case when l.open_until > clock_timestamp()
            then greatest(l.open_until, clock_timestamp() + make_interval(secs => $3::float8))
            else clock_timestamp() + make_interval(
                secs => coalesce($3::float8, least($5::float8, $4::float8 * 2 ^ least(l.failures, 20)))) end,
        failures = l.failures + case when l.open_until > clock_timestamp() then 0 else 1 end
returning failures, extract(epoch from open_until - clock_timestamp())::float8 as parked_s

-- Reserve the next slot of a rate, and return the seconds until that slot.
insert into onceward.workflow_rates as r (name, next_at)
values ($1, clock_timestamp() + make_interval(secs => 1 / $2::float8))
on conflict (name) do update
    set next_at = greatest(r.next_at, clock_timestamp()) + make_interval(secs => 1 / $2::float8)
returning extract(epoch from next_at - clock_timestamp())::float8 - 1 / $2::float8

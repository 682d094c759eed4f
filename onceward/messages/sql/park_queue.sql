-- Park a queue whose service fails, for a period that doubles. Parallel sends fail together: only the first failure
-- counts, because the others find the queue already parked.
insert into onceward.queues as q (name, parked_until, parked_for, failures)
values ($1, clock_timestamp() + make_interval(secs => coalesce($2::float8, $4::float8)), $3, 1)
on conflict (name) do update
    set parked_until = case when q.parked_until > clock_timestamp()
            then greatest(q.parked_until, clock_timestamp() + make_interval(secs => $2::float8))
            else clock_timestamp() + make_interval(
                secs => coalesce($2::float8, least($5::float8, $4::float8 * 2 ^ least(q.failures, 20)))) end,
        parked_for = excluded.parked_for,
        failures = q.failures + case when q.parked_until > clock_timestamp() then 0 else 1 end
returning failures, extract(epoch from parked_until - clock_timestamp())::float8 as parked_s

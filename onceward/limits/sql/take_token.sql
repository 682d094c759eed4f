-- Take one token of a rate. Return no row if the bucket is empty.
insert into onceward.rates as r (key, full_at) values ($1, clock_timestamp() + make_interval(secs => $2))
on conflict (key) do update set full_at = greatest(r.full_at, clock_timestamp()) + make_interval(secs => $2)
 where greatest(r.full_at, clock_timestamp()) + make_interval(secs => $2) <= clock_timestamp() + make_interval(secs => $3)
returning true

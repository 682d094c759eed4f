-- Count a failed login of a client. The count starts again after the period.
insert into onceward.auth_failures as f (client, failures, since) values ($1, 1, clock_timestamp())
on conflict (client) do update set
    failures = case when f.since < clock_timestamp() - make_interval(secs => $2) then 1 else f.failures + 1 end,
    since = case when f.since < clock_timestamp() - make_interval(secs => $2) then clock_timestamp() else f.since end
returning failures,
    ceil(extract(epoch from since + make_interval(secs => $2) - clock_timestamp()))::int as left_s

-- Record that a service refuses an account or a template. Return the seconds until the next probe, and whether it is news.
-- Parallel refusals move the probe once.
insert into onceward.account_troubles as t (organization_id, channel, template, reason, advice, probe_at)
values ($1, $2, $3, $4, $5, clock_timestamp() + make_interval(secs => $6::float8))
on conflict (channel, organization_id, template) do update
    set reason = excluded.reason, advice = excluded.advice,
        probes = t.probes + case when t.probe_at > clock_timestamp() then 0 else 1 end,
        probe_at = greatest(t.probe_at, clock_timestamp() + make_interval(
            secs => case when t.probe_at > clock_timestamp() then 0
                         else least($7::float8, $6::float8 * 2 ^ least(t.probes, 20)) end))
returning id, extract(epoch from probe_at - clock_timestamp())::float8 as wait_s, xmax = 0 as is_new

-- Record that a service refuses an account or a template. Return the seconds until the next probe, and whether it is news.
-- Parallel refusals move the probe once.
insert into onceward.account_troubles as t (organization_id, channel, template, language, reason, advice, probe_at)
values ($owner, $channel, $template, $language, $reason, $advice, clock_timestamp() + make_interval(secs => $first_s::float8))
on conflict (channel, organization_id, template, language) do update
    set reason = excluded.reason, advice = excluded.advice,
        probes = t.probes + case when t.probe_at > clock_timestamp() then 0 else 1 end,
        probe_at = greatest(t.probe_at, clock_timestamp() + make_interval(
            secs => case when t.probe_at > clock_timestamp() then 0
                         else least($longest_s::float8, $first_s::float8 * 2 ^ least(t.probes, 20)) end))
returning id, extract(epoch from probe_at - clock_timestamp())::float8 as wait_s, xmax = 0 as is_new

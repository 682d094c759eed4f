-- Take the counts that SQL functions noted, so that exactly one node adds each of them to its metrics.
with taken as (delete from onceward.webhook_counts returning metric, webhook_id, provider, label)
select metric, webhook_id, provider, label, count(*)::int as times from taken group by 1, 2, 3, 4

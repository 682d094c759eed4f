-- Return the busiest tasks of the last minute. `per_commit` is how many successes had one commit together on average.
with recent as materialized (
    select a.task, extract(epoch from a.finished_at - a.started_at)::float8 as took_s, a.outcome <> 'success' as failed,
           1.0 / coalesce(a.shared, 1) as commits
      from onceward.attempts a
     where a.finished_at >= statement_timestamp() - interval '60 seconds' and a.started_at is not null
     limit 20000
)
select task, count(*) as count, count(*) filter (where failed) as failed,
       (count(*) filter (where not failed) / nullif(sum(commits) filter (where not failed), 0))::float8 as per_commit,
       percentile_disc(0.5) within group (order by took_s) as p50,
       percentile_disc(0.99) within group (order by took_s) as p99
  from recent group by task order by count desc limit 8

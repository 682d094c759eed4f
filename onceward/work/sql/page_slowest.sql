-- Return the slowest tasks of the last minute.
with recent as materialized (
    select a.task, extract(epoch from a.finished_at - a.started_at)::float8 as took_s, a.outcome <> 'success' as failed
      from onceward.attempts a
     where a.finished_at >= statement_timestamp() - interval '60 seconds' and a.started_at is not null
     limit 20000
)
select task, count(*) as count, count(*) filter (where failed) as failed,
       percentile_disc(0.5) within group (order by took_s) as p50,
       percentile_disc(0.99) within group (order by took_s) as p99
  from recent group by task order by count desc limit 8

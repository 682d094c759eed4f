-- Return how long recent attempts took.
with recent as materialized (
    select extract(epoch from a.finished_at - a.started_at)::float8 as took_s
      from onceward.attempts a
     where a.finished_at >= statement_timestamp() - make_interval(secs => $1) and a.started_at is not null
       and a.outcome in ('success', 'retry', 'failed', 'dead_letter')
     limit 20000
)
select percentile_disc(0.5) within group (order by took_s) as p50,
       percentile_disc(0.95) within group (order by took_s) as p95,
       percentile_disc(0.99) within group (order by took_s) as p99,
       max(took_s) as most, count(*) as count
  from recent

-- Return the reports of all nodes with the time since each was written.
select node, name, started_at, seen_at, extract(epoch from clock_timestamp() - seen_at)::float8 as silent_s, report
  from onceward.live_nodes order by started_at

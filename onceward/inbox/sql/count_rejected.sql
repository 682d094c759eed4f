-- Count the rejected requests of a source in the last 24 hours, by reason. The table has a fixed number of rows.
select reason, status, sum(1 + more)::bigint as requests, max(at) as last_at
  from onceward.webhook_rejects
 where source = $1 and at > onceward.now() - interval '24 hours'
 group by reason, status order by requests desc, reason

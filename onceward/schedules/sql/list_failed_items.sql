-- List the failed items of runs.
select run_id, step, key, organization_id, at, error ->> 'type' as type, error ->> 'message' as message
  from onceward.run_items where run_id = any($1::bigint[]) and outcome = 'failed' order by run_id desc, at limit $2

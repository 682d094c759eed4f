-- Store how far a resend has come, and when its next step may start.
update onceward.resends set cursor = $2, missing_cursor = $3, resent = resent + $4, skipped = skipped + $5,
  state = case when $6 then 'done' else state end, finished_at = case when $6 then onceward.now() end,
  matched = matched + $7, stepped_at = clock_timestamp() + make_interval(secs => $8)
  where id = $1

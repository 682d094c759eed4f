-- List the dashboard messages of these recipients, newest first, after the id $2; with $3 only the unread ones.
select id, type, severity, title, body, created_at, read_at
  from onceward.dashboard_messages
 where recipient = any($1::text[]) and ($5::uuid is null or organization_id = $5) and ($2::bigint is null or id < $2)
   and (not $3 or read_at is null)
 order by id desc limit $4

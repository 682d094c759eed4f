-- List the open sessions of one person, the most recently used first.
select session_id, method, browser, address, created_at, last_seen_at, expires_at, second_factor_at is not null as has_second_factor
  from onceward.sessions
 where user_id = $1 and expires_at > onceward.now() and (idle is null or last_seen_at + idle > onceward.now())
 order by last_seen_at desc, session_id limit 200

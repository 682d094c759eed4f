-- End sessions that stopped between two messages of one statement and hold locks: their process is frozen. PostgreSQL shows
-- them as active, so idle_in_transaction_session_timeout does not apply to them. A COPY waits for data in the same way.
select pg_terminate_backend(a.pid) as ended, a.pid, extract(epoch from clock_timestamp() - a.state_change)::float8 as stuck_s
  from pg_stat_activity a
 where a.datname = current_database() and a.usename = session_user and a.pid <> pg_backend_pid()
   and a.state = 'active' and a.wait_event = 'ClientRead' and a.backend_xid is not null
   and a.state_change < clock_timestamp() - make_interval(secs => $1) and a.query !~* '^\s*copy\M'

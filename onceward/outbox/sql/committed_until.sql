-- Return a time before which every attempt is committed: the start of the oldest transaction that is still open.
-- The transaction of a hidden session is taken to be ten minutes old.
select least(clock_timestamp(), min(case when is_hidden then clock_timestamp() - interval '10 minutes' else xact_start end))
  from onceward.server_sessions()
 where pid <> pg_backend_pid()

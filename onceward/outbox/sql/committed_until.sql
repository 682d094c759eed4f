-- Return a time before which every attempt is committed: the start of the oldest transaction that is still open.
select least(clock_timestamp(), min(xact_start)) from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null

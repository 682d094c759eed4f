-- Return the load and the size of the database.
select (select count(*) from pg_stat_activity where datname = current_database()) as connections,
       current_setting('max_connections')::int as most_connections,
       (select extract(epoch from max(clock_timestamp() - xact_start))::float8 from onceward.server_sessions()
         where pid <> pg_backend_pid() and backend_type = 'client backend') as longest_s,
       pg_database_size(current_database()) as bytes,
       (select blks_hit::float8 / nullif(blks_hit + blks_read, 0) from pg_stat_database where datname = current_database()) as hits,
       (select count(*) from onceward.server_sessions() where wait_event_type = 'Lock') as waiting,
       pg_is_in_recovery() as replica

-- Return how many connections the server allows to others than superusers, how many are open, and whether processes are noted here.
select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
       - coalesce(current_setting('reserved_connections', true)::int, 0) as server,
       (select sum(numbackends)::int from pg_stat_database) as open,
       to_regclass('onceward.processes') is not null as has_processes

-- Return the number of scans of each table in this transaction. PostgreSQL may reset the counts, so only the difference
-- of two readings is meaningful.
select n.nspname || '.' || c.relname as name, pg_stat_get_xact_numscans(c.oid) as scans
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'm', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
   and pg_stat_get_xact_numscans(c.oid) > 0

-- Return what has kept deleted rows from being removed for longer than $1 seconds, the oldest first.
select * from (
    select 'transaction' as kind, format('pid %s of %s (%s)', a.pid, a.usename, a.state) as name,
           extract(epoch from clock_timestamp() - a.xact_start)::float8 as age_s
      from pg_stat_activity a
     where a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type = 'client backend'
       and a.xact_start is not null
    union all
    select 'prepared transaction', p.gid, extract(epoch from clock_timestamp() - p.prepared)::float8
      from pg_prepared_xacts p where p.database = current_database()
    union all
    select 'unused replication slot', r.slot_name, 'infinity'
      from pg_replication_slots r where not r.active and (r.xmin is not null or r.catalog_xmin is not null)
) holders
 where age_s > $1 order by age_s desc

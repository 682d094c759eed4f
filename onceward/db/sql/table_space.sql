-- Return the size of each table, an estimate of the free space in it, its dead rows and its settings for autovacuum.
select s.schemaname || '.' || s.relname as name, pg_total_relation_size(c.oid) as bytes,
       greatest(0, pg_relation_size(c.oid) - (greatest(c.reltuples, 0) * (28 + coalesce(w.width, 0)) * 100
           / coalesce((o.options ->> 'fillfactor')::int, 100))::bigint - 2 * 8192) as free_bytes,
       s.n_live_tup as live_rows, s.n_dead_tup as dead_rows,
       coalesce((o.options ->> 'autovacuum_vacuum_scale_factor')::float8,
                current_setting('autovacuum_vacuum_scale_factor')::float8) as scale_factor,
       coalesce((o.options ->> 'autovacuum_enabled')::boolean, true) and current_setting('autovacuum')::boolean as autovacuum
  from pg_stat_user_tables s
  join pg_class c on c.oid = s.relid
 cross join lateral (select jsonb_object_agg(option_name, option_value) as options from pg_options_to_table(c.reloptions)) o
 cross join lateral (
    select sum((1 - p.null_frac) * p.avg_width)::bigint as width from pg_stats p
     where p.schemaname = s.schemaname and p.tablename = s.relname) w
 order by 2 desc

-- Return the columns or expressions of a unique index with their types, and the condition of a partial one.
select array_agg(pg_get_indexdef(i.indexrelid, k.place::int, true) order by k.place) as columns,
       array_agg(format_type(a.atttypid, a.atttypmod) order by k.place) as types,
       pg_get_expr(i.indpred, i.indrelid) as predicate
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  join pg_index i on i.indexrelid = c.oid
 cross join generate_series(1, i.indnkeyatts) as k (place)
  join pg_attribute a on a.attrelid = c.oid and a.attnum = k.place
 where n.nspname = $1 and c.relname = $2
 group by i.indexrelid, i.indpred, i.indrelid

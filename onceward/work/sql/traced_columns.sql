-- Return the columns of every table that the role may read and that has a cause, or that a feature declares.
select n.nspname || '.' || c.relname as table, array_agg(a.attname::text) as columns,
       array_agg(a.attname::text) filter (where a.atttypid = 'bigint'::regtype) as bigints
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind in ('r', 'p') and not c.relispartition
  and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
  and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
group by 1
having 'caused_by' = any (array_agg(a.attname::text))
    or (n.nspname || '.' || c.relname) = any ($1)

-- Return every table that the caller may read, with its primary key: tables of the user's apps need no declaration.
select c.oid::bigint as oid, n.nspname as schema, c.relname as name,
       coalesce(root.relname, c.relname) as shown,
       (select array_agg(a.attname::text order by k.place)
          from pg_index i
          cross join unnest(i.indkey) with ordinality as k (number, place)
          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
         where i.indrelid = c.oid and i.indisprimary) as key,
       (select array_agg(format_type(a.atttypid, a.atttypmod) order by k.place)
          from pg_index i
          cross join unnest(i.indkey) with ordinality as k (number, place)
          join pg_attribute a on a.attrelid = c.oid and a.attnum = k.number
         where i.indrelid = c.oid and i.indisprimary) as key_types
  from pg_class c
  join pg_namespace n on n.oid = c.relnamespace
  left join pg_class root on c.relispartition and root.oid = pg_partition_root(c.oid)
 where c.relkind = 'r'
   and n.nspname not like 'pg\_%' and n.nspname <> 'information_schema'
   and c.oid <> 'onceward.rehearsal_seals'::regclass
   and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')

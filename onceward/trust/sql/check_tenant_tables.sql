-- Return the tables with an organization that handlers can reach, with their row-level security.
select n.nspname || '.' || c.relname as table, c.relrowsecurity as enabled,
       coalesce(array_agg(pg_get_expr(p.polqual, p.polrelid)) filter (where p.oid is not null
           and p.polcmd in ('*', 'r', 'w', 'd')), '{}') as quals,
       coalesce(array_agg(pg_get_expr(p.polwithcheck, p.polrelid)) filter (where p.oid is not null
           and p.polcmd in ('*', 'a', 'w')), '{}') as checks
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
left join pg_policy p on p.polrelid = c.oid and p.polpermissive
    and (p.polroles && array[0::oid, 'onceward_app'::regrole::oid])
where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_'
  and (has_any_column_privilege('onceward_app', c.oid, 'select, insert, update')
       or has_table_privilege('onceward_app', c.oid, 'delete')
       or not c.relrowsecurity)
group by 1, 2 order by 1

-- Return the statements that drop the objects of these names in the schema public.
select format('drop %s if exists %s cascade',
              case c.relkind when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end,
              c.oid::regclass)
  from pg_class c
 where c.relnamespace = 'public'::regnamespace and c.relname = any($1) and c.relkind in ('r', 'p', 'v', 'm', 'S')
union all
select format('drop type if exists %s cascade', t.oid::regtype)
  from pg_type t
 where t.typnamespace = 'public'::regnamespace and t.typname = any($1) and t.typtype in ('e', 'd', 'r')
union all
select format('drop routine if exists %s cascade', p.oid::regprocedure)
  from pg_proc p
 where p.pronamespace = 'public'::regnamespace and p.proname = any($1)

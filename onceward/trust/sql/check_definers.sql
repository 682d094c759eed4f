-- Return the functions that run with the rights of their owner, with how they are protected.
select p.oid::regprocedure::text as function,
       not coalesce(array_to_string(p.proconfig, ',') like '%search_path=%', false) as open_path,
       coalesce((select bool_or(a.grantee = 0) from aclexplode(p.proacl) a), true) as public
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where p.prosecdef and n.nspname not in ('pg_catalog', 'information_schema')

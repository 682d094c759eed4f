-- Return the signatures of all functions of one name.
select coalesce(array_agg(format('%I.%I(%s)', n.nspname, p.proname, oidvectortypes(p.proargtypes)) order by 1), '{}')
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
 where p.proname = $2 and (n.nspname = $1 or $1 is null and pg_function_is_visible(p.oid))

-- Return invalid indexes whose name shows that a concurrent rebuild was interrupted.
select format('%I.%I', n.nspname, c.relname) as name
  from pg_index x join pg_class c on c.oid = x.indexrelid join pg_namespace n on n.oid = c.relnamespace
 where not x.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$'

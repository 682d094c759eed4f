-- Find views of tenant data that do not apply the row-level security of the caller.
select n.nspname || '.' || c.relname as view
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind = 'v' and n.nspname not in ('pg_catalog', 'information_schema')
  and has_table_privilege('onceward_app', c.oid, 'select')
  and not coalesce(array_to_string(c.reloptions, ',') ~ 'security_invoker=(true|on|1)', false)
  and exists (select from pg_attribute a where a.attrelid = c.oid and a.attname in ('organization_id', 'clinic_id'))

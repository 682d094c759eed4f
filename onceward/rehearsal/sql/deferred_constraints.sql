-- Return the constraints that only a commit checks, so that a rehearsal can check them before it rolls back.
select format('%I.%I', n.nspname, c.conname) as name
  from pg_constraint c
  join pg_namespace n on n.oid = c.connamespace
 where c.condeferred and c.conrelid <> 'onceward.rehearsal_seals'::regclass

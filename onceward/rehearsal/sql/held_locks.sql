-- Return the tables in which this transaction locks rows that it need not change, or which it locks whole.
select l.relation::bigint as oid, bool_or(l.mode <> 'RowShareLock') as whole
  from pg_locks l
 where l.pid = pg_backend_pid() and l.locktype = 'relation' and l.granted
   and l.mode in ('RowShareLock', 'ShareUpdateExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                  'AccessExclusiveLock')
 group by l.relation

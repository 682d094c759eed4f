-- Return the indexes that an interrupted CREATE INDEX CONCURRENTLY left invalid.
select c.relname as name, c.oid::regclass::text as qualified
  from pg_index i join pg_class c on c.oid = i.indexrelid
 where not i.indisvalid

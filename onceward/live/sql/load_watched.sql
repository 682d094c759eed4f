-- Return the tables that the feed watches, with their keys and partitions.
select w.relation::oid::int8 as oid, n.nspname || '.' || c.relname as name, w.keys, w.types,
       array(select pn.nspname || '.' || pc.relname from pg_partition_tree(w.relation) t
               join pg_class pc on pc.oid = t.relid join pg_namespace pn on pn.oid = pc.relnamespace
              where t.relid <> w.relation) as partitions
  from onceward.watched w join pg_class c on c.oid = w.relation join pg_namespace n on n.oid = c.relnamespace

-- Return how many rows of each table the open transaction has written so far, from the counters of this session.
select n.oid::bigint as oid, n.inserted, n.updated, n.deleted, pg_relation_size(n.oid) as size
  from (select oid, pg_stat_get_xact_tuples_inserted(oid) as inserted, pg_stat_get_xact_tuples_updated(oid) as updated,
               pg_stat_get_xact_tuples_deleted(oid) as deleted
          from unnest($1::oid[]) oid) n
 where n.inserted + n.updated + n.deleted > 0

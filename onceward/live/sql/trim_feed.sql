-- Delete changes that the given snapshot sees.
delete from onceward.feed
 where xid < pg_snapshot_xmax($1::text::pg_snapshot) and pg_visible_in_snapshot(xid, $1::text::pg_snapshot)

-- Delete old topic messages that the given snapshot sees.
delete from onceward.topic_messages m
 where m.created_at < statement_timestamp() - make_interval(secs => $1)
   and pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)

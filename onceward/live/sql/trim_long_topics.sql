-- Keep only the latest $1 messages of each topic that had a message in the last $3 seconds. Messages that the given snapshot
-- does not see stay.
with busy as materialized (
    select distinct topic, organization_id from onceward.topic_messages
     where created_at > statement_timestamp() - make_interval(secs => $3)
), too_old as materialized (
    select b.topic, b.organization_id, l.id
      from busy b cross join lateral (
          select m.id from onceward.topic_messages m
           where m.topic = b.topic and m.organization_id is not distinct from b.organization_id
           order by m.id desc offset $1 limit 1) l
)
delete from onceward.topic_messages m using too_old o
 where m.topic = o.topic and m.organization_id is not distinct from o.organization_id and m.id <= o.id
   and pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)

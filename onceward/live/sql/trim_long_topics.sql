-- Keep only the latest messages of each topic. Messages that the given snapshot does not see stay.
delete from onceward.topic_messages m using (
    select id, row_number() over (partition by topic, organization_id order by id desc) as place, xid
      from onceward.topic_messages
) ranked
 where ranked.id = m.id and ranked.place > $1 and pg_visible_in_snapshot(m.xid, $2::text::pg_snapshot)

-- Return the latest messages of a topic that one snapshot sees and an earlier one does not, oldest first.
select organization_id, topic, id, to_json(created_at) #>> '{}' as at, payload from (
    select * from onceward.topic_messages
     where topic = $1 and organization_id is not distinct from $2::uuid
       and pg_visible_in_snapshot(xid, $3::text::pg_snapshot)
       and ($4::text is null or not pg_visible_in_snapshot(xid, $4::text::pg_snapshot))
     order by id desc limit $5
) latest order by id

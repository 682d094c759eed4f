-- Mark dashboard messages of these recipients as read: those with the ids $2, or all up to the id $3. A second call changes nothing.
update onceward.dashboard_messages set read_at = onceward.now()
 where recipient = any($1::text[]) and read_at is null
   and (id = any($2::bigint[]) or ($3::bigint is not null and id <= $3))
returning id

-- Store the states that reports have led to. A message whose sending had an unknown outcome was sent when it began.
update onceward.messages m
   set delivery = c.delivery, reference = c.reference, status = c.status, reason = c.reason,
       sent_at = case when c.is_settled then coalesce(m.sending_since, onceward.now()) else m.sent_at end
  from unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::boolean[])
       as c(id, delivery, reference, status, reason, is_settled)
 where m.id = c.id

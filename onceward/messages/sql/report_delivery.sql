-- Store what the service reports about a message. A report of delivery settles a message whose sending had an unknown
-- outcome; "read" is final.
update onceward.messages
   set delivery = $3,
       status = case when status = 'unknown' and $4 then 'success' else status end,
       reason = case when status = 'unknown' and $4 then null else reason end,
       sent_at = case when status = 'unknown' and $4 then coalesce(sending_since, onceward.now()) else sent_at end
 where (reference = $1 or id = $2) and delivery is distinct from 'read'
returning id

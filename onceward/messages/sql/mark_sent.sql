-- Mark a message with an unknown outcome as sent, because an operator says that it was.
update onceward.messages set status = 'success', reason = null, sending = null, unsure_since = null,
       sent_at = coalesce(unsure_since, sending_since, onceward.now())
 where id = $1 and status = 'unknown' returning id

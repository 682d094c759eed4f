-- List messages, newest first, without addresses and content, from the id $1 (exclusive) down to $2, at most $3:
-- `show_message.sql` returns the content by id.
select m.id, m.key, m.channel, m.template, m.shown as status, m.reason, m.attempts, m.scheduled_for, m.sent_at, m.created_at
  from onceward.message_outcomes m
 where m.id < $1 and m.id >= $2 and ($4::text is null or m.shown = $4 or m.status = $4) and ($5::text is null or m.channel = $5)
   and ($6::text is null or m.template = $6)
   and ($7::uuid is null or m.organization_id = $7)
 order by m.id desc limit $3

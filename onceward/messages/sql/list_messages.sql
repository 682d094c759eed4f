-- List messages, newest first, without addresses and content: `show_message.sql` returns the content by id.
select m.id, m.key, m.channel, m.template, o.shown as status, m.reason, m.attempts, m.scheduled_for, m.sent_at, m.created_at
  from onceward.messages m join onceward.message_outcomes o on o.id = m.id
 where ($1::text is null or o.shown = $1 or m.status = $1) and ($2::text is null or m.channel = $2)
   and ($3::text is null or m.template = $3) and ($4::bigint is null or m.id < $4)
 order by m.id desc limit $5

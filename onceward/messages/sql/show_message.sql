-- Return one message with its content and the time at which it is due.
select m.id, m.organization_id, m.key, m.channel, m.template, m.version, m.category, m.locale, m.policy, o.shown as status,
       m.reason, m.attempts, m.reference, m.notification, m.scheduled_for, m.expires_at, m.sending_since, m.sent_at, m.caused_by,
       m.created_at, w.sort_at as due_at, m.data
  from onceward.messages m
  join onceward.message_outcomes o on o.id = m.id
  left join onceward.work w on w.id = m.id
 where m.id = $1

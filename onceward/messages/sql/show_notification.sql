-- Return a notification with the state of each of its messages.
select n.id, n.organization_id, n.type, n.severity, n.channels, n.recipients, n.round, n.sent, n.failed, n.remaining,
       n.created_at, n.finished_at,
       (select jsonb_agg(jsonb_build_object('id', m.id, 'channel', m.channel, 'status', o.shown, 'reason', m.reason,
                                            'attempts', m.attempts) order by m.id)
          from onceward.messages m join onceward.message_outcomes o on o.id = m.id
         where m.notification = n.id) as details
  from onceward.notifications n where n.id = $1

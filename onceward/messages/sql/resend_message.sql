-- Queue a message with an unknown outcome again, because an operator says that it was not sent.
with again as (
    update onceward.messages set status = 'pending', reason = null, sending = null, unsure_since = null
     where id = $1 and status = 'unknown' returning id, organization_id, channel, bulk
)
insert into onceward.work (id, organization_id, line, kind, task, queue, lane, cap, sort_at)
select a.id, a.organization_id, onceward.line_of(a.organization_id, null), 'message', $2, l.queue, l.lane,
       case when l.lane is not null then l.cap end, onceward.now()
  from again a, onceward.message_line(a.channel, a.organization_id, a.bulk, $3) l
returning id

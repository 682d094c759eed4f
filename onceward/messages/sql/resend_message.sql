-- Queue a message with an unknown outcome again, because an operator says that it was not sent.
with again as (
    update onceward.messages set status = 'pending', reason = null, sending = null, unsure_since = null
     where id = $1 and status = 'unknown' returning id, organization_id
)
insert into onceward.work (id, organization_id, line, kind, task, queue, sort_at)
select id, organization_id, onceward.line_of(organization_id, null), 'message', $2, $3, onceward.now() from again
returning id

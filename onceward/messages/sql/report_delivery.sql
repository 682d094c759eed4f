-- Advance a message to the state that its service reports, never back: "read" and "failed" are final.
-- Returns the message and its state before, also if the report changes nothing. A report also settles a message whose
-- sending had an unknown outcome.
with message as materialized (
    select m.id, m.organization_id, m.key, m.channel, m.template, m.recipient, coalesce(m.reference, $1) as reference,
           case when m.status = 'success' and coalesce(m.delivery, 'queued') = 'queued' then 'sent' else m.delivery end as previous
      from onceward.messages m
     -- A key without a reference: the service reported before we stored its answer, or it never answered. Another
     -- installation on the same account uses the same keys, so a message with another reference is not the one reported.
     where (m.reference = $1 or m.id = $2 and (m.reference is null or $1::text is null))
       and ($4::text is null or m.channel = $4)
     limit 1
       for update
), changed as (
    update onceward.messages m
       set delivery = $3,
           reference = o.reference,
           status = case when m.status <> 'unknown' or $3 = 'queued' then m.status
                         when $3 = 'failed' then 'failed' else 'success' end,
           reason = case when $3 = 'failed' then coalesce($5, 'the service reported that it could not be delivered')
                         when m.status = 'unknown' and $3 <> 'queued' then null else m.reason end,
           sent_at = case when m.status = 'unknown' and $3 in ('sent', 'delivered', 'read')
                          then coalesce(m.sending_since, onceward.now()) else m.sent_at end
      from message o
     where m.id = o.id
       and coalesce(o.previous, '') not in ('read', 'failed')
       and (o.previous is distinct from 'delivered' or $3 = 'read')
       and array_position('{queued,sent,delivered,read,failed}', $3)
           > coalesce(array_position('{queued,sent,delivered,read,failed}', o.previous), 0)
    returning m.id
)
select o.*, exists (select from changed) as changed from message o

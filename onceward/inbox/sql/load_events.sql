-- Return the events of claimed work, as handlers get them.
select e.seq, e.id, e.webhook_id, e.event_id, e.provider, e.type, e.payload, e.payload_in_raw,
    case when e.payload_in_raw then e.raw end as raw, e.headers, e.organization_id, e.received_at,
       coalesce(s.name, 'sql') as source
  from onceward.webhook_events e
  left join onceward.sources s on s.webhook_id = e.webhook_id
 where e.seq = any($1::bigint[])

-- Return the state of events that were stored before: finished with a result, running, or waiting.
select i.n, e.seq, e.type, e.status, e.result, e.error, e.body, w.lease is not null as running, w.id is not null as unfinished
  from unnest($1::uuid[], $2::text[]) with ordinality as i (webhook_id, event_id, n)
  cross join lateral (
      select seq, type, status, result, error, case when payload_in_raw then sha256(raw) end as body from onceward.webhook_events
       where webhook_id = i.webhook_id and event_id = i.event_id offset 0) e
  left join lateral (select id, lease from onceward.work where id = e.seq offset 0) w on true

-- Show every event and its status. Rows can be inserted; setting the status moves an event through its states.
create or replace view public.webhook_events with (security_invoker = true) as
select id, webhook_id, event_id, payload, signature, status, attempts, last_attempt_at, processed_at, error, received_at,
       provider, type, organization_id, result, caused_by, seq
  from onceward.webhook_events;

comment on view public.webhook_events is
    'Show every event and its status. Rows can be inserted; setting the status moves an event through its states.';

grant select on public.webhook_events to onceward_app, onceward_engine;
grant select, insert, update on public.webhook_events to onceward_sql_worker, onceward_organization_worker;

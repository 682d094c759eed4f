-- Show messages with the statuses that people use: sent, delivered, failed.
create or replace view onceward.message_outcomes as
    select id, organization_id, key, channel, template, status, reason, attempts, scheduled_for, sent_at, created_at,
           case status when 'success' then coalesce(delivery, 'sent') when 'dead_letter' then 'failed' else status end as shown
      from onceward.messages;

comment on view onceward.message_outcomes is
    'Show messages with the statuses that people use: sent, delivered, failed.';
alter view onceward.message_outcomes set (security_invoker = true);

grant select on onceward.message_outcomes to onceward_app, onceward_engine;

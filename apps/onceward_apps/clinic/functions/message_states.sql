-- Messages of the clinic with one state each.
create or replace view clinic.message_states with (security_invoker = true) as
    select o.message_id, o.organization_id, o.kind, o.appointment_id, o.patient_id, o.contact_id, m.channel, m.template,
           case when m.delivery in ('queued', 'sent', 'delivered', 'read', 'failed', 'undelivered') then m.delivery
                when m.status in ('pending', 'processing') then 'queued'
                when m.status = 'success' then 'sent'
                when m.status in ('dead_letter', 'failed') then 'failed'
                else m.status end as state,
           m.reason, m.created_at, m.sent_at
      from clinic.outgoing o join onceward.messages m on m.id = o.message_id;
comment on view clinic.message_states is 'Messages of the clinic: queued, sent, delivered, read, failed, undelivered, cancelled, unknown.';
grant select on clinic.message_states to onceward_app, onceward_engine;

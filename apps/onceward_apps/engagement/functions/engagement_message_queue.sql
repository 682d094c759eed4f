-- Show the messages of engagement under the names that its specification uses.
create or replace view engagement.engagement_message_queue with (security_invoker = true) as
    select m.id, p.user_id,
           case m.template when 'engagement.goodbye.self_select' then 'goodbye'
                           when 'engagement.weekly_review' then 'weekly_review'
                           when 'engagement.weekly_visit' then 'weekly_review' end as message_type,
           m.template as message_key,
           m.data - 'destination' - 'instead_of' as message_params,
           coalesce(m.data ->> 'destination', 'individual') as destination,
           coalesce(m.address, p.whatsapp_jid) as destination_jid,
           coalesce(m.scheduled_for, m.created_at) as scheduled_for,
           m.sent_at,
           case when m.delivery = 'failed' then 'failed'        -- the service accepted it and could not deliver it
                when m.status = 'success' then 'sent' when m.status = 'processing' then 'pending'
                when m.status = 'dead_letter' then 'failed' else m.status end as status,
           m.attempts - case m.status when 'success' then 1 else 0 end as retry_count,
           m.reason as error_message, m.key as idempotency_key, m.created_at
      from onceward.messages m
      -- Both ways: a message finds its user by the primary key, and a user finds messages by their recipient.
      join engagement.user_profiles p on p.organization_id = m.organization_id and p.user_id::text = m.recipient
       and p.user_id = case when m.recipient ~ '^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$' then m.recipient::uuid end
     where m.template in ('engagement.goodbye.self_select', 'engagement.weekly_review', 'engagement.weekly_visit');
comment on view engagement.engagement_message_queue is
    'Messages of engagement under the names that its specification uses: dead_letter = failed, success = sent.';
grant select on engagement.engagement_message_queue to onceward_app, onceward_engine;

-- Return claimed messages with the current addresses and preferences of their recipients.
select m.id, m.organization_id, m.key, m.channel, m.template, m.version, m.category, m.data, m.policy, m.recipient,
       coalesce(m.address, case m.channel
           when 'email' then r.email
           when 'sms' then r.phone
           when 'whatsapp' then coalesce(r.whatsapp, r.phone)
           when 'slack' then r.slack
           when 'push' then r.push::text
           when 'dashboard' then m.recipient end) as address,
       coalesce(m.locale, r.locale) as locale, coalesce(m.timezone, r.timezone) as timezone,
       m.token, coalesce(m.unsure_since, case when m.sending is not null then m.sending_since end) as sending_since,
       r.quiet_from, r.quiet_to, r.heard_at, coalesce(r.destination, 'individual') as destination,
       onceward.now() as now, m.attachments, m.context, m.bulk, m.expires_at,
       (select jsonb_agg(jsonb_build_object('id', t.id, 'owned', t.organization_id is not null, 'template', t.template,
                                            'language', t.language,
                                            'wait_s', extract(epoch from t.probe_at - clock_timestamp())))
          from onceward.account_troubles t
         where t.channel = m.channel and (t.organization_id is null or t.organization_id = m.organization_id)
           and (t.template is null or t.template = m.template)) as troubles,
       exists (select from onceward.lanes l
                where l.queue = 'message.' || m.channel || '.own' and l.lane = m.organization_id::text and l.failures > 0) as is_trial,
       exists (select from onceward.work w
                where w.id = m.id and w.queue = 'message.' || m.channel || '.own') as is_own,
       extract(epoch from onceward.now()
           - coalesce(m.unsure_since, case when m.sending is not null then m.sending_since end))::float8 as sending_for_s
  from onceward.messages m
  left join onceward.recipients r
    on r.ref = m.recipient
   and coalesce(r.organization_id, '00000000-0000-0000-0000-000000000000')
       = coalesce(m.organization_id, '00000000-0000-0000-0000-000000000000')
 where m.id = any($1::bigint[])

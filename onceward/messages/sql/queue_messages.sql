-- Store messages with their work. A key that exists already is left out: each key is sent once. The version of the template is
-- stored once per organization, so that no organization can replace a text of another one.
with kept as (
    insert into onceward.templates (organization_id, name, version, content) values ($9, $11, $12, $21) on conflict do nothing
), input as materialized (
    select nextval('onceward.ids') as id, i.*
      from unnest($1::text[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::text[], $7::timestamptz[], $8::jsonb[])
           as i (key, recipient, address, data, locale, timezone, scheduled_for, attachments)
     order by i.key   -- the same order everywhere: two transactions with the same keys must not deadlock
), written as (
    insert into onceward.messages
        (id, organization_id, key, channel, template, version, category, policy, notification, caused_by, token,
         recipient, address, data, locale, timezone, scheduled_for, attachments, context)
    select id, $9, key, $10, $11, $12, $13, $14, $15, $16,
           case when $13 <> 'transactional' then gen_random_uuid() end,
           recipient, address, data, locale, timezone, scheduled_for, attachments, $20
      from input
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) do nothing
    returning id, key, scheduled_for
), queued as (
    insert into onceward.work (id, organization_id, kind, task, queue, sort_at, max_attempts)
    select id, $9, 'message', $17, $18, greatest(coalesce(scheduled_for, onceward.now()), onceward.now()), $19 from written
)
select id, key from written

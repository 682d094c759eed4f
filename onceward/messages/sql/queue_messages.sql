-- Store messages with their work. A key that exists already is left out: each key is sent once. The version of the template is
-- stored once per organization, so that no organization can replace a text of another one.
with kept as (
    insert into onceward.templates (organization_id, name, version, content) values ($organization, $template, $version, $content)
    on conflict do nothing
), line as materialized (
    select * from onceward.message_line($channel, $organization, $bulk, $own)
), input as materialized (
    select nextval('onceward.ids') as id, i.*
      from unnest($keys::text[], $recipients::text[], $addresses::text[], $data::jsonb[], $locales::text[], $timezones::text[],
                  $scheduled_for::timestamptz[], $expires_at::timestamptz[],
                  $attachments::jsonb[])
           as i (key, recipient, address, data, locale, timezone, scheduled_for, expires_at, attachments)
     order by i.key   -- the same order everywhere: two transactions with the same keys must not deadlock
), written as (
    insert into onceward.messages
        (id, organization_id, key, channel, template, version, category, policy, notification, caused_by, token,
         recipient, address, data, locale, timezone, scheduled_for, expires_at, attachments, context, bulk)
    select id, $organization, key, $channel, $template, $version, $category, $policy, $notification, $caused_by,
           case when $category <> 'transactional' then gen_random_uuid() end,
           recipient, address, data, locale, timezone, scheduled_for, expires_at, attachments, $context, $bulk
      from input
    on conflict (coalesce(organization_id, '00000000-0000-0000-0000-000000000000'), key) do nothing
    returning id, key, scheduled_for
), queued as (
    insert into onceward.work (id, organization_id, line, kind, task, queue, lane, cap, sort_at, max_attempts)
    select id, $organization, onceward.line_of($organization, null), 'message', $task, line.queue, line.lane,
           case when line.lane is not null then line.cap end,
           greatest(coalesce(scheduled_for, onceward.now()), onceward.now()), $max_attempts
      from written, line
)
select id, key, line.queue from written, line

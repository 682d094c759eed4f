-- Count the messages of a period by organization, channel, template, state and reason.
-- The BRIN index on created_at bounds what is read.
-- $1 from, $2 until, $3 organization (null: all that the caller may see)
select m.organization_id, o.slug as organization, m.channel, m.template,
       count(*) as queued,
       count(*) filter (where m.status = 'success') as sent,
       count(*) filter (where m.delivery in ('delivered', 'read')) as delivered,
       count(*) filter (where m.delivery = 'read') as read,
       count(*) filter (where m.status in ('dead_letter', 'failed') or m.delivery = 'failed') as failed,
       count(*) filter (where m.status = 'cancelled') as cancelled,
       count(*) filter (where m.status = 'unknown') as unknown,
       case when m.status in ('dead_letter', 'failed', 'cancelled') or m.delivery = 'failed'
            then left(regexp_replace(coalesce(m.reason, 'no reason'), '[0-9]{6,}', '…', 'g'), 120) end as reason
  from onceward.messages m
  left join onceward.organizations o on o.organization_id = m.organization_id
 where m.created_at >= $1 and m.created_at < $2 and ($3::uuid is null or m.organization_id = $3)
 group by m.organization_id, o.slug, m.channel, m.template,
          case when m.status in ('dead_letter', 'failed', 'cancelled') or m.delivery = 'failed'
               then left(regexp_replace(coalesce(m.reason, 'no reason'), '[0-9]{6,}', '…', 'g'), 120) end
 order by o.slug nulls first, m.channel, m.template, queued desc
 limit 50000

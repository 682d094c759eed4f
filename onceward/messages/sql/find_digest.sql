-- Return the digest that a message waits for, or the recipient's choice for its topic. No row: the message is sent alone.
select c.period, e.digest, d.status, d.reason, d.scheduled_for, e.is_included
  from (select) one
  left join (onceward.digest_entries e join onceward.messages d on d.id = e.digest) on e.message = $1
  left join onceward.digest_choices c
    on c.organization_id is not distinct from $2 and c.recipient in ($3, lower($3), lower($4)) and c.category = $5
 where c.period is not null or e.digest is not null
 limit 1

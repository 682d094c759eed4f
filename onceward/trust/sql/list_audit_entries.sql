-- List audit entries by any combination of filters, newest first.
select id, organization_id, at, action, entity_type, entity_id, actor, user_id, reason, changes, metadata, caused_by,
       erased_at
from onceward.audit_log
where ($1::uuid is null or organization_id = $1)
  and ($2::text is null or action = $2)
  and ($3::text is null or entity_type = $3)
  and ($4::text is null or entity_id = $4)
  and ($5::bigint is null or id < $5)
order by id desc
limit $6

-- List the audit entries with ids below $1 and from $2 on, by any combination of filters, newest first, $3 at most.
select id, organization_id, at, action, entity_type, entity_id, actor, user_id, reason, changes, metadata, caused_by,
       erased_at
from onceward.audit_log
where id < $1 and id >= $2
  and ($4::uuid is null or organization_id = $4)
  and ($5::text is null or action = $5)
  and ($6::text is null or entity_type = $6)
  and ($7::text is null or entity_id = $7)
order by id desc
limit $3

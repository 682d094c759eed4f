-- Add an entry to the audit log.
insert into onceward.audit_log
    (organization_id, action, entity_type, entity_id, actor, user_id, reason, changes, metadata)
values (coalesce($1, onceward.organization()), $2, $3, $4, $5, $6, $7, $8, $9)

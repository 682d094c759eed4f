-- Add an entry to the audit log for each of several entities.
insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, user_id, reason, changes)
select coalesce($1, onceward.organization()), $2, $3, e.id, $5, $6, $7, e.changes
  from unnest($4::text[], $8::jsonb[]) as e (id, changes)

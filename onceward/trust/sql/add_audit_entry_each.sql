-- Append an entry for each entity: organizations $5, types $6, ids $7 and metadata $8 of one action.
insert into onceward.audit_log (organization_id, action, entity_type, entity_id, actor, user_id, reason, metadata)
select e.organization_id, $1, e.entity_type, e.entity_id, $2, $3, $4, e.metadata
  from unnest($5::uuid[], $6::text[], $7::text[], $8::jsonb[]) as e (organization_id, entity_type, entity_id, metadata)

-- The newest audit entries and notes about one object.
(select a.at, a.action, null as body, a.actor, a.reason, a.caused_by, a.changes from onceward.audit_log a
  where a.entity_type = any($1) and a.entity_id = $2 order by a.id desc limit $3)
union all
(select n.created_at, 'note', n.body, n.author, null, null, null from onceward.desk_notes n
  where n.entity_type = ($1::text[])[1] and n.entity_id = $2 order by n.id desc limit $3)
order by 1 desc limit $3

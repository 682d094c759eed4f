-- Record an action on several rows.
insert into onceward.desk_runs (organization_id, action, given, reason, actor, actor_id, rows)
values ($1, $2, $3, $4, $5, $6, $7) returning id

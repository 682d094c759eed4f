-- End a run before its last row, and keep the reason.
update onceward.desk_runs set stopped = $2, ended_at = onceward.now() where id = $1 and ended_at is null

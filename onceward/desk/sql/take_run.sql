-- Lock a run that is not finished.
select action, given, reason, actor, rows, done from onceward.desk_runs where id = $1 and ended_at is null for update

-- Lock a run that has rows left. One that stopped goes on if its job is replayed.
select action, given, reason, actor, actor_id, rows, done from onceward.desk_runs
 where id = $1 and (ended_at is null or stopped is not null) for update

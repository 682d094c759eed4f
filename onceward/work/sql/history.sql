-- Return every attempt of one work item, oldest first.
select number, outcome, worker, started_at, finished_at, result, error
  from onceward.attempts where work_id = $1 order by number, finished_at

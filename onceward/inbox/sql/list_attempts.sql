-- List the attempts of one event in the order in which they ended.
select number, outcome, started_at, finished_at, result, error from onceward.attempts where work_id = $1
 order by number, finished_at

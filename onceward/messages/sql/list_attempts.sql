-- List the attempts of one message in the order in which they ended.
select number, outcome, started_at, finished_at, error ->> 'type' as error, error ->> 'message' as message
  from onceward.attempts where work_id = $1 order by number, finished_at

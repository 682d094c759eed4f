-- Return the scope of the latest run if that run failed, so that a new run continues where it stopped.
select scope from onceward.runs r
 where schedule = $1 and id = (select max(id) from onceward.runs where schedule = $1 and status <> 'skipped')
   and status = 'failed'

-- Find unfinished workflows without work, and finished ones with work.
select f.id, f.name, f.state, w.id is not null as work from onceward.workflows f
  left join onceward.work w on w.id = f.id
  where (f.state in ('running', 'compensating', 'dead_letter')) <> (w.id is not null) limit 100

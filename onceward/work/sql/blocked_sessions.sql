-- Which of these sessions wait for a row or for a transaction, and which sessions they wait for.
select pid, pg_blocking_pids(pid) as blocked_by
from pg_stat_activity
where pid = any($1::int[]) and wait_event_type = 'Lock'

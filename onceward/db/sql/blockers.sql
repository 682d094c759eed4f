-- Return the sessions for which a session waits, without the text of their statements, which contains values.
select a.pid, a.backend_type, a.state, a.application_name, a.usename,
       extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8 as age_s,
       upper(substring(a.query from '^\s*([A-Za-z]+)\y')) as statement
  from unnest(pg_blocking_pids($1)) as blocking (pid)
  join pg_stat_activity a on a.pid = blocking.pid
 order by age_s desc nulls last

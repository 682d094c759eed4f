-- Return the running processes whose code has this owner, but not this migration.
select service, host, pid, version
  from onceward.processes
 where seen_at > clock_timestamp() - make_interval(secs => $3) and (knows ->> $1)::int < $2
 order by host, pid
